"""./course gpu-check --emulate from end to end: what a person with a GPU will type, on the emulated one."""
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def check(folder, **environment):
    command = [sys.executable, str(ROOT / "course"), "gpu-check", "--emulate", "--out", folder]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1000, stdin=subprocess.DEVNULL, env={**os.environ, **environment})


class Emulated(unittest.TestCase):
    def test_the_whole_way(self):
        before = {p: p.read_bytes() for p in (ROOT / "benchmarks").glob("gpu-report.*")}
        with tempfile.TemporaryDirectory() as folder:
            done = check(folder)
            self.assertEqual(done.returncode, 0, done.stdout[-3000:] + done.stderr[-3000:])
            report = json.loads((Path(folder) / "gpu-report.json").read_text())
            text = (Path(folder) / "gpu-report.md").read_text()
        self.assertTrue(report["emulated"] and report["complete"])
        self.assertIn("no GPU has seen any of this", text)
        results = {test["name"]: test["result"] for test in report["tests"]}
        for name in ("build", "02_collectives on 4 ranks", "cuda.1", "nccl.2", "comm.2", "04_sharded_linear.golden.2", "a step in f32", "a step on 4 ranks",
                     "gpu_kernels in f32"):
            self.assertEqual(results.get(name), "passed", name)
            self.assertIn(f"| {name} | passed |", text)
        self.assertNotIn("FAILED", results.values())
        figures = {figure.get("kernel") or figure.get("product"): figure for figure in report["figures"] if figure.get("dtype") == "f32"}
        for kernel in ("rms_norm", "rms_norm_backward", "silu_mul", "adamw", "cross_entropy, forward", "cross_entropy, backward", "attention",
                       "attention_backward", "matmul, hidden to vocabulary", "rms_norm_of_thread", "softmax_online", "matmul_in_registers"):
            self.assertGreater(figures[kernel]["us"], 0, kernel)
        self.assertGreater(figures["matmul_in_registers"]["of cuBLAS alone"], 0)
        self.assertEqual([f["dtype"] for f in report["figures"] if f.get("kernel") == "adamw"], ["f32"])
        self.assertEqual(before, {p: p.read_bytes() for p in (ROOT / "benchmarks").glob("gpu-report.*")})

    def test_what_fails_stops_nothing_and_is_told(self):
        with tempfile.TemporaryDirectory() as folder:
            done = check(folder, COURSE_EMULATE_DRIVER="none")
            report = json.loads((Path(folder) / "gpu-report.json").read_text())
            text = (Path(folder) / "gpu-report.md").read_text()
        self.assertEqual(done.returncode, 1, done.stdout[-3000:] + done.stderr[-3000:])
        failed = {test["name"]: test["why"] for test in report["tests"] if test["result"] == "FAILED"}
        self.assertIn("has no GPU driver", failed["02_collectives on 2 ranks"])
        self.assertIn("cuda.1", failed)
        self.assertTrue(report["complete"])
        self.assertIn("| 02_collectives on 2 ranks | FAILED | --device cuda: this machine has no GPU driver", text)
