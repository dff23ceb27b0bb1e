"""Marked sources: how they may look, what is made from them, and the course's own."""
import os
import subprocess
import sys
import unittest

from exercise_texts import InAFolder, MARKED, ROOT
import course_base
import make
import source


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

    def test_what_a_learner_is_shown_says_where_it_goes(self):
        shown = list(source.shown(source.exercise_in(self.write(MARKED))))
        self.assertEqual(shown[0], "int sum(int a, int b) {\n  // exercise sum {\n  int all = a;\n  all += b;\n  return all;\n  // } exercise\n}")
        inside = MARKED.replace("int sum(int a, int b) {\n", "int sum(int a,\n        int b) {\n  int c = 0;\n").replace(
            "  // } exercise\n}", "  // } exercise\n  ++c;\n}", 1)
        lines = list(source.shown(source.exercise_in(self.write(inside))))[0].splitlines()
        self.assertEqual(lines[:3] + lines[-3:], ["int sum(int a,", "  ...", "  // exercise sum {", "  // } exercise", "  ...", "}"])

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


if __name__ == "__main__":
    unittest.main()
