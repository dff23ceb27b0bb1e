"""A learner's commands: start, check, hint, solution, reset, progress, watch."""
import concurrent.futures
import contextlib
import io
import json
import os
import types
import unittest
import unittest.mock
from pathlib import Path

from exercise_texts import InAFolder, MARKED, Stop
import runs
import work


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
        self.assertIn("'// } exercise' (2 places) in\n  work/01_sums/sum.cpp", said)
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

    def test_where_all_of_a_chapter_are_passed_its_number_means_the_one_written_last(self):
        self.write(MARKED.replace("sum", "zero"), "chapters/01_sums/zero.cpp")
        for name in ("sum", "zero"):
            self.run_it("start", name)
            self.pass_it(name)
        for name, other in (("sum", "zero"), ("zero", "sum")):
            for of, when in ((name, 2000), (other, 1000)):
                os.utime(self.file.with_name(f"{of}.cpp"), (when, when))
            with checked(runs.Verdict([runs.Outcome(r, "passed", 3) for r in runs.RANKS])):
                self.assertIn(f"work/01_sums/{name}.cpp", self.run_it("check", "01")[1])
        self.assertIn("all that is begun is passed: name one", self.refused("check"))

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


if __name__ == "__main__":
    unittest.main()
