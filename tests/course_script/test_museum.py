"""The museum of broken programs: how one is read from its source, the learner's way through it, and what is in the house."""
import json
import re
import tempfile
import textwrap
import unittest.mock
from pathlib import Path

from test_course import WithTools, course
import make
import museum
import runs
import source

ROOT = Path(__file__).resolve().parents[2]

SOURCE = textwrap.dedent("""\
    int answer() {
      // exercise six {
      return 6 * 7;
      // } exercise
    }

    // Exhibit 03 six
    // Task: it should be 42.
    // Hint: count.
    // Why: six times seven.
    // Fault not_added: it is
    // added.
    //   - return 6 * 7;
    //   + return 6 + 7;
    // Seen 2: on two ranks
    //   | rank 0: last none, pending call 1 all-reduce
    // Seen 4: on four
    //   | yours 13, right 42
    //   | rank 3: last none
    """)
NAMES = "| `not_added` | a term is taken for the sum |\n| `added_twice` | the sum is added again |\n"


class Source(unittest.TestCase):
    def read(self, text):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "03_six" / "six.cpp"
            path.parent.mkdir()
            path.write_text(text)
            return source.exercise_in(path)

    def test_an_exhibit(self):
        exhibit = self.read(SOURCE)
        self.assertEqual((exhibit.number, exhibit.folder, exhibit.fault.name, exhibit.fault.says), ("museum/03", "museum/03_six", "not_added", "it is added."))
        self.assertEqual(exhibit.seen, {2: ["rank 0: last none, pending call 1 all-reduce"], 4: ["yours 13, right 42", "rank 3: last none"]})
        self.assertEqual(exhibit.wrong, [])

    def test_the_stub_is_the_broken_program_and_does_not_tell(self):
        exhibit = self.read(SOURCE)
        self.assertIn("return 6 + 7;", source.stub(exhibit))
        self.assertIn("return 6 * 7;", source.solution(exhibit))
        for word in ("not_written", "not_added", "Seen", "Hint"):
            self.assertNotIn(word, source.stub(exhibit))

    def test_what_an_exhibit_wants(self):
        for text in (re.sub(r"// Fault(.*\n){4}", "", SOURCE), re.sub(r"// Seen(.|\n)*", "", SOURCE), SOURCE.replace("Exhibit", "Exercise")):
            with self.assertRaisesRegex(source.Fault, "an exhibit wants one Fault and how it is Seen, an exercise neither"):
                self.read(text)

    def test_a_fault_that_takes_out_what_is_not_there(self):
        with self.assertRaisesRegex(source.Fault, "does not stand in a marked part"):
            source.stub(self.read(SOURCE.replace("- return 6 * 7;", "- return 7 * 6;")))


class InAMuseum(WithTools):
    def setUp(self):
        super().setUp()
        for number, name in (("01", "one"), ("03", "six")):
            folder = self.root / "museum" / f"{number}_{name}"
            folder.mkdir(parents=True)
            (folder / f"{name}.cpp").write_text(SOURCE.replace("six", name).replace("Exhibit 03", f"Exhibit {number}"))
            (folder / "README.md").write_text(f"# {number} The answer is {name}\n")
        (self.root / "museum" / "README.md").write_text("| name | what it is |\n|---|---|\n" + NAMES)


class Way(InAMuseum):
    """start, check, name, reset, with the build and the run left out."""

    def checked(self, passes):
        outcome = runs.Outcome(2, "passed" if passes else "hang", 1, words="rank 0: last none")
        with unittest.mock.patch.object(runs, "check", lambda *_: runs.Verdict([outcome])):
            return self.main("check", "museum/3")

    def test_listed(self):
        code, out, _ = self.main("museum")
        self.assertEqual(code, 0)
        self.assertRegex(out, r"museum/01 +The answer is one\nmuseum/03 +The answer is six\n")

    def test_mended_then_named(self):
        self.assertIn("return 6 + 7;", (self.main("start", "museum/3"), (self.root / "work/museum/03_six/six.cpp").read_text())[1])
        self.assertEqual(self.checked(False)[0], 1)
        code, out, _ = self.checked(True)
        self.assertEqual(code, 0)
        self.assertIn("mended; what was the fault?", out)
        self.assertNotIn("Why it works", out)
        self.assertRegex(self.main("museum")[1], "museum/03 .* mended")
        code, out, _ = self.main("name", "museum/3", "not_added")
        self.assertEqual(code, 0)
        self.assertRegex(out, "(?s)it is added.*museum/03 is passed.*six times seven.*next: ./course start museum/01")
        self.assertRegex(self.main("progress")[1], "museum: 1 of 2\nmuseum/03 six +passed")

    def test_named_then_mended(self):
        self.main("start", "museum/3")
        code, out, _ = self.main("name", "museum/3", "not_added")
        self.assertIn("now mend it", out)
        self.assertNotIn("Why it works", out)
        self.assertIn("museum/03 is passed", self.checked(True)[1])

    def test_a_wrong_name_tells_nothing_and_is_counted(self):
        self.main("start", "museum/3")
        code, out, _ = self.main("name", "museum/3", "added_twice")
        self.assertEqual(code, 1)
        self.assertNotIn("not_added", out)
        self.checked(True)
        self.assertRegex(self.main("progress")[1], "museum/03 six +mended .*1 wrong names")

    def test_the_names(self):
        self.main("start", "museum/3")
        for words in (["museum/3"], ["six"], []):
            code, out, _ = self.main("name", *words)
            self.assertEqual(code, 0)
            self.assertIn("added_twice ", out)
            self.assertIn("a term is taken for the sum", out)

    def test_without_a_number_it_is_the_first_that_is_not_passed(self):
        self.assertIn("museum/01 one", self.main("start", "museum")[1])
        state = {"one": {"started": "2026", "passed": "2026", "checks": 1, "hints": 0, "shown": False}}
        (self.root / "work" / "state.json").write_text(json.dumps(state))
        self.assertIn("museum/03 six", self.main("start", "museum")[1])
        self.assertIn("with museum/03?", self.main("name", "museum")[1])

    def test_reset_keeps_the_file_and_asks_for_the_mending_again(self):
        self.main("start", "museum/3")
        file = self.root / "work/museum/03_six/six.cpp"
        file.write_text("mine")
        self.main("name", "museum/3", "not_added")
        self.checked(True)
        self.main("reset", "museum/3")
        self.assertEqual((self.root / "work/museum/03_six/six.cpp.1").read_text(), "mine")
        self.assertIn("6 + 7", file.read_text())
        self.assertRegex(self.main("museum")[1], "museum/03 .* named")

    def test_wrong_words_are_one_line(self):
        self.main("start", "museum/3")
        for words, said in ((["start", "museum/9"], "no 'museum/9'"), (["name", "museum/3", "gremlins"], "'gremlins' is no fault's name"),
                            (["name", "museum/3", "one"], "one exercise, not 2"), (["museum", "3"], "takes nothing more")):
            code, _, err = self.main(*words)
            self.assertEqual((code, len(err.splitlines())), (2, 1), err)
            self.assertIn(said, err)

    def test_no_table_of_names(self):
        (self.root / "museum" / "README.md").write_text("nothing\n")
        code, _, err = self.main("name", "museum/3")
        self.assertEqual((code, len(err.splitlines())), (1, 1), err)

    def test_an_exhibit_and_an_exercise_of_one_name(self):
        chapter = self.root / "chapters" / "01_column_row_split" / "six.cpp"
        chapter.write_text(re.sub(r"// Fault(.|\n)*", "", SOURCE).replace("Exhibit 03", "Exercise 01"))
        with self.assertRaisesRegex(source.Fault, "exercise six is in"):
            make.everything(self.root)


class Proof(InAMuseum):
    """What the matrix says of a broken program that does not break as its source says."""

    def faults(self, taken_for=None, **outcomes):
        exhibit = make.exhibits(self.root)["six"]
        with unittest.mock.patch.object(runs, "run", lambda c, e, version, ranks: outcomes[f"on{ranks}"]), \
                unittest.mock.patch.object(runs, "judge", lambda *_: runs.Verdict([], mistake=taken_for)):
            return list(museum.of_broken(course, exhibit))

    def hang(self, *lines):
        return runs.Outcome(2, "hang", words="\n".join(lines))

    def test_as_it_must_be(self):
        self.assertEqual(self.faults(
            on2=self.hang("call 1: waited", "rank 0: last none, pending call 1 all-reduce of 8 bytes (six.cpp:3), waiting for 8.0 s"),
            on4=self.hang("yours 13, right 42", "rank 3: last none, pending none")), [])

    def test_taken_for_a_wrong_repair(self):
        right = {"on2": self.hang("rank 0: last none, pending call 1 all-reduce"), "on4": self.hang("yours 13, right 42", "rank 3: last none")}
        self.assertEqual(self.faults(source.Wrong("twice", "", []), **right), ["the broken program is taken for the wrong repair twice"])

    def test_another_call_pends(self):
        faults = self.faults(on2=self.hang("rank 0: last none, pending call 1 barrier"), on4=self.hang("yours 13, right 42", "rank 3: last none"))
        self.assertEqual(len(faults), 1)
        self.assertIn("does not say 'rank 0: last none, pending call 1 all-reduce'", faults[0])

    def test_it_passes_or_crashes(self):
        faults = self.faults(on2=runs.Outcome(2, "passed", 3), on4=runs.Outcome(4, "died", words="yours 13, right 42\nrank 3: last none"))
        self.assertIn("on 2 ranks passes", faults[0])
        self.assertTrue(any("on 4 ranks fails in no clear way" in fault for fault in faults), faults)

    def test_the_names(self):
        exhibits = list(make.exhibits(self.root).values())
        faults = list(museum.of_names(course, exhibits))
        self.assertEqual(len(faults), 1)
        self.assertIn("is that of museum/01 too", faults[0])
        (self.root / "museum" / "README.md").write_text("| `added_twice` | again |\n")
        self.assertIn("is not in museum/README.md", list(museum.of_names(course, exhibits))[0])


class House(unittest.TestCase):
    """What is really in museum/."""

    def setUp(self):
        self.exhibits = list(make.exhibits(ROOT).values())

    def test_enough_of_them_and_enough_that_hang(self):
        self.assertGreaterEqual(len(self.exhibits), 6)
        hangs = [e.name for e in self.exhibits if any("pending" in line for lines in e.seen.values() for line in lines)]
        self.assertGreaterEqual(len(hangs), 3, hangs)

    def test_each_has_its_page_hints_and_a_case(self):
        cases = (ROOT / "tests" / "cases" / "README.md").read_text(encoding="utf-8")
        table = (ROOT / "museum" / "README.md").read_text(encoding="utf-8")
        for number, exhibit in enumerate(self.exhibits, 1):
            page = exhibit.path.with_name("README.md").read_text(encoding="utf-8")
            self.assertEqual(exhibit.number, f"museum/{number:02}")
            self.assertNotEqual(museum.title(exhibit), exhibit.name, "the page has no heading")
            case = re.search(r"Case (B\d\d) of", page)
            self.assertTrue(case and f"### {case[1]} " in cases, page)
            self.assertRegex(page, r"https://github.com/[\w.-]+/[\w.-]+/(issues|pull)/\d+")
            self.assertIn(f"| {number} | [{exhibit.name}]({exhibit.path.parent.name}/README.md) |", table)
            self.assertRegex(table, rf"\({exhibit.path.parent.name}/README.md\).* {case[1]} \|")
            self.assertGreaterEqual(len(exhibit.hints), 2)
            self.assertNotIn(exhibit.fault.name, page)

    def test_the_lines_of_the_page_are_those_of_the_program(self):
        stub = source.stub(self.exhibits[0]).splitlines()
        page = (ROOT / "museum" / "README.md").read_text(encoding="utf-8")
        said = re.findall(r"call \d ([\w-]+) of \d+ bytes on world \(checkpoint.cpp:(\d+)\)", page)
        self.assertEqual(len(said), 4)
        for operation, line in said:
            self.assertIn({"all-reduce": "comm.sum(", "all-gather": "comm.all_gather("}[operation], stub[int(line) - 1])

    def test_there_are_more_names_than_programs(self):
        self.assertGreater(len(museum.names(ROOT)), len(self.exhibits) + 3)
        self.assertEqual(list(museum.of_names(course, self.exhibits)), [])
