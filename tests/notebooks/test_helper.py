"""notebooks/course.py, which runs programs and reads what they leave, and the command ./course notebook."""
import contextlib
import io
import sys
import tempfile
import unittest
import unittest.mock
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "notebooks")]
sys.dont_write_bytecode = True
import course  # noqa: E402
import course_notebook  # noqa: E402

TEXT = """X [3,4] times W [4,6] on 2 ranks

X
  1 2 3 4
  5 6 7 8

sent by each rank      │ calls: measured  formula │ bytes: measured  formula
───────────────────────┼──────────────────────────┼─────────────────────────
column, then row: [3]  │               1        1 │           1,344    1,344
row split              │               2        2 │           6e-07      2.5

OK
"""


class Reading(unittest.TestCase):
    seen = course.Run(TEXT, [{"kind": "config"}, {"kind": "step", "loss": 2.0}, {"kind": "step", "loss": 1.5}])

    def test_table(self):
        self.assertEqual(self.seen.table("sent by each"), [["column, then row: [3]", 1, 1, 1344, 1344], ["row split", 2, 2, 6e-07, 2.5]])

    def test_block_prefers_the_whole_line(self):
        self.assertEqual(self.seen.block("X"), ["  1 2 3 4", "  5 6 7 8"])

    def test_what_is_not_there(self):
        for attempt, words in ((lambda: self.seen.block("nosuch"), "no line that starts with 'nosuch'"), (lambda: self.seen.table("X"), "is no table"),
                               (lambda: self.seen.one("step"), "2 lines of kind step"), (lambda: self.seen.one("time"), "0 lines of kind time"),
                               (lambda: course.source("course", "no such line"), "no line that starts with"),
                               (lambda: course.source("course", "import re", "no such line"), "no such line' after line")):
            with self.assertRaisesRegex(course.Failed, words):
                attempt()

    def test_metrics(self):
        self.assertEqual(self.seen.rows("step", "loss"), [2.0, 1.5])
        self.assertEqual(self.seen.one("config"), {"kind": "config"})

    def test_flags(self):
        self.assertEqual(course.command(13, 4, {"dp": 2, "loss_parallel": True, "quiet": False, "text": ["a", "b"]}),
                         ["run", "13", "-n", "4", "--dp", "2", "--loss-parallel", "--text", "a", "b"])

    def test_source(self):
        self.assertEqual(course.source("common/chunk.hpp", "inline Chunk chunk").split("(")[0], "inline Chunk chunk")
        lines = course.source("common/chunk.hpp", "for (int64_t r = 0", "return sizes;").splitlines()
        self.assertEqual((lines[0][:3], lines[-1]), ("for", "return sizes;"))

    def test_source_leaves_the_marks_of_an_exercise_out(self):
        with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.object(course, "ROOT", Path(folder)):
            (Path(folder) / "x.cpp").write_text("  int f() {\n    // exercise f {\n    return 1;  // one\n    // } exercise\n  }\n")
            self.assertEqual(course.source("x.cpp", "int f", "}"), "int f() {\n  return 1;  // one\n}")

    def test_golden(self):
        about, tensors = course.golden("swiglu_mlp__plain.safetensors")
        shape, numbers = tensors["down_proj.weight"]
        self.assertEqual((about["tol"], shape, len(numbers)), ("1e-5", [16, 44], 16 * 44))

    def test_compare(self):
        for guess, said in ((None, "1,344 bytes (you made no guess)"), (1344, "1,344 bytes (as you guessed)"), (12, "1,344 bytes (your guess: 12)")):
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                course.compare(guess, 1344, "bytes")
            self.assertEqual(out.getvalue(), said + "\n")


class Running(unittest.TestCase):
    def test_a_program_and_its_trace(self):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            seen = course.run(1, ranks=2, trace=True, m=2, k=3, n=4)
        self.assertEqual(out.getvalue(), "./course run 01 -n 2 --m 2 --k 3 --n 4\n")
        self.assertEqual(seen.table("sent by each rank")[0][3:], [16, 16])
        self.assertTrue(any(event["cat"] == "collective" for event in seen.events))

    def test_a_wrong_flag_is_said(self):
        with contextlib.redirect_stdout(io.StringIO()), self.assertRaisesRegex(course.Failed, r"(?s)ended with 2.*--k 0"):
            course.run(1, ranks=2, k=0)


class Command(unittest.TestCase):
    def test_which(self):
        self.assertEqual([path.stem for path in course_notebook.parse(["--check", "3", "01_split"]).paths], ["03_mesh_and_placements", "01_split"])
        self.assertEqual(len(course_notebook.parse([]).paths), 6)
        for words, said in ((["44"], "there is no notebook '44'; they are 01_split"), (["--check", "--execute"], "not allowed with")):
            err = io.StringIO()
            with contextlib.redirect_stderr(err), self.assertRaises(SystemExit) as end:
                course_notebook.parse(words)
            self.assertEqual(end.exception.code, 2)
            self.assertIn(said, err.getvalue())

    def test_packages_that_cannot_be_had(self):
        with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as patches:
            home = Path(folder) / "env"
            for name, value in (("ENVIRONMENT", home), ("PYTHON", home / "bin" / "python")):
                patches.enter_context(unittest.mock.patch.object(course_notebook, name, value))
            pip = Path(folder) / "pip"
            pip.write_text("#!/bin/sh\necho first\necho 'ERROR: no network'\nexit 1\n")
            pip.chmod(0o755)
            with self.assertRaisesRegex(course_notebook.NoPackages, "cannot be installed: ERROR: no network"):
                course_notebook.prepare([str(pip)], lambda line: None)
            self.assertFalse((home / "installed.txt").exists())
            with self.assertRaisesRegex(course_notebook.NoPackages, "pip is missing"):
                course_notebook.prepare(None, lambda line: None)


if __name__ == "__main__":
    unittest.main()
