"""The flags that explain a run, as a person uses them: --trace, --watch-gradients, --dump-tensors, ./course trace and diff.

    COURSE_BUILD=build python3 -m unittest discover -s tests/trace
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(os.environ.get("COURSE_BUILD") or ROOT / "build") / "bin"
MPIRUN = os.environ.get("COURSE_MPIRUN", "mpirun")
RIGHT = ["--seq", "15", "--batch", "4", "--steps", "2", "--text", "chapters/03_device_mesh/README.md",
         "--tokenizer", "tests/golden/tokenizer/tokenizer.json", "--preset", "small"]


def run(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, cwd=ROOT, timeout=120)
    return done.returncode, done.stdout, done.stderr


def program(name, ranks, *flags):
    code, out, err = run(MPIRUN, "-n", ranks, BIN / name, *RIGHT, *flags)
    if code:
        raise AssertionError(f"{name} ended with code {code}: {out}{err}")
    return out


def course(*words):
    return run(sys.executable, ROOT / "course", *words)


class Flags(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def events(self, name, ranks, *flags):
        """The events of rank 0 in the training steps."""
        path = self.folder / f"{name}.json"
        program(name, ranks, "--quiet", "--trace", path, *flags)
        code, out, err = course("trace", path)
        self.assertEqual(code, 0, err)
        self.assertIn("behind kernels", out)
        events = [e for e in json.loads(path.read_text())["traceEvents"] if e["ph"] == "X" and e["tid"] % ranks == 0]
        steps = [e for e in events if e["name"] == "step"]
        self.assertEqual(len(steps), 2)
        return [e for e in events if any(s["ts"] <= e["ts"] < s["ts"] + s["dur"] for s in steps)]

    def overlapped(self, events, name):
        """(calls, how many had a kernel between their start and their end)"""
        kernels = [e for e in events if e["cat"] == "kernel"]
        calls = [e for e in events if e["cat"] == "collective" and e["name"] == name]
        inside = [any(c["ts"] <= k["ts"] and k["ts"] + k["dur"] <= c["ts"] + c["dur"] for k in kernels) for c in calls]
        return len(calls), sum(inside)

    def test_fsdp_communicates_while_it_computes(self):
        events = self.events("12_fully_sharded", 2)
        # 4 layers, 2 steps. Of 9 all-gathers a step only the root's has nothing to hide behind; of 5 reduce-scatters only its.
        self.assertEqual(self.overlapped(events, "dp all-gather"), (18, 16))
        self.assertEqual(self.overlapped(events, "dp reduce-scatter"), (10, 8))

    def test_ddp_communicates_while_it_computes(self):
        def early(*flags):
            """(calls, how many started before a step's last matmul), both of two steps"""
            events = self.events("12_fully_sharded", 2, "--ddp", *flags)
            count, before = 0, 0
            for step in (e for e in events if e["name"] == "step"):
                inside = [e for e in events if step["ts"] <= e["ts"] < step["ts"] + step["dur"]]
                starts = [e["ts"] for e in inside if e["name"] == "dp all-reduce"]
                last = max(e["ts"] for e in inside if e["name"] == "matmul")
                count, before = count + len(starts), before + sum(ts < last for ts in starts)
            return count, before
        # All gradients, 20 MiB, are one bucket: backward is over when it starts. Of 18 buckets of about 1 MiB only two a step are
        # as late: the embedding's, and the one with layer 0's first norm.
        self.assertEqual(early(), (2, 0))
        self.assertEqual(early("--bucket-mb", 1), (36, 32))

    def test_two_meshes_are_compared_by_dumps_and_by_metrics(self):
        # AdamW divides a gradient that is rounding alone, 1e-9, by its own size: that may move a weight, by the learning rate at most.
        for name, ranks, more in (("alone", 1, ["--lr", "1e-4"]), ("grid", 4, ["--dp", 2, "--tp", 2, "--lr", "1e-4"]),
                                  ("other", 2, ["--tp", 2, "--lr", "0.01"])):
            own = self.folder / name
            own.mkdir()
            out = program("13_two_dimensional", ranks, "--metrics", own / "metrics.jsonl", "--watch-gradients", "--dump-tensors",
                          own / "dump", *more)
            self.assertIn("gradient norms", out)
            self.assertIn("one step of 2", out)
        for what in ("dump", "metrics.jsonl"):
            code, out, _ = course("diff", self.folder / "alone" / what, self.folder / "grid" / what)
            self.assertEqual(code, 0, out)
            self.assertIn("equal within the tolerance", out)
            code, out, _ = course("diff", self.folder / "alone" / what, self.folder / "other" / what)
            self.assertEqual(code, 1, out)
            self.assertIn("they differ, first in step 1: ", out)
        kinds = {json.loads(line)["kind"] for line in (self.folder / "grid" / "metrics.jsonl").read_text().splitlines()}
        self.assertEqual(kinds, {"config", "validation", "step", "gradients", "time", "summary"})

    def test_a_dump_is_not_written_over(self):
        program("09_llama", 1, "--quiet", "--dump-tensors", self.folder / "dump")
        code, _, err = run(MPIRUN, "-n", 1, BIN / "09_llama", *RIGHT, "--quiet", "--dump-tensors", self.folder / "dump")
        self.assertEqual(code, 1)
        self.assertIn("holds the steps of an earlier run", err)


if __name__ == "__main__":
    unittest.main()
