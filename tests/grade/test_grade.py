"""./course grade on a class that hands in everything that a class might (class_of.py).

    COURSE_BUILD=build python3 -m unittest discover -s tests/grade
"""
import csv
import json
import os
import socket
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as xml
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / folder) for folder in ("tools/exercises", "tools", "tests/grade")]
sys.dont_write_bytecode = True
import class_of  # noqa: E402
import make  # noqa: E402
import sandbox  # noqa: E402
import source  # noqa: E402
del sys.path[:3]

ONLY = os.environ.get("COURSE_STUDENTS", "").split()     # for who works on one verdict
SLEEP = str(43210 + os.getpid() % 1000)         # of the daemon, so that it is found among the processes


def graded(folder, *words):
    """What ./course grade ends with, and its rows."""
    sheet = folder / "grades.json"
    done = subprocess.run([str(word) for word in (sys.executable, ROOT / "course", "grade", "--class", folder / "class", "--seed", "4242",
                                                  "--seconds", "10", "--memory", "512", "--out", sheet, *words)],
                          capture_output=True, text=True, timeout=600)
    return done, json.loads(sheet.read_text())["grades"] if done.returncode == 0 else []


def processes():
    return subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True).stdout.splitlines()


@unittest.skipIf(sandbox.reason(), f"no sandbox: {sandbox.reason()}")
class AClass(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.root = Path(folder.name)
        cls.root.chmod(0o755)                   # it is the sandbox that keeps them out, not this
        listening = socket.create_server(("127.0.0.1", 0))
        listening.setblocking(False)
        cls.addClassCleanup(listening.close)
        exercise = make.exercises(ROOT)["split"]
        wrong = {w.name: source.answer(exercise, w) for w in exercise.wrong}
        places = {"class": str(cls.root / "class"), "root": str(ROOT), "port": listening.getsockname()[1], "sleep": SLEEP}
        cls.handed_in = class_of.class_of(source.solution(exercise), source.stub(exercise), wrong, places)
        for student, (_, _, text) in cls.handed_in.items():
            work = cls.root / "class" / student / exercise.folder
            work.mkdir(parents=True)
            if text is not None:
                (work / "split.cpp").write_text(text, encoding="utf-8")
        (cls.root / "class" / "mean" / "state.json").write_text('{"split": {"hints": 2, "shown": true, "checks": 5}}')
        (cls.root / "class" / "floor" / "state.json").write_text('{"split": {"hints": "=1+1", "shown": 7}}')
        link = cls.root / "class" / "links" / exercise.folder
        link.mkdir(parents=True)
        (link / "split.cpp").symlink_to(cls.root / "class" / "solution" / exercise.folder / "split.cpp")
        cls.handed_in["links"] = ("does not compile", "a link that leaves", None)
        circle = cls.root / "class" / "circle" / exercise.folder
        circle.mkdir(parents=True)
        (circle / "split.cpp").symlink_to("split.cpp")
        (circle.parent / "state.json").symlink_to("state.json")
        cls.handed_in["circle"] = ("does not compile", "symbolic links", None)
        cls.files = [cls.root / ("grades" + end) for end in (".csv", ".xml")]
        command = ["--only", "split"]
        for path in cls.files:
            command += ["--out", path]
        for student in ONLY:
            command += ["--student", student]
        cls.done, rows = graded(cls.root, *command)
        cls.said = cls.done.stdout + cls.done.stderr
        cls.rows = {row["student"]: row for row in rows}
        try:
            cls.connected = bool(listening.accept())
        except BlockingIOError:
            cls.connected = False

    def setUp(self):
        self.assertEqual(self.done.returncode, 0, self.said)

    def test_each_verdict(self):
        for student, row in self.rows.items():
            status, words, _ = self.handed_in[student]
            with self.subTest(student):
                self.assertEqual(row["status"], status, row)
                self.assertIn(words, f"{row['mistake']} {row['detail']}")
                self.assertEqual(row["points"], 10 if status == "passed" else 0)

    def test_everybody_is_graded(self):
        self.assertEqual(set(self.rows), set(ONLY or self.handed_in))

    def test_nothing_is_left_and_nothing_written(self):
        self.assertFalse([line for line in processes() if SLEEP in line])
        self.assertFalse(list(ROOT.rglob("written_by_a_student")) + list(self.root.rglob("written_by_a_student")))
        self.assertFalse(self.connected, "a submission reached the network")

    @unittest.skipIf(ONLY, "not everybody")
    def test_the_record_is_taken_where_it_is_one(self):
        keys = "checks", "hints", "solution_shown"
        self.assertEqual([self.rows["mean"][k] for k in keys], [5, 2, True])
        self.assertEqual([self.rows["floor"][k] for k in keys], [None, None, None])

    def test_the_other_forms_say_the_same(self):
        with self.files[0].open(newline="") as file:
            rows = {row["student"]: row for row in csv.DictReader(file)}
        self.assertEqual({s: row["status"] for s, row in rows.items()}, {s: row["status"] for s, row in self.rows.items()})
        suites = {suite.get("name"): suite for suite in xml.parse(self.files[1]).getroot()}
        for student, row in self.rows.items():
            case = suites[student].find("testcase")
            kind = {"passed": None, "not handed in": "skipped"}.get(row["status"], "failure")
            self.assertEqual([e.tag for e in case], [kind] if kind else [], student)

    @unittest.skipIf(ONLY, "not everybody")
    def test_a_line_an_exercise_with_the_mistakes(self):
        self.assertIn("01 split", self.done.stdout)
        self.assertIn("1 mean", self.done.stdout)


@unittest.skipIf(ONLY or sandbox.reason(), "not everybody, or no sandbox")
class TheMuseum(unittest.TestCase):
    def test_a_repair_passes_and_what_hangs_hangs(self):
        checkpoint, mean = (make.exhibits(ROOT)[name] for name in ("checkpoint", "column_mean"))
        handed_in = {"mended": (checkpoint, source.solution(checkpoint), "passed", ""),
                     "as_it_was": (checkpoint, source.stub(checkpoint), "not handed in", "as ./course start made it"),
                     "still_hangs": (checkpoint, source.stub(checkpoint) + "// looked at\n", "hangs", "pending call 3 all-gather of"),
                     "still_wrong": (mean, source.stub(mean) + "// looked at\n", "wrong", ""),
                     "wrong_repair": (mean, source.answer(mean, mean.wrong[0]), "wrong", mean.wrong[0].name)}
        with tempfile.TemporaryDirectory() as folder:
            Path(folder).chmod(0o755)
            for student, (exhibit, text, _, _) in handed_in.items():
                path = Path(folder) / "class" / student / exhibit.folder / exhibit.path.name
                path.parent.mkdir(parents=True)
                path.write_text(text, encoding="utf-8")
            (Path(folder) / "class" / "mended" / "state.json").write_text('{"checkpoint": {"named": "2026-11-29 12:00"}}')
            done, rows = graded(Path(folder), "--only", "checkpoint", "--only", "column_mean")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        found = {(row["student"], row["exercise"]): row for row in rows}
        for student, (exhibit, _, status, words) in handed_in.items():
            row = found.pop((student, exhibit.name))
            with self.subTest(student):
                self.assertEqual((row["status"], row["named"]), (status, student == "mended"), row)
                self.assertIn(words, f"{row['mistake']} {row['detail']}")
        self.assertEqual({row["status"] for row in found.values()}, {"not handed in"})


if __name__ == "__main__":
    unittest.main()
