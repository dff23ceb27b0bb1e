"""Tests of the exercises' tools: what a marked source may look like, what is made from it, and a learner's commands.

    python3 -m unittest discover -s tests/course_script
"""
import concurrent.futures
import contextlib
import hashlib
import io
import json
import os
import subprocess
import sys
import tempfile
import types
import unittest
import unittest.mock
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "exercises"))
sys.dont_write_bytecode = True
import make  # noqa: E402
import course_base  # noqa: E402
import matrix  # noqa: E402
import own  # noqa: E402
import runs  # noqa: E402
import source  # noqa: E402
import work  # noqa: E402
sys.path.pop(0)

MARKED = """#include "sum.hpp"
int sum(int a, int b) {
  // exercise sum {
  int all = a;
  all += b;
  return all;
  // } exercise
}
int twice(int a) {
  // exercise sum {
  return 2 * a;
  // } exercise
}

// Exercise 01 sum
// Task: Add
// two numbers.
// Hint: a first.
// Hint: then b.
// Why: Addition.
// Wrong only_a: b is forgotten.
//   - all += b;
// Wrong minus: Taken away.
//   - all += b;
//   - return all;
//   + all -= b;
//   + return all;
// Wrong thrice: Three times.
//   - return 2 * a;
//   + return 3 * a;
"""

EXHIBIT = """int answer() {
  // exercise six {
  return 6 * 7;
  // } exercise
}

// Exhibit 03 six
// Task: it should be 42.
// Why: six times seven.
// Fault not_added: it is added.
//   - return 6 * 7;
//   + return 6 + 7;
// Seen 2: on two ranks
//   | rank 0: last none
"""


class InAFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)

    def write(self, text, name="chapters/01_sums/sum.cpp"):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path


class Source(InAFolder):
    def test_the_files_made_from_it(self):
        exercise = source.exercise_in(self.write(MARKED))
        self.assertEqual((exercise.name, exercise.number, exercise.folder), ("sum", "01", "01_sums"))
        self.assertEqual((exercise.task, exercise.hints, exercise.why), ("Add two numbers.", ["a first.", "then b."], "Addition."))
        stub, solution = source.stub(exercise), source.solution(exercise)
        self.assertEqual(stub.count('not_written("sum");'), 2)
        self.assertNotIn("return", stub)
        self.assertIn("  all += b;\n  return all;\n", solution)
        for text in (stub, solution):
            self.assertNotIn("Wrong", text)
            self.assertEqual(text.count("// exercise sum {"), 2)
        only_a, minus, thrice = (source.answer(exercise, w) for w in exercise.wrong)
        self.assertIn("  int all = a;\n  return all;\n", only_a)
        self.assertIn("  all -= b;\n  return all;\n", minus)
        self.assertIn("  return 3 * a;\n", thrice)
        self.assertIn("all += b;", thrice)

    def test_a_source_without_marks_is_no_exercise(self):
        self.assertIsNone(source.exercise_in(self.write("int a;\n")))

    def test_faults_name_the_file_and_what_is_wrong(self):
        faults = {
            "has no end": MARKED.replace("  // } exercise\n}\n\n", "}\n\n"),
            "begins inside sum": MARKED.replace("  // } exercise\n}\nint", "}\nint"),
            "the end of no exercise": MARKED.replace("  // exercise sum {\n  return 2", "  return 2"),
            "wants one exercise": MARKED.replace("// Exercise 01 sum", "// Exercise 01 product"),
            "0 parts and 1 titles": MARKED[MARKED.index("// Exercise"):],
            "one Task and one Why": MARKED.replace("// Why: Addition.\n", ""),
            "are the end of its file": MARKED + "int after;\n",
            "neither Task": MARKED.replace("// Task: Add\n", "// Add\n"),
        }
        for words, text in faults.items():
            with self.subTest(words), self.assertRaises(source.Fault) as caught:
                source.exercise_in(self.write(text))
            self.assertIn("sum.cpp", str(caught.exception))
            self.assertIn(words, str(caught.exception))

    def test_a_fault_ends_any_command_in_one_line(self):
        self.assertTrue(issubclass(source.Fault, course_base.Stop))
        self.assertEqual(source.Fault("where: what").code, 1)
        command = [sys.executable, str(ROOT / "tools" / "exercises" / "make.py"), "list", str(self.root)]
        made = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual((made.returncode, made.stdout, made.stderr), (0, "", ""))      # as CMake calls it, with no path set
        self.write(MARKED.replace("// Why: Addition.\n", ""))
        made = subprocess.run(command, capture_output=True, text=True)
        self.assertRegex(made.stderr, r"\Aexercises: .*sum.cpp: .* one Why\n\Z")

    def test_a_wrong_answer_must_change_one_place(self):
        faults = {
            "does not stand in a marked part": MARKED.replace("//   - return 2 * a;", "//   - return 4 * a;"),
            "stands 2 times": MARKED.replace("  int all = a;\n", "  int all = a;\n  all += b;\n"),
            "'nothing' does not stand": MARKED.replace("//   - return 2 * a;\n//   + return 3 * a;\n", ""),
        }
        for words, text in faults.items():
            exercise = source.exercise_in(self.write(text))
            with self.subTest(words), self.assertRaises(source.Fault) as caught:
                for wrong in exercise.wrong:
                    source.answer(exercise, wrong)
            self.assertIn(words, str(caught.exception))

    def test_one_name_in_two_sources(self):
        self.write(MARKED)
        self.write(MARKED, "chapters/02_more/sum.cpp")
        with self.assertRaises(source.Fault) as caught:
            make.exercises(self.root)
        self.assertIn("is in", str(caught.exception))

    def test_what_has_not_changed_is_not_written_again(self):
        exercise, folder = source.exercise_in(self.write(MARKED)), self.root / "made"
        make.write(exercise, folder)
        self.assertEqual(sorted(p.name for p in folder.iterdir()),
                         ["solution.cpp", "stub.cpp", "wrong_minus.cpp", "wrong_only_a.cpp", "wrong_thrice.cpp"])
        os.utime(folder / "stub.cpp", (1, 1))
        make.write(exercise, folder)
        self.assertEqual((folder / "stub.cpp").stat().st_mtime, 1)


class Ours(unittest.TestCase):
    """The course's own exercises, as far as it can be seen without building them."""

    def test_there_are_enough(self):
        ours = make.exercises(ROOT)
        self.assertGreaterEqual(len(ours), 18)
        self.assertGreaterEqual(sum(len(e.wrong) for e in ours.values()), 70)
        self.assertEqual({e.number for e in ours.values()}, {f"{n:02}" for n in range(1, 14)})
        for e in ours.values():
            with self.subTest(e.name):
                self.assertGreaterEqual(len(e.wrong), 3)
                self.assertGreaterEqual(len(e.hints), 1)
                self.assertEqual(len({w.name for w in e.wrong}), len(e.wrong))
                texts = [source.solution(e), source.stub(e), *(source.answer(e, w) for w in e.wrong)]
                self.assertEqual(len(set(texts)), len(texts), "two versions are the same")
                self.assertTrue((ROOT / "tests" / "exercises" / f"{e.number}_{e.name}.cpp").is_file())

    def test_each_chapter_names_its_exercises(self):
        for e in make.exercises(ROOT).values():
            readme, = ROOT.glob(f"chapters/{e.number}_*/README.md")
            text = readme.read_text(encoding="utf-8")
            self.assertIn(f"`./course start {e.number}`", text)
            self.assertIn(f"`{e.name}`", text)


class Stop(Exception):
    def __init__(self, words, code=1):
        super().__init__(words)
        self.code = code


class Learner(InAFolder):
    def setUp(self):
        super().setUp()
        self.write(MARKED)
        self.write(MARKED.replace("sum", "difference").replace("Exercise 01", "Exercise 02"), "chapters/02_more/difference.cpp")
        self.course = types.SimpleNamespace(ROOT=self.root, Stop=Stop, short=lambda p: str(Path(p).relative_to(self.root)),
                                            no_more=lambda words, command: None)
        self.file = self.root / "work" / "01_sums" / "sum.cpp"

    def run_it(self, command, *words):
        with contextlib.redirect_stdout(io.StringIO()) as said:
            code = work.main(self.course, command, list(words))
        return code, said.getvalue()

    def refused(self, command, *words):
        with self.assertRaises(Stop) as caught:
            self.run_it(command, *words)
        return str(caught.exception)

    def state(self):
        return json.loads((self.root / "work" / "state.json").read_text())["sum"]

    def test_start_gives_the_stub_and_never_writes_over_it(self):
        code, said = self.run_it("start", "1")
        self.assertEqual(code, 0)
        self.assertIn("Add two numbers.", said)
        self.assertIn('not_written("sum");', self.file.read_text())
        self.file.write_text("mine")
        self.assertIn("begun already", self.run_it("start", "sum")[1])
        self.assertEqual(self.file.read_text(), "mine")

    def test_what_is_unknown_or_not_begun(self):
        self.assertIn("there is no exercise 'product'; they are 01 sum, 02 difference", self.refused("start", "product"))
        self.assertIn("there is no exercise '07'", self.refused("check", "07"))
        self.assertIn("one exercise, not 2", self.refused("check", "01", "02"))
        self.assertIn("no exercise is begun", self.refused("check"))
        self.assertIn("work/01_sums/sum.cpp is missing", self.refused("check", "sum"))

    def test_a_chapter_with_two_exercises_means_the_one_that_is_begun(self):
        self.write(MARKED.replace("sum", "zero"), "chapters/01_sums/zero.cpp")
        self.run_it("start", "zero")
        self.assertIn("zero", self.run_it("solution", "01", "--anyway")[1])
        self.assertIn("zero is begun already", self.run_it("start", "01")[1])
        self.run_it("reset", "zero")
        with checked(runs.Verdict([runs.Outcome(r, "passed", 3) for r in runs.RANKS])):
            self.run_it("check", "01")
        self.assertIn("01 sum: write", self.run_it("start", "01")[1])

    def test_hints_come_one_after_the_other(self):
        self.run_it("start", "01")
        said = [self.run_it("hint")[1] for _ in range(3)]
        self.assertEqual(["1 of 2" in s for s in said], [True, True, True])
        self.assertEqual(["2 of 2" in s for s in said], [False, True, True])
        self.assertEqual(self.state()["hints"], 2)

    def test_the_solution_is_for_who_has_passed(self):
        self.run_it("start", "01")
        self.assertIn("not passed yet", self.refused("solution", "sum"))
        self.assertFalse(self.state()["shown"])
        self.assertIn("all += b;", self.run_it("solution", "sum", "--anyway")[1])
        self.assertTrue(self.state()["shown"])

    def test_reset_keeps_what_was_written(self):
        self.run_it("start", "01")
        for number, mine in (1, "mine"), (2, "mine again"):
            self.file.write_text(mine)
            self.assertIn(f"kept in work/01_sums/sum.cpp.{number}", self.run_it("reset", "01")[1])
            self.assertEqual(self.file.with_name(f"sum.cpp.{number}").read_text(), mine)
            self.assertIn("not_written", self.file.read_text())
        self.assertEqual(self.file.with_name("sum.cpp.1").read_text(), "mine")

    def test_check_remembers_that_it_passed(self):
        self.run_it("start", "01")
        with checked(runs.Verdict([runs.Outcome(1, "fault", 1, {"what": "Y", "with": "2 by 2", "rank": 0, "at": "[0]", "got": 1, "expected": 2})])):
            code, said = self.run_it("check")
        self.assertEqual((code, self.state()["passed"], self.state()["checks"]), (1, None, 1))
        self.assertIn("rank 0 at [0]: yours 1, right 2", said)
        with checked(runs.Verdict([runs.Outcome(r, "passed", 3) for r in runs.RANKS])):
            code, said = self.run_it("check")
        self.assertEqual((code, self.state()["checks"]), (0, 2))
        self.assertIn("sum passed: 12 checks on 1, 2, 3, 4 ranks", said)
        self.assertIn("Addition.", said)
        self.assertIn("next: ./course start 02", said)
        self.assertIn("1 of 2", self.run_it("progress")[1])
        self.assertIn("all += b;", self.run_it("solution", "sum")[1])

    def test_after_the_record_is_removed_start_begins_again_with_what_is_there(self):
        self.run_it("start", "01")
        self.file.write_text("mine")
        (self.root / "work" / "state.json").unlink()
        self.assertIn("no exercise is begun", self.refused("hint"))
        self.run_it("start", "01")
        self.assertEqual(self.file.read_text(), "mine")
        self.assertIn("a first.", self.run_it("hint")[1])

    def pass_it(self, *words):
        with checked(runs.Verdict([runs.Outcome(r, "passed", 3) for r in runs.RANKS])):
            self.assertEqual(self.run_it("check", *words)[0], 0)

    def test_after_a_pass_a_chapter_with_two_means_the_one_that_was_written(self):
        self.write(MARKED.replace("sum", "zero"), "chapters/01_sums/zero.cpp")
        self.run_it("start", "sum")
        self.pass_it()
        self.assertIn("// exercise", self.file.read_text())
        self.assertIn("int sum(", self.run_it("solution", "01")[1])
        self.pass_it("01")
        self.assertIn("kept in work/01_sums/sum.cpp.1", self.run_it("reset", "01")[1])
        self.assertFalse(self.file.with_name("zero.cpp").exists())

    def test_solution_without_a_name_is_of_what_was_started_or_passed_last(self):
        self.assertIn("no exercise is begun", self.refused("solution"))
        self.run_it("start", "01")
        self.assertIn("sum is not passed yet", self.refused("solution"))
        self.pass_it()
        self.assertIn("int sum(", self.run_it("solution")[1])
        self.run_it("start", "02")
        self.assertIn("difference is not passed yet", self.refused("solution"))
        self.assertIn("int difference(", self.run_it("solution", "--anyway")[1])

    def test_what_passed_without_a_start_counts_too(self):
        self.write("mine", "work/01_sums/sum.cpp")
        self.pass_it("sum")
        self.assertIn("int sum(", self.run_it("solution")[1])

    def test_watch_waits_for_no_file_that_nobody_has_begun(self):
        with unittest.mock.patch.object(work.time, "sleep", side_effect=AssertionError("it waits")):
            self.assertIn("work/01_sums/sum.cpp is missing; ./course start sum makes it", self.refused("watch", "01"))

    def test_what_is_a_digit_and_no_number(self):
        self.assertIn("there is no exercise '²'", self.refused("start", "²"))

    def test_a_chapter_by_its_folder(self):
        self.assertIn("01 sum", self.run_it("start", "01_sums")[1])

    def test_each_command_says_how_it_is_used(self):
        for command, words in (("check", "./course check [NN|NAME]"), ("museum", "./course name museum/3"),
                               ("predict", "./course predict [NN]")):
            code, said = self.run_it(command, "--help")
            self.assertEqual(code, 0)
            self.assertIn(words, said)

    def test_a_state_that_the_course_did_not_write(self):
        for text in ("{", "[]", '{"sum": 3}', '{"sum": {"checks": "2"}}', '{"sum": {"started": 1}}', '{"predictions": {"01": 3}}',
                     "[" * 10**5):
            self.write(text, "work/state.json")
            with self.subTest(text[:30]):
                self.assertIn("work/state.json is not what the course wrote; remove it", self.refused("progress"))

    def test_a_state_that_lacks_something(self):
        self.write('{"sum": {"started": "2026"}}', "work/state.json")
        self.assertIn("1 of 2", self.run_it("hint")[1])
        self.assertEqual(self.state(), {**work.NEW, "started": "2026", "hints": 1})

    def test_two_terminals_lose_nothing_of_each_other(self):
        self.run_it("start", "01")
        watching = work.Learner(self.course)            # as ./course watch holds it for hours
        self.run_it("start", "02")
        self.run_it("hint", "01")
        with watching.note(watching.exercises["sum"]) as entry:
            entry["checks"] += 1
        self.assertEqual((self.state()["checks"], self.state()["hints"]), (1, 1))
        self.assertTrue(watching.of(watching.exercises["difference"])["started"])

    def test_many_at_once_count_each_change(self):
        def ask(_):
            learner = work.Learner(self.course)
            for _ in range(20):
                with learner.note(learner.exercises["sum"]) as entry:
                    entry["checks"] += 1
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            list(pool.map(ask, range(4)))
        self.assertEqual(self.state()["checks"], 80)
        self.assertEqual(sorted(p.name for p in (self.root / "work").iterdir()), ["state.json", "state.lock"])


@contextlib.contextmanager
def checked(verdict):
    before, runs.check = runs.check, lambda *arguments: verdict
    try:
        yield
    finally:
        runs.check = before


class Own(InAFolder):
    """A chapter's program with the learner's objects, with a compiler and a linker that do as told."""

    def setUp(self):
        super().setUp()
        self.write(MARKED)
        self.write(MARKED.replace("sum", "zero"), "chapters/01_sums/zero.cpp")
        self.build, self.ran, self.said, self.broken = self.root / "build", [], [], ()
        entries = []
        for name in "sum", "zero":
            file = self.write("mine", f"work/01_sums/{name}.cpp")
            self.write("an object", f"build/{name}.o")
            entries.append({"directory": str(self.build), "file": str(self.build / f"tests/exercises/{name}/work.cpp"),
                            "command": f"c++ -o {name}.o -c work.cpp"})
            self.sha256 = hashlib.sha256(file.read_bytes()).hexdigest()
        self.write(json.dumps(entries), "build/compile_commands.json")
        entry = {"started": "2026", "passed": "2026", "sha256": self.sha256}
        self.write(json.dumps({"sum": entry, "zero": entry}), "work/state.json")
        self.write("the chapter's", "build/main.o")
        self.write("c++ main.o liball.a -o 01_sums", "build/chapters/CMakeFiles/01_sums.dir/link.txt")
        (self.build / "chapters" / "main.o").write_text("the chapter's")
        (self.build / "chapters" / "liball.a").write_text("a library")
        self.course = types.SimpleNamespace(ROOT=self.root, Stop=Stop, short=lambda p: str(Path(p).relative_to(self.root)),
                                            say=self.said.append, build_folder=lambda: self.build, jobs=lambda: 2, cores=lambda: 2,
                                            cache=lambda: {1: 1}, capture=self.capture)

    def capture(self, words):
        words = [str(w) for w in words]
        self.ran.append(words)
        if words[0] == "cmake":
            return int(any(f"exercise_{name}.work" in words for name in self.broken)), "error"
        made = Path(words[words.index("-o") + 1])
        if self.broken == "link":
            made.write_text("a half")
            return 1, "undefined reference"
        made.write_text("program")
        return 0, ""

    def program(self):
        self.ran.clear()
        self.said.clear()
        return own.program(self.course, 1, "01_sums")

    def linked(self):
        return [words for words in self.ran if words[0] == "c++"]

    def test_one_build_and_one_link(self):
        self.assertEqual(self.program().read_text(), "program")
        self.assertEqual([words[0] for words in self.ran], ["cmake", "c++"])
        self.assertEqual([w for w in self.linked()[0] if w.endswith((".o", ".a"))],
                         [str((self.build / p).resolve()) for p in ("chapters/main.o", "sum.o", "zero.o", "chapters/liball.a")])
        self.assertIn("with your own sum (01), zero (01)", self.said[-1])
        self.program()
        self.assertEqual(self.linked(), [])

    def test_what_does_not_build_is_left_out(self):
        self.broken = "sum",
        self.assertTrue(self.program())
        self.assertIn("note: work/01_sums/sum.cpp does not build; the course's own is used until ./course check sum passes",
                      self.said)
        self.assertIn("with your own zero (01)", self.said[-1])
        self.assertNotIn(str(self.build / "sum.o"), self.linked()[0])
        self.broken = "sum", "zero"
        self.assertIsNone(self.program())
        self.assertEqual(self.linked(), [])

    def test_a_link_that_fails_leaves_nothing_that_is_used_later(self):
        made = self.program()
        self.write("another object, with other words to link", "build/chapters/CMakeFiles/01_sums.dir/link.txt").write_text(
            "c++ -g main.o liball.a -o 01_sums")
        self.broken = "link"
        self.assertIsNone(self.program())
        self.assertEqual([p.name for p in made.parent.iterdir() if "half" in p.read_text()], [])
        self.broken = ()
        self.program()
        self.assertEqual(len(self.linked()), 1)

    def test_an_input_that_is_gone_is_linked_anew(self):
        self.program()
        (self.build / "zero.o").unlink()
        self.program()
        self.assertEqual(len(self.linked()), 1)


class Same(unittest.TestCase):
    """When two runs count as the same mistake."""

    def fault(self, *values, ranks=2):
        return runs.Outcome(ranks, "fault", 1, {"what": "Y"}, [["Y", 0, list(values)]])

    def test_values(self):
        self.assertTrue(runs.same(self.fault(1.0, 2.0), self.fault(1.00001, 2.0)))
        self.assertFalse(runs.same(self.fault(1.0, 2.0), self.fault(1.1, 2.0)))
        self.assertFalse(runs.same(self.fault(1.0, 2.0), self.fault(1.0)))
        self.assertFalse(runs.same(self.fault(1.0), self.fault(1.0, ranks=3)))
        self.assertTrue(runs.same(self.fault("nan"), self.fault("nan")))
        self.assertFalse(runs.same(self.fault("nan"), self.fault(1.0)))

    def test_errors_but_for_places_and_sizes(self):
        a, b, c = (runs.Outcome(2, "died", words=w) for w in ("rank 0: x has 7 features (linear.cpp:15); last call 3",
                                                              "rank 1: x has 6 features (work.cpp:9); last call 2",
                                                              "rank 0: the cache holds 7 tokens"))
        self.assertTrue(runs.same(a, b))
        self.assertFalse(runs.same(a, c))

    def test_hangs_by_what_each_waits_for(self):
        def hang(pending):
            return runs.Outcome(2, "hang", words=f"rank 0: last call 1 (a.cpp:3), pending {pending} (b.cpp:4), waiting for 8.0 s\n")
        self.assertTrue(runs.same(hang("call 2 all-reduce"), hang("call 2 all-reduce")))
        self.assertFalse(runs.same(hang("call 2 all-reduce"), hang("call 2 all-gather")))


class Matrix(InAFolder):
    """The proof's last line and its exit code, with runs that end as told."""

    def prove(self, ends, words=()):
        """(exit code, stdout, stderr). `ends`: {version: how it ends, of a wrong answer what it is taken for}, where it is not as it must be."""
        self.write(MARKED)

        def run(course, e, version, ranks, seed=1):
            how = ends.get(version, "passed" if version == "solution" else "fault")
            return runs.Outcome(ranks, how, 1, {"what": "sum: not written yet" if version == "stub" else "Y", "with": ""})

        def judge(course, e, version):
            taken = ends.get(version, version)
            if taken == "passed":
                return runs.Verdict([runs.Outcome(1, "passed", 1)])
            mistake = next((w for w in e.wrong if "wrong_" + w.name == taken), None)
            return runs.Verdict([run(course, e, "stub", 1)], mistake=mistake)
        course = types.SimpleNamespace(ROOT=self.root, Stop=Stop, configure=lambda: None, build=lambda targets: None,
                                       build_folder=lambda: self.root / "build", cores=lambda: 2,
                                       chapters=dict)
        before = runs.run, runs.judge
        runs.run, runs.judge = run, judge
        try:
            with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
                code = matrix.main(course, list(words))
            return code, out.getvalue(), err.getvalue()
        finally:
            runs.run, runs.judge = before

    def test_all_as_they_must_be(self):
        self.assertEqual(self.prove({}), (0, "1 exercises, 3 wrong answers: all as they must be\n", ""))

    def test_it_names_what_is_not(self):
        faults = {
            "the solution fails on 1 ranks": {"solution": "fault"},
            "the stub on 2 ranks does not fail": {"stub": "died"},
            "wrong answer minus passes": {"wrong_minus": "passed"},
            "wrong answer minus is taken for only_a": {"wrong_minus": "wrong_only_a"},
            "wrong answer minus is taken for nothing known": {"wrong_minus": "unknown"},
        }
        for words, ends in faults.items():
            with self.subTest(words):
                code, out, err = self.prove(ends)
                self.assertEqual(code, 1)
                self.assertIn(words, out)
                self.assertIn("not as they must be", err)

    def test_an_unknown_name(self):
        with self.assertRaises(Stop) as caught:
            self.prove({}, ["sum", "product", "03"])
        self.assertIn("no exercise 'product', '03'; they are sum", str(caught.exception))

    def test_the_names_that_the_other_commands_know(self):
        self.write(MARKED)
        self.write(EXHIBIT, "museum/03_six/six.cpp")
        self.write(MARKED.replace("sum", "zero"), "chapters/01_sums/zero.cpp")
        self.write(MARKED.replace("sum", "more").replace("Exercise 01", "Exercise 02"), "chapters/02_more/more.cpp")
        exercises = make.everything(self.root)
        for words, names in ((["1"], "sum zero"), (["01_sums", "more"], "sum zero more"), (["museum/3"], "six"),
                             (["museum/03"], "six"), (["six"], "six"), (["museum", "02"], "more six"), ([], "sum zero more six"),
                             (["predict"], "")):
            self.assertEqual(sorted(e.name for e in matrix.named(exercises, words)[0]), sorted(names.split()), words)

    def test_help(self):
        code, out, _ = self.prove({}, ["--help"])
        self.assertEqual(code, 0)
        self.assertIn("./course matrix [", out)

    def test_what_may_be_chance_is_run_anew(self):
        folder = self.root / "build" / "tests" / "exercises" / "sum"
        folder.mkdir(parents=True)
        for rank, how in enumerate(("passed", "fault", "hang", "died", "endless"), 1):
            (folder / f"wrong_minus.on_{rank}.json").write_text(json.dumps({"ranks": rank, "how": how}))
        (folder / "wrong_minus.on_6.json").write_text("{")
        self.prove({})
        self.assertEqual(sorted(p.name for p in folder.iterdir()), ["wrong_minus.on_1.json", "wrong_minus.on_2.json"])


if __name__ == "__main__":
    unittest.main()
