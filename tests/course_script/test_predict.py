"""./course predict: how an answer is read from a program's tables, and the talk with the learner."""
import json
import re
import sys
import unittest.mock
from pathlib import Path

from test_course import WithTools, course
import predict

ROOT = Path(__file__).resolve().parents[2]

OUTPUT = """\
x [2,5,8] on 4 ranks

sent by each rank │ forward            bytes: measured  formula │ backward
──────────────────┼─────────────────────────────────────────────┼───────────────
by columns        │ -                                0        0 │ all-reduce ×1
by rows           │ all-reduce ×1                1,152      999 │ all-gather ×12

one step │ calls    ms   share
─────────┼─────────────────────
by rows  │    10  3.50   44.2%

from → to │ sent: measured  formula
──────────┼────────────────────────
R → R     │ 60 + 120        0 + 120

held │  largest
─────┼─────────
mine │ 8.00 KiB
half │ 4.00 KiB
OK
"""
PAGE = """\
run = "-n 4 --seq 6"
[[question]]
ask = "How many bytes?"
unit = "bytes"
table = "sent by each rank"
row = "by rows"
column = "bytes: measured"
why = "For this reason."
[[question]]
ask = "Which collective?"
table = "sent by each rank"
row = "by columns"
column = "backward"
choices = ["all-reduce", "all-gather"]
why = "For that reason."
[[question]]
ask = "How many calls?"
run = "-n 3"
unit = "calls"
table = "one step"
row = "by rows"
column = "calls"
why = "For a third."
"""


class Read(unittest.TestCase):
    def value(self, **question):
        return predict.measured(OUTPUT, question)

    def test_the_place_in_a_table(self):
        self.assertEqual(self.value(table="sent by each rank", row="by rows", column="bytes: measured"), 1152)
        self.assertEqual(self.value(table="one step", row="by rows", column="calls"), 10)
        self.assertEqual(self.value(row="R → R", column="sent: measured"), 180)
        self.assertEqual(self.value(row="mine", column="largest"), 8192)
        self.assertEqual(self.value(row="mine", column="largest", over="half"), 2)

    def test_a_word(self):
        choices = ["all-reduce", "all-gather", "nothing"]
        self.assertEqual(self.value(row="by rows", column="backward", choices=choices), "all-gather")
        self.assertEqual(self.value(row="by columns", column="forward", choices=choices), "nothing")

    def test_what_is_not_there(self):
        for question, said in (({"row": "by ranks", "column": "calls"}, "no 'by ranks'"), ({"row": "by rows", "column": "bytes"}, "with 'bytes'"),
                               ({"table": "sent", "row": "by rows", "column": "calls"}, "no 'by rows'"),
                               ({"row": "by rows", "column": "forward"}, "no number"),
                               ({"row": "by rows", "column": "forward", "choices": ["nothing"]}, "none of the choices")):
            with self.assertRaisesRegex(LookupError, said):
                self.value(**question)

    def test_numbers(self):
        for words, value in (("1,152", 1152), ("2 * 3/4 * 768", 1152), ("8 KiB", 8192), ("0.5MiB", 2**19), ("12 bytes", 12), ("-(3)", -3), ("2·3", None),
                             ("", None), ("nine", None), ("2**99", None), ("__import__('os')", None), ("1/0", None), ("9e999", None), ("9" * 5000, None),
                             ("(" * 5000, None), ("True", None), ("1 2", None), ("1e400*0", None)):
            self.assertEqual(predict.number(words), value, words)

    def test_near_enough(self):
        for said, true, so in ((1152, 1152, True), (1150, 1152, True), (1100, 1152, False), (None, 0, False), (0, 0, True), (1, 0, False), ("a", "a", True),
                               ("a", "b", False), (None, "a", False)):
            self.assertEqual(predict.right(said, true), so, (said, true))


class Talk(WithTools):
    def setUp(self):
        super().setUp()
        self.page = self.root / "chapters" / "05_sharded_mlp" / "predict.toml"
        self.page.write_text(PAGE)
        self.ran = []

    def asked(self, *answers, output=OUTPUT, terminal=True):
        """(exit code, stdout, stderr) of ./course predict 05."""
        waiting = iter(answers)

        def answer(prompt):
            print(prompt, end="")
            try:
                return next(waiting)
            except StopIteration:
                raise EOFError from None

        def run(_, command, timeout):
            self.ran.append([str(word) for word in command[1:]])
            return (0, output) if output else (1, "it fell over")

        with unittest.mock.patch("builtins.input", answer), unittest.mock.patch.object(sys, "stdin") as stdin, \
                unittest.mock.patch.object(course, "build"), unittest.mock.patch.object(course, "launcher", lambda: "mpirun"), \
                unittest.mock.patch.object(course, "capture", lambda command, timeout: run(None, command, timeout)):
            stdin.isatty.return_value = terminal
            return self.main("predict", "05")

    def state(self):
        return json.loads((self.root / "work" / "state.json").read_text())["predictions"]["05"]

    def test_all_right(self):
        code, out, _ = self.asked("1,152", "1", "10")
        self.assertEqual(code, 0)
        self.assertRegex(out, r"(?s)1\. right: 1,152 bytes measured.*For this reason.*2\. right: all-reduce.*3\. right: 10 calls.*3 of 3 right")
        self.assertEqual((self.state()["right"], self.state()["of"]), (3, 3))

    def test_the_program_runs_after_the_answers_once_for_each_flags(self):
        out = self.asked("1,152", "all-reduce", "10")[1]
        self.assertEqual([command[:2] + command[3:] for command in self.ran], [["-n", "4", "--seq", "6"], ["-n", "3"]])
        self.assertLess(out.index("How many calls?"), out.index("$ ./course run 05"))
        self.assertNotIn("1,152", out[:out.index("$ ./course run 05")])

    def test_wrong_and_none(self):
        code, out, _ = self.asked("768", "2", "")
        self.assertEqual(code, 1)
        self.assertRegex(out, r"(?s)1\. not so: 1,152 bytes measured, you said 768 bytes.*2\. not so: all-reduce measured, you said all-gather.*"
                              r"3\. not so: 10 calls measured, no answer.*0 of 3 right")
        self.assertEqual(self.state()["answers"], [768, "all-gather", None])
        self.assertIn("predicted: 05 0 of 3", self.main("progress")[1])
        self.assertRegex(self.main("predict")[1], "05_sharded_mlp +3 questions, 0 of 3 right")

    def test_what_is_no_answer_is_asked_again(self):
        code, out, _ = self.asked("lots", "1152", "3", "²", "all-reduce", "10")
        self.assertEqual(code, 0)
        self.assertEqual(out.count("Enter alone: no idea"), 3)

    def test_the_answer_follows_the_run(self):
        code, out, _ = self.asked("1152", "1", "10", output=OUTPUT.replace("1,152", "4,608"))
        self.assertIn("not so: 4,608 bytes measured, you said 1,152 bytes", out)

    def test_nobody_to_answer(self):
        code, _, err = self.asked(terminal=False)
        self.assertEqual((code, len(err.splitlines())), (2, 1), err)
        self.assertIn("run it in a terminal", err)
        code, _, err = self.asked("1152")
        self.assertEqual((code, err), (1, "course: no answer; nothing is noted\n"))
        self.assertFalse((self.root / "work").exists())

    def test_the_program_fails_or_says_something_else(self):
        code, _, err = self.asked("1", "1", "1", output="")
        self.assertEqual(code, 1)
        self.assertIn("it fell over", err)
        code, _, err = self.asked("1", "1", "1", output=OUTPUT.replace("by rows", "by lines"))
        self.assertEqual((code, len(err.splitlines())), (1, 1))
        self.assertIn("05_sharded_mlp/predict.toml: the program prints no 'by rows'", err)

    def test_wrong_words(self):
        for words, said in ((["01"], "chapter 01 has no questions"), (["77"], "no chapter '77'"), (["05", "06"], "one chapter, not 2")):
            code, _, err = self.main("predict", *words)
            self.assertEqual((code, len(err.splitlines())), (2, 1), err)
            self.assertIn(said, err)

    def test_a_page_that_is_none(self):
        for text, said in ((PAGE.replace('why = "For this reason."', ""), "a question without 'why'"), ("run = ", "predict.toml: "),
                           (PAGE.replace('run = "-n 4 --seq 6"', ""), "a question without 'run'")):
            self.page.write_text(text)
            code, _, err = self.main("predict", "05")
            self.assertEqual((code, len(err.splitlines())), (1, 1), err)
            self.assertIn(said, err)


class House(unittest.TestCase):
    def test_the_questions_of_the_chapters(self):
        asked = {number: predict.questions(course, number) for number in course.chapters()}
        self.assertEqual([number for number, some in asked.items() if some], [2, 3, 4, 5, 6, 7, 10, 11, 12, 13])
        for number, some in asked.items():
            self.assertIn(len(some), (0, 2, 3, 4), number)
            page = (ROOT / "chapters" / course.chapters()[number] / "README.md").read_text(encoding="utf-8")
            self.assertEqual(f"./course predict {number:02}" in page, bool(some), number)
            for question in some:
                self.assertTrue(question["unit"] or "choices" in question, question)
                self.assertLess({"ask", "run", "row", "column", "why"}, set(question))
                self.assertFalse(set(question) & {"answer", "value", "right"}, "answers come from the run")
                self.assertTrue(re.match(r"-n \d ", question["run"] + " "), question["run"])
