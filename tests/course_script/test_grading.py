"""Tests of what ./course grade, run and check are made of, without a build (tests/grade has the whole).

    python3 -m unittest discover -s tests/course_script
"""
import contextlib
import dataclasses
import json
import math
import os
import stat
import subprocess
import sys
import tempfile
import types
import unittest
import xml.etree.ElementTree as xml
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools" / "exercises"), str(ROOT / "tools")]
sys.dont_write_bytecode = True
import commands  # noqa: E402
import compiler  # noqa: E402
import course_base  # noqa: E402
import grade  # noqa: E402
import grades  # noqa: E402
import runs  # noqa: E402
import sandbox  # noqa: E402
import submission  # noqa: E402
del sys.path[:2]

FILE = "work/01_split/split.cpp"
THROUGH_A_TEMPLATE = f"""[1/3] Building CXX object x.o
FAILED: x.o
/usr/bin/c++ -c x.cpp
In file included from ../tests/exercises/not_written.hpp:4,
                 from <command-line>:
/course/common/check.hpp: In instantiation of ‘std::string course::cat(const Parts& ...) [with Parts = Q]’:
/course/{FILE}:2:9:   required from here
/course/common/check.hpp:20:18: error: no match for ‘operator<<’ (operand types are ‘std::ostringstream’ and ‘const Q’)
   20 |   (out << ... << parts);
      |   ~~~~^~~~~~~~~~~~~~~~
/usr/include/c++/12/ostream:108:7: note: candidate: ‘std::basic_ostream<char>& operator<<(int)’
  108 |       operator<<(int)
      |       ^~~~~~~~
""" + "/usr/include/c++/12/ostream:108:7: note:   no known conversion\n" * 200
NOT_DECLARED = f"""/course/{FILE}:3:5: error: ‘allreduce’ was not declared in this scope
    3 |     allreduce(x);
      |     ^~~~~~~~~
/course/{FILE}:4:9: error: too few arguments to function ‘void f(int)’
    4 |     f();
      |      ~^
In file included from /course/{FILE}:1:
/course/chapters/01_split/split.hpp:12:6: note: declared here
   12 | void f(int);
      |      ^
"""


class Compiler(unittest.TestCase):
    def short(self, output):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / FILE
            path.parent.mkdir(parents=True)
            path.write_text("first\n  cat(Q{});\n")
            return compiler.short(output.replace("/course/", folder + "/"), Path(folder), FILE).splitlines()

    def test_an_error_in_a_header_is_told_by_the_learners_line(self):
        self.assertEqual(self.short(THROUGH_A_TEMPLATE),
                         [f"{FILE}:2: no match for 'operator<<' (operand types are 'std::ostringstream' and 'const Q')",
                          "    2 |   cat(Q{});", "  (found in common/check.hpp:20, which this line uses)"])

    def test_each_error_with_its_mark_and_where_it_is_declared(self):
        self.assertEqual(self.short(NOT_DECLARED),
                         [f"{FILE}:3: 'allreduce' was not declared in this scope", "    3 |     allreduce(x);", "      |     ^~~~~~~~~",
                          f"{FILE}:4: too few arguments to function 'void f(int)'", "    4 |     f();", "      |      ~^",
                          "  chapters/01_split/split.hpp:12: declared here"])
        of_museum = self.short(NOT_DECLARED.replace("/course/chapters/01_split", "../../../museum/03_six"))
        self.assertEqual(of_museum[-1], "  museum/03_six/split.hpp:12: declared here")

    def test_what_does_not_link(self):
        line, = self.short("ld: x.o: undefined reference to `course::row_split(course::Comm&)'\nld: undefined reference to `course::row_split(x)'")
        self.assertTrue(line.startswith("row_split: declared, and not in your file"), line)

    def test_whose_fault_it_is(self):
        for words in (THROUGH_A_TEMPLATE, NOT_DECLARED, "ld: undefined reference to `course::row_split(x)'", "ld: multiple definition of `main'; x"):
            self.assertTrue(compiler.blames(words, FILE), words[:80])
        for words in ("CMake Error at CMakeLists.txt:3: no such", f"/course/{FILE}:3:5: warning: unused variable ‘x’\n"
                      "{standard input}: Fatal error: can't write 34 bytes: No space left on device",
                      "ld: final link failed: No space left on device\ncollect2: error: ld returned 1 exit status"):
            self.assertFalse(compiler.blames(words, FILE), words[:80])

    def test_a_full_disk_is_not_the_learners(self):
        exercise = types.SimpleNamespace(name="split", folder="01_split", path=Path("split.cpp"))
        course = types.SimpleNamespace(ROOT=Path("/course"))
        for words, said in (("No space left on device", "the build failed"), (f"/course/{FILE}:3:5: error: no", "split does not compile")):
            with mock.patch.object(runs, "build", lambda *_: words):
                self.assertTrue(runs.check(course, exercise, "work").said(exercise).startswith(said), words)

    def test_as_many_compilers_as_memory_holds(self):
        course = types.SimpleNamespace(cache=lambda: True, build_folder=lambda: Path("b"), jobs=lambda: 3, cores=lambda: 64,
                                       capture=mock.Mock(return_value=(0, "")))
        runs.build(course, ["exercise_split.work"])
        self.assertEqual(course.capture.call_args[0][0][2:], [Path("b"), "-j", "3", "--target", "exercise_split.work"])

    def test_words_of_another_kind_are_kept(self):
        self.assertEqual(self.short("[1/2] Building\nc++: fatal error: Killed signal terminated program cc1plus\ncompilation terminated.\n")
                         [-1:], ["c++: fatal error: Killed signal terminated program cc1plus"])


class Numbers(unittest.TestCase):
    RIGHT = [["row_split", 0, ["[2]", 1.0, -0.5]], ["what this rank sends", 0, ["1 all-reduce of 8 bytes"]], ["matches", 0, ["yes"]]]

    def changed(self, at, value):
        mine = json.loads(json.dumps(self.RIGHT))
        mine[at][2] = value
        return submission.agrees(mine, self.RIGHT)

    def test_equal_up_to_rounding(self):
        self.assertTrue(self.changed(0, ["[2]", 1.000001, -0.500001]))
        self.assertTrue(self.changed(1, ["2 all-gather of 9 bytes"]))       # the check has judged that
        for wrong in (["[2]", 1.01, -0.5], ["[2]", 1.0], ["[1,2]", 1.0, -0.5], ["[2]", "nan", -0.5], [], None, 3):
            self.assertFalse(self.changed(0, wrong), wrong)
        self.assertFalse(self.changed(0, ["[2]", math.nan, -0.5]))
        self.assertFalse(self.changed(2, ["no"]))
        for mine in ([], self.RIGHT[:2], [1, 2, 3], [["row_split"]] * 3, [["another", *self.RIGHT[0][1:]], *self.RIGHT[1:]]):
            self.assertFalse(submission.agrees(mine, self.RIGHT), mine)

    def test_an_integer_that_no_float_holds(self):
        self.assertFalse(self.changed(0, ["[2]", 10**400, -0.5]))
        self.assertFalse(runs.alike([10**400], [1.0]))

    def test_a_report_may_be_anything(self):
        right = {"checks": 2, "passed": True, "fault": None, "values": []}
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "report.json"
            self.assertIsNone(runs.report_in(path))
            for text in ("", "{", "[]", "3", "[" * 10**5, '{"checks": 2}', *(json.dumps({**right, key: bad}) for key, bad in (
                    ("checks", "many"), ("passed", 1), ("fault", "x"), ("fault", {"what": 3}), ("values", {}), ("passed", False))),
                    *(json.dumps({**right, "passed": passed, "fault": {"what": "x", "with": "y", **more}}) for passed, more in (
                        (True, {}), (False, {"rank": 0}), (False, {"rank": 0, "got": 1})))):
                path.write_text(text)
                self.assertIsNone(runs.report_in(path), text[:40])
            path.write_text(json.dumps(right))
            self.assertEqual(runs.report_in(path), right)
            link = Path(folder) / "link"
            link.symlink_to(path)
            self.assertIsNone(runs.report_in(link))


class Described(unittest.TestCase):
    OWN = "\n".join(f"rank 0: step {i}" for i in range(50))

    def test_a_hang_begins_with_what_each_rank_waits_for(self):
        waits = [f"rank {r}: last call 1 split on world, pending call 2 all-reduce of {r} bytes on world" for r in range(4)]
        lines = runs.described(runs.Outcome(4, "hang", words="\n".join([self.OWN, *waits]))).splitlines()
        self.assertEqual([line.strip() for line in lines[1:5]], waits)
        self.assertEqual(len(lines), 14)

    def test_an_error_ends_with_its_last_words(self):
        lines = runs.described(runs.Outcome(4, "died", words=self.OWN + "\nno such thing")).splitlines()
        self.assertEqual((lines[1], lines[-1], len(lines)), ("  rank 0: step 0", "  no such thing", 14))


class Kept(unittest.TestCase):
    def test_what_did_not_end_runs_again(self):
        with tempfile.TemporaryDirectory() as folder:
            program, kept = Path(folder) / "program", Path(folder) / "kept.json"
            program.touch()
            for how in ("fault", "hang", "endless"):
                kept.write_text(json.dumps(dataclasses.asdict(runs.Outcome(2, how))))
                os.utime(kept, (program.stat().st_mtime + 1,) * 2)
                found = runs.kept_outcome(kept, program)
                self.assertEqual(found and found.how, None if how == "endless" else how)


class Mpi(unittest.TestCase):
    def test_its_folders_are_opened_where_they_are_not_the_systems(self):
        with tempfile.TemporaryDirectory() as folder:
            own = Path(folder).resolve()
            for name in ("openmpi/bin", "links"):
                (own / name).mkdir(parents=True)
            launcher = own / "openmpi" / "bin" / "mpirun"
            launcher.write_text("#!/bin/sh\n")
            launcher.chmod(0o755)
            (own / "links" / "mpirun").symlink_to(launcher)

            def found(launcher, root):
                return [str(place.relative_to(own)) for place, _ in
                        runs.mpi(types.SimpleNamespace(ROOT=root, launcher=lambda: str(launcher)))]
            self.assertEqual(found(own / "links" / "mpirun", ROOT), ["links", "openmpi"])
            self.assertEqual(found(launcher, own), [])
            self.assertEqual(found("sh", ROOT), [])
            self.assertEqual(found("no-such-launcher", ROOT), [])

    @unittest.skipIf(sandbox.reason(), sandbox.reason())
    def test_a_learners_run_finds_it(self):
        with tempfile.TemporaryDirectory() as folder:
            root, own = Path(folder) / "course", Path(folder) / "mpi" / "bin"
            for path in (root, own):
                path.mkdir(parents=True)
            (own / "mpirun").write_text("#!/bin/sh\necho it runs >&2\nexit 3\n")
            (own / "mpirun").chmod(0o755)
            course = types.SimpleNamespace(ROOT=root, launcher=lambda: str(own / "mpirun"), build_folder=lambda: root, environment=dict)
            self.assertIn("it runs", runs.run_learners(course, root / "program", 2, 1, root / "report.json").words)


class Written(unittest.TestCase):
    def test_all_of_the_course_is_watched_and_nothing_else(self):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            course = {root / name for name in ("README.md", "museum/x.cpp", "benchmarks/a/b.py", "teaching/grading.md")}
            for path in course | {root / name for name in ("work/x.cpp", "build-emulate/x.o", "data/x", "runs/x", ".git/index", "tools/__pycache__/x")}:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.touch()
            self.assertEqual({path for path, _ in runs.written(root)}, course)


class Unbuilt(unittest.TestCase):
    def test_a_full_disk_is_not_the_students(self):
        exercise = types.SimpleNamespace(name="split", folder="01_split", path=Path("split.cpp"))
        judge = submission.Judge.__new__(submission.Judge)
        judge.course = types.SimpleNamespace(ROOT=Path("/course"))

        def result(*ended):
            return judge.unbuilt(exercise, sandbox.End(*ended))
        self.assertIsNone(result(0, f"/course/{FILE}:3:5: warning: unused variable ‘x’\n"))
        self.assertEqual(result(1, f"/course/{FILE}:3:5: error: ‘y’ was not declared in this scope\n").status, "does not compile")
        self.assertEqual(result(137, "", "memory").status, "does not compile")
        full = result(1, "as: {standard input}: Fatal error: can't write 34 bytes: No space left on device\n")
        self.assertEqual(full.status, "not graded")
        self.assertIn("No space left", full.detail)


class Umask(unittest.TestCase):
    def test_nobody_reaches_the_program_whatever_the_umask(self):
        with tempfile.TemporaryDirectory() as folder:
            judge = submission.Judge.__new__(submission.Judge)
            judge.folder, modes = Path(folder), []
            judge.judged = lambda exercise, text, aside: modes.extend(
                stat.S_IMODE(p.stat().st_mode) for p in (aside, aside / "made")) or submission.Result("passed")
            before = os.umask(0o077)
            self.addCleanup(os.umask, before)
            judge.of(None, "text")
            self.assertEqual(modes, [0o755, 0o755])


class Sheet(unittest.TestCase):
    def setUp(self):
        self.sheet = grades.Sheet(7, "bwrap")
        split = types.SimpleNamespace(name="split", number="01", fault=None)
        self.sheet.add("=cmd()", split, submission.Result("wrong", "mean", '-2, "x"\n\x1b[0m<b>'), {"hints": 2})
        self.sheet.add("Zoë", split, submission.Result("passed"), {})
        self.sheet.add("Max", split, submission.Result("not handed in"), {})

    def test_csv_gives_a_spreadsheet_no_formula(self):
        lines = grades.as_csv(self.sheet).splitlines()
        self.assertEqual(lines[0], ",".join(grades.COLUMNS))
        self.assertTrue(lines[1].startswith("'=cmd(),01,split,wrong,mean,0,,2,,,\"'-2, "), lines[1])
        self.assertEqual(lines[-2], "Zoë,01,split,passed,,10,,,,,")

    def test_junit_is_xml_whatever_was_handed_in(self):
        root = xml.fromstring(grades.as_junit(self.sheet).split("?>", 1)[1])
        self.assertEqual([(s.get("name"), s.get("failures"), s.get("skipped")) for s in root],
                         [("=cmd()", "1", "0"), ("Zoë", "0", "0"), ("Max", "0", "1")])
        self.assertEqual(root[0][0][0].text, '-2, "x"\n?[0m<b>')

    def test_a_name_is_asked_of_exhibits_alone(self):
        exhibit = types.SimpleNamespace(name="epoch", number="museum/02", fault="x")
        self.sheet.add("Ada", exhibit, submission.Result("passed"), {"named": "today"})
        self.sheet.add("Max", exhibit, submission.Result("passed"), {})
        self.assertEqual([row["named"] for row in self.sheet.rows], [None, None, None, True, False])

    def test_a_line_an_exercise(self):
        self.assertEqual(grades.by_exercise(self.sheet).split("passed")[1].strip(), "1 mean, 1 not handed in")

    def test_a_sheet_is_whole(self):
        with tempfile.TemporaryDirectory() as folder:
            grades.write(Path(folder) / "g.csv", "x\ud800")
            self.assertEqual([p.name for p in Path(folder).iterdir()], ["g.csv"])


class HandedIn(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        (self.root / "me").mkdir()
        (self.root / "other").write_text("theirs")

    def test_only_what_lies_in_the_folder_is_taken(self):
        me = self.root / "me"
        self.assertIsNone(grade.handed_in(me, "a"))
        (me / "a").write_text("mine")
        self.assertEqual(grade.handed_in(me, "a"), b"mine")
        (me / "link").symlink_to("../other")
        (me / "folder").symlink_to("..")
        (me / "gone").symlink_to("../nothing")
        (me / "directory").mkdir()
        (me / "large").write_bytes(b"x" * (grade.LARGEST + 1))
        subprocess.run(["mkfifo", me / "pipe"], check=True)
        for name in ("link", "folder/other", "gone", "large", "pipe", "directory"):
            with self.subTest(name), self.assertRaises((grade.Refused, OSError)):
                grade.handed_in(me, name)

    def test_a_link_to_itself_is_refused(self):
        (self.root / "me" / "a").symlink_to("a")
        with self.assertRaises((grade.Refused, OSError)):
            grade.handed_in(self.root / "me", "a")
        (self.root / "me" / "state.json").symlink_to("state.json")
        self.assertEqual(grade.record_of(self.root / "me", types.SimpleNamespace(name="split")), {})

    def test_what_the_grader_did_not_expect_costs_one_line(self):
        course = types.SimpleNamespace(Stop=course_base.Stop)
        with mock.patch.object(grade, "grade_one", side_effect=ZeroDivisionError("by 0")):
            result = grade.grade_safely(course)
        self.assertEqual((result.status, result.detail), ("not graded", "the grader failed: ZeroDivisionError: by 0"))
        for ends in (course.Stop(""), commands.Unknown(""), KeyboardInterrupt()):
            with mock.patch.object(grade, "grade_one", side_effect=ends), self.assertRaises(type(ends)):
                grade.grade_safely(course)

    def test_a_record_that_is_none_counts_for_nothing(self):
        exercise = types.SimpleNamespace(name="split")
        for text in ("", "[]", "{", '{"split": 3}', '{"split": {"hints": "=1", "shown": 1, "checks": true, "named": {}}}', "[" * 10**5):
            (self.root / "me" / "state.json").write_text(text)
            self.assertEqual(grade.record_of(self.root / "me", exercise), {}, text[:20])
        (self.root / "me" / "state.json").write_text('{"split": {"hints": 2, "shown": true}}')
        self.assertEqual(grade.record_of(self.root / "me", exercise), {"hints": 2, "shown": True})

    def test_the_museum_is_graded_where_it_is_asked_for(self):
        known = {name: types.SimpleNamespace(name=name, number=number, fault=fault) for name, number, fault in
                 (("split", "01", None), ("ring", "02", None), ("epoch", "museum/02", "x"))}
        for words, names in (([], ["split", "ring"]), (["--museum"], ["split", "ring", "epoch"]), (["--only", "epoch"], ["epoch"]),
                             (["--only", "museum/2", "--only", "ring"], ["epoch", "ring"]), (["--only", "museum"], ["epoch"]),
                             (["--museum", "--only", "ring"], ["ring"])):
            options = grade.options_of(None, ["--class", "x", *words])
            self.assertEqual([e.name for e in grade.wanted(None, known, options)], names, words)

    def test_a_class_that_all_can_read_is_refused(self):
        course = types.SimpleNamespace(Stop=type("Stop", (Exception,), {}), ROOT=ROOT, launcher=lambda: "sh")
        with mock.patch.object(sandbox, "reason", lambda: ""):
            grade.refuse_open(course, self.root)
            with mock.patch.object(sandbox, "SYSTEM", [*sandbox.SYSTEM, str(self.root)]), self.assertRaises(course.Stop):
                grade.refuse_open(course, self.root / "me")
            with mock.patch.object(runs, "mpi", lambda course: [(self.root, self.root)]), self.assertRaises(course.Stop):
                grade.refuse_open(course, self.root / "me")

    def test_wrong_usage_is_one_line(self):
        def course(*words):
            done = subprocess.run([sys.executable, str(ROOT / "course"), "grade", *map(str, words)], capture_output=True, text=True)
            return done.returncode, done.stderr.strip().splitlines()[-1]
        (self.root / "empty").mkdir()
        for words, said in ((("--class", self.root / "none"), "there is no folder"), (("--class", self.root / "empty"), "holds no folders"),
                            (("--class", self.root, "--out", "x.pdf"), ".csv, .json, .xml"),
                            (("--class", self.root, "--out", self.root / "no" / "x.csv"), "there is no folder"),
                            (("--class", self.root, "--only", "splt"), "there is no exercise 'splt'; did you mean split?"),
                            (("--class", self.root, "--student", "her"), "there is no student 'her'; there are empty, me"),
                            (("--class", self.root, "--seconds", "0"), "above 0"), ((), "required: --class")):
            code, line = course(*words)
            self.assertEqual(code, 2, words)
            self.assertIn(said, line)


class Sandbox(unittest.TestCase):
    """The limits, with bwrap where it is and without."""

    WAYS = ([""] if not sandbox.reason() else []) + ["switched off by the test"]

    def way(self, why):
        stack = contextlib.ExitStack()
        stack.enter_context(self.subTest(bwrap=not why))
        stack.enter_context(mock.patch.object(sandbox, "reason", lambda: why))
        return stack

    def sh(self, script, **limits):
        return sandbox.run(["sh", "-c", script], limits=sandbox.Limits(**limits))

    def test_code_words_and_limits(self):
        for why in self.WAYS:
            with self.way(why):
                self.assertEqual(self.sh("echo out; echo words >&2; exit 3"), sandbox.End(3, "words\n"))
                self.assertEqual(self.sh("kill -KILL $$").code, 137)
                self.assertEqual(self.sh("sleep 60", seconds=0.3).over, "time")
                words = self.sh("echo first >&2; head -c 5000000 /dev/zero >&2; echo last >&2").words
                self.assertEqual((len(words), words[:6], words[-5:]), (sandbox.KEPT, "first\n", "last\n"))
                self.assertNotEqual(self.sh("head -c 2000000 /dev/zero > $(mktemp)", file=10**6).code, 0)
                self.assertEqual(self.sh("python3 -c 'a = bytearray(200 << 20); import time; time.sleep(60)'", memory=100 << 20).over, "memory")

    def test_processes_are_few_and_do_not_outlive_it(self):
        for why in self.WAYS:
            with self.way(why):
                ended = self.sh("i=0; while [ $i -lt 60 ]; do sleep 54321 & i=$((i+1)); done; setsid sleep 54321 &", processes=30)
                self.assertIn("annot fork", ended.words)
                alive = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True).stdout
                self.assertNotIn("sleep 54321", alive)

    def test_without_bwrap_it_says_so(self):
        with mock.patch("shutil.which", return_value=None):
            self.assertIn("bubblewrap", sandbox.reason.__wrapped__())


class Foreign(unittest.TestCase):
    """What a file defines that is not its own."""

    SOLUTION = "int split() { return 1; }"
    REST = """namespace course { void judge() {} }
int counted = 0;
inline int small() { return 1; }
int (*use)() = small;
int main() {}
"""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.build = Path(folder.name)
        cls.words = ["c++", cls.compiled("solution.cpp", cls.SOLUTION), cls.compiled("rest.cpp", cls.REST), "-o", str(cls.build / "program")]
        subprocess.run(cls.words, check=True)

    @classmethod
    def compiled(cls, name, text):
        (cls.build / name).write_text(text)
        subprocess.run(["c++", "-c", cls.build / name, "-o", cls.build / f"{name}.o"], check=True)
        return str(cls.build / f"{name}.o")

    def found(self, mine):
        judge = submission.Judge.__new__(submission.Judge)
        judge.course, judge.others = types.SimpleNamespace(build_folder=lambda: self.build), {}
        judge.version = lambda exercise, name: self.build / "program"
        with mock.patch.object(commands, "linking", lambda *_: self.words):
            return judge.foreign(types.SimpleNamespace(name="split"), self.compiled("mine.cpp", mine))

    def test_names_of_its_own(self):
        for mine in ("int calls = 0;", "namespace course { int helper() { return 1; } }", "int split() { return 2; } int size = 3;",
                     "inline int small() { return 2; } int (*mine)() = small;"):
            self.assertEqual(self.found(mine), [], mine)

    def test_names_of_others(self):
        for mine, name in (("namespace course { void judge() { throw 1; } }", "course::judge()"), ("int counted = 9;", "counted"),
                           ('extern "C" [[noreturn]] void exit(int) { throw 1; }', "exit"), ("int optind = 3;", "optind"),
                           ('extern "C" __attribute__((weak)) int puts(const char*) { return 0; }', "puts")):
            self.assertEqual(self.found(mine), [name], mine)

    def test_a_name_may_be_longer_than_an_argument(self):
        name, = self.found(f'extern "C" void {"x" * 200000}() {{}}')
        self.assertLess(len(name), 500)


class Commands(unittest.TestCase):
    def test_make_and_ninja_give_the_same_words(self):
        with tempfile.TemporaryDirectory() as folder:
            build = Path(folder)
            there = build / "tests" / "CMakeFiles" / "x.solution.dir"
            there.mkdir(parents=True)
            (build / "tests" / "a.o").touch()
            (there / "link.txt").write_text("/usr/bin/c++ -O2 a.o -o x libgone.a")
            course = types.SimpleNamespace(build_folder=lambda: build)
            self.assertEqual(commands.linking(course, "x.solution"), ["/usr/bin/c++", "-O2", str((build / "tests" / "a.o").resolve()), "-o", "x", "libgone.a"])
            with self.assertRaises(commands.Unknown):
                commands.linking(course, "y")
            (build / "compile_commands.json").write_text(json.dumps([
                {"directory": folder, "file": "/x.cpp", "command": "/usr/bin/ccache /usr/bin/c++ -O1 -o x.o -c /x.cpp"}]))
            self.assertEqual(commands.compiling(course, Path("/x.cpp")), (["/usr/bin/c++", "-O1"], build / "x.o"))
            with self.assertRaises(commands.Unknown):
                commands.compiling(course, Path("/y.cpp"))


if __name__ == "__main__":
    unittest.main()
