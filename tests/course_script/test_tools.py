"""Tests of ./course trace and ./course diff.

    python3 -m unittest discover -s tests/course_script
"""
import json
import math
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
sys.dont_write_bytecode = True
import course_diff  # noqa: E402
import course_trace  # noqa: E402
sys.path.pop(0)


def course(*arguments):
    done = subprocess.run([sys.executable, str(ROOT / "course"), *map(str, arguments)], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


class InAFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)


def event(tid, ts, dur, cat, name, **args):
    return {"ph": "X", "pid": 0, "tid": tid, "ts": ts, "dur": dur, "cat": cat, "name": name, "args": args}


class Trace(InAFolder):
    def write(self, events, ranks=1):
        path = self.root / "trace.json"
        path.write_text(json.dumps({"otherData": {"ranks": ranks, "left_out": [0] * ranks}, "traceEvents": events}))
        return path

    def test_a_collective_half_behind_a_kernel(self):
        events = [event(0, 0, 1000, "phase", "step"), event(0, 100, 400, "kernel", "matmul"),
                  event(1, 300, 400, "collective", "tp all-gather", waited_us=200), event(0, 2000, 50, "kernel", "matmul")]
        found = course_trace.summary(events, 1)
        rank, = found["ranks"]
        self.assertEqual((found["steps"], rank["ms"], rank["kernels"], rank["waited"], rank["hidden"]), (1, 1.0, 0.4, 0.2, 0.5))
        self.assertEqual(found["rows"][("kernel", "matmul")]["calls"], [1])
        self.assertEqual(course_trace.summary(events, 1, everything=True)["rows"][("kernel", "matmul")]["calls"], [2])
        code, out, _ = course("trace", self.write(events))
        self.assertEqual(code, 0)
        self.assertIn("50.0%", out)

    def test_what_is_no_trace_is_one_line(self):
        bad = {"no JSON": "{", "no list": "{}", "no ranks": '{"traceEvents":[]}'}
        for what, text in bad.items():
            with self.subTest(what):
                (self.root / "t").write_text(text)
                code, out, err = course("trace", self.root / "t")
                self.assertEqual((code, out, err.count("\n")), (1, "", 1))
        self.assertIn("dur", course("trace", self.write([event(0, 0, -1, "kernel", "add")]))[2])
        self.assertIn("ends after", course("trace", self.write([event(0, 0, 10, "kernel", "add"), event(0, 5, 10, "kernel", "fill")]))[2])
        self.assertEqual(course("trace")[0], 2)


class Diff(InAFolder):
    def metrics(self, name, losses, first=1):
        path = self.root / name
        path.write_text("".join(json.dumps({"kind": "step", "step": first + i, "loss": x}) + "\n" for i, x in enumerate(losses)))
        return path

    def dump(self, name, step, tensors):
        header, data = {}, b""
        for key, values in tensors.items():
            part = struct.pack(f"<{len(values)}f", *values)
            header[key] = {"dtype": "F32", "shape": [len(values)], "data_offsets": [len(data), len(data) + len(part)]}
            data += part
        text = json.dumps(header).encode()
        (self.root / name).mkdir(exist_ok=True)
        (self.root / name / f"step-{step:08}.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
        return self.root / name

    def test_metrics(self):
        a = self.metrics("a", [3, 2, 1])
        self.assertEqual(course("diff", a, self.metrics("b", [3, 2 + 1e-7, 1]))[0], 0)
        code, out, _ = course("diff", a, self.metrics("c", [3, 2.5, 1.5, 1]))
        self.assertEqual(code, 1)
        self.assertIn("first in step 2: loss", out)
        self.assertIn("only in the second run: 1 steps", out)
        self.assertEqual(course("diff", a, self.metrics("c", [3, 2.5, 1.5]), "--rtol", "1")[0], 0)

    def test_nan_is_equal_to_nan_only(self):
        a = self.metrics("a", [None, 2])
        self.assertEqual(course("diff", a, self.metrics("b", [None, 2]))[0], 0)
        self.assertEqual(course("diff", a, self.metrics("c", [3, 2]))[0], 1)

    def test_dumps(self):
        for step in (1, 2):
            a = self.dump("a", step, {"grad.w": [1, 2, 3], "weight.w": [4, 5]})
            b = self.dump("b", step, {"grad.w": [1, 2, 3 + (step == 2)], "weight.w": [4, 5 + (step == 2)]})
        code, out, _ = course("diff", a, b)
        self.assertEqual(code, 1)
        self.assertIn("first in step 2: grad.w", out)
        self.assertIn("step 2, [2] 3 and 4", out)
        self.assertEqual(course("diff", a, a)[0], 0)
        self.assertEqual(course("diff", a, self.dump("c", 1, {"weight.w": [4, 5]}))[0], 1)      # grad.w is missing

    def test_the_tolerance_is_that_of_the_element_and_of_its_tensor(self):
        cases = [([1, 2, 3], [1, 2, 4], 2, True), ([1, math.nan], [1, math.nan], 0, False), ([1, math.nan], [1, 2], 1, True),
                 ([math.inf], [math.inf], 0, False), ([math.inf, 1], [1, 1], 0, True), ([0, 100], [0.05, 100], 0, False),
                 ([0, 100], [0.08, 100], 0, True), ([], [], 0, False)]
        for a, b, place, beyond in cases:
            with self.subTest(a=a, b=b):
                self.assertEqual(course_diff.difference(a, b, 1e-3, 1e-8)[1:], (place, beyond))

    def test_nothing_to_compare_is_wrong_usage(self):
        a, dump = self.metrics("a", [3]), self.dump("d", 1, {"w": [1]})
        (self.root / "empty").mkdir()
        broken = self.dump("broken", 1, {"w": [1, 2]})
        file = broken / "step-00000001.safetensors"
        file.write_bytes(file.read_bytes()[:-3])
        for other in ("missing", "empty", "d"):
            code, out, err = course("diff", a, self.root / other)
            self.assertEqual((code, out, err.count("\n")), (2, "", 1), other)
        self.assertEqual(course("diff", a, self.metrics("late", [3], first=7))[0], 2)
        self.assertEqual(course("diff", dump, broken)[0], 2)
        self.assertEqual(course("diff", a, a, "--rtol", "-1")[0], 2)
        self.assertEqual(course("diff", a)[0], 2)


if __name__ == "__main__":
    unittest.main()
