"""What a learner does and what can go wrong, in a copy of the course, so that no one's own work/ is touched.

    python3 -m unittest discover -s tests/grade
"""
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / folder) for folder in ("tools/exercises", "tools", "tests/grade")]
sys.dont_write_bytecode = True
import class_of  # noqa: E402
import make  # noqa: E402
import sandbox  # noqa: E402
import source  # noqa: E402
del sys.path[:3]

EXERCISE = make.exercises(ROOT)["split"]
SOLUTION = source.solution(EXERCISE)
MINE = class_of.with_code(SOLUTION, 'if (comm.rank() == 0) std::cout << "mine" << std::endl;', class_of.INCLUDES)


def with_code(code):
    return class_of.with_code(SOLUTION, code, class_of.INCLUDES)


class ALearner(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = os.environ.get("COURSE_COPY")          # for who works on this: the copy and its build stay there
        if not folder:
            temporary = tempfile.TemporaryDirectory()
            cls.addClassCleanup(temporary.cleanup)
            folder = temporary.name
        cls.root = Path(folder) / "course"
        shutil.copytree(ROOT, cls.root, symlinks=True, dirs_exist_ok=True,
                        ignore=shutil.ignore_patterns("build*", "data", "runs", "work", ".git", ".peer", ".venv", "__pycache__"))
        cls.environment = {k: v for k, v in os.environ.items() if k != "COURSE_BUILD"}
        cls.file = cls.root / "work" / EXERCISE.folder / "split.cpp"

    def course(self, *words):
        done = subprocess.run([sys.executable, str(self.root / "course"), *words], capture_output=True, text=True, env=self.environment,
                              timeout=600)
        return done.returncode, done.stdout + done.stderr

    def check(self, text, *words):
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.file.write_text(text, encoding="utf-8")
        return self.course("check", "split", *words)

    def test_run_takes_what_has_passed(self):
        code, said = self.check(MINE)
        self.assertEqual(code, 0, said)
        self.assertIn(f"work/{EXERCISE.folder}/split.cpp, sha256 {hashlib.sha256(MINE.encode()).hexdigest()[:12]}: split passed", said)
        code, said = self.course("run", "01")
        self.assertEqual(code, 0, said)
        self.assertIn("with your own split (01); --ours runs the course's", said)
        self.assertIn("\nmine\n", said)
        code, said = self.course("run", "01", "--ours")
        self.assertEqual((code, "mine" in said, "your own" in said), (0, False, False), said)
        self.file.write_text(MINE + "// one more line\n")
        code, said = self.course("run", "01")
        self.assertEqual((code, "\nmine\n" in said), (0, False), said)
        self.assertIn("split.cpp was changed since it passed; the course's own is used", said)
        self.file.unlink()
        code, said = self.course("run", "01")
        self.assertEqual((code, "is missing" in said), (0, True), said)

    def test_the_compilers_words_are_short(self):
        code, said = self.check(SOLUTION.replace(class_of.BODY, "struct Q {}; cat(Q{});"))
        self.assertEqual(code, 1)
        lines = said.splitlines()
        self.assertRegex(lines[2], rf"^work/{EXERCISE.folder}/split.cpp:\d+: no match for 'operator<<'")
        self.assertIn("cat(Q{});", lines[3])
        self.assertLess(len(lines), 8, said)
        self.assertGreater(len(self.check(self.file.read_text(), "--full")[1].splitlines()), 50)

    def test_what_ends_early_says_so(self):
        for code, words in (("_exit(0);", "exit code 0 before the check was through"), ("exit(0);", "exit() was called"),
                            ("std::cout << \"split passed\" << std::endl; std::_Exit(0);", "exit code 0 before"), ("abort();", "SIGABRT")):
            with self.subTest(code):
                ended, said = self.check(with_code(code))
                self.assertEqual(ended, 1)
                self.assertIn(words, said)

    def test_it_writes_nothing_into_the_course(self):
        place = self.root / "chapters" / "written"
        readme = self.root / "chapters" / EXERCISE.folder / "README.md"
        before = readme.read_text()
        ended, said = self.check(with_code(f'std::ofstream("{place}") << 1; std::ofstream("{readme}") << 1;'))
        if sandbox.reason():
            self.assertEqual(ended, 1)
            self.assertIn("it wrote into the course", said)
            self.assertIn("chapters/written", said)
        else:
            self.assertEqual((ended, place.exists(), readme.read_text() == before), (0, False, True), said)

    def test_a_changed_signature(self):
        ended, said = self.check(SOLUTION.replace("Tensor column_then_row(Backend& backend, Comm& comm, const Tensor& x,",
                                                  "Tensor column_then_row(Backend& backend, Comm& comm, Tensor x,"))
        self.assertEqual(ended, 1)
        self.assertIn("column_then_row: declared, and not in your file as it is declared", said)

    def test_no_such_exercise_and_no_file(self):
        code, said = self.course("check", "splt")
        self.assertEqual(code, 2)
        self.assertIn("there is no exercise 'splt'; did you mean split?", said)
        self.file.unlink(missing_ok=True)
        code, said = self.course("check", "split")
        self.assertEqual(code, 2)
        self.assertIn("split.cpp is missing; ./course start split makes it", said)

    def test_reset_keeps_what_was_written(self):
        self.file.parent.mkdir(parents=True, exist_ok=True)
        texts = [f"{word} {time.time_ns()}" for word in ("first", "second")]
        for text in texts:
            self.file.write_text(text)
            self.assertEqual(self.course("reset", "split")[0], 0)
            self.assertEqual(self.file.read_text(), source.stub(EXERCISE))
        kept = {p.read_text() for p in self.file.parent.glob("split.cpp.*")}
        self.assertLessEqual(set(texts), kept)


if __name__ == "__main__":
    unittest.main()
