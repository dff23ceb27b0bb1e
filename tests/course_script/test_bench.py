"""Tests of benchmarks/bench.py with programs that only say their time: no build, no torch."""
import contextlib
import io
import sys
import tempfile
import unittest
import unittest.mock
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[2] / folder) for folder in ("benchmarks", "tools")]
sys.dont_write_bytecode = True
import bench  # noqa: E402
from course_base import Stop  # noqa: E402

# Says the next of the milliseconds in the file beside it, after some other line.
PROGRAM = """#!/bin/sh
echo "$@" >> {log}
ms=$(head -1 {times}); sed -i 1d {times}
[ "$ms" = dies ] && {{ echo '{{"step_ms": 1}}'; echo "rank 0: it went wrong" >&2; exit 1; }}
[ "$ms" = mute ] && exit 0
echo some words
echo '{{"step_ms": '$ms'}}'
"""
PYTHON = """#!/bin/sh
[ "$1" = -c ] && {{ echo 9.9.9; exit 0; }}
exec {program} "$@"
"""


class Bench(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def program(self, name, times):
        (self.folder / f"{name}.times").write_text("\n".join(map(str, times)) + "\n")
        path = self.folder / name
        path.write_text(PROGRAM.format(log=self.folder / f"{name}.log", times=self.folder / f"{name}.times"))
        path.chmod(0o755)
        return path

    def bench(self, arguments, our_times, peer_times=None):
        launcher = self.program("mpirun", our_times)
        if peer_times is not None:
            python = self.folder / "python"
            python.write_text(PYTHON.format(program=self.program("torch", peer_times)))
            python.chmod(0o755)
            arguments = arguments + ["--torch", str(python)]
        said = io.StringIO()
        none = unittest.mock.patch.object(bench, "find_torch", return_value=(None, "no torch here"))
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(io.StringIO()), \
                none if peer_times is None else contextlib.nullcontext():
            options = bench.parse(arguments)
            code = bench.main(options, bench.find_torch(options.torch), launcher, self.folder)
        self.assertEqual(code, 0)
        return said.getvalue()

    def test_the_ratio_is_formed_round_by_round(self):
        said = self.bench(["--mesh", "2x2", "--rounds", "3"], [100, 300, 90], [200, 400, 300])
        # Ratios 0.5, 0.75, 0.3; the ratio of the medians would be 100/300 = 0.33.
        self.assertIn("| 2 × 2 | 100, 300, 90 | 200, 400, 300 | 0.50 | 0.30 – 0.75 | ≤ 0.6 |", said)

    def test_both_get_the_same_step(self):
        self.bench(["--mesh", "1x4", "--rounds", "1", "--loss-parallel", "--batch", "4"], [1], [1])
        flags = "--device cpu --preset small --plan sequence --steps 8 --dp 1 --tp 4 --loss-parallel --batch 4"
        for name in ("mpirun", "torch"):
            log = (self.folder / f"{name}.log").read_text()
            self.assertTrue(log.rstrip().endswith(flags), log)
            self.assertIn("4 ", log)

    def test_without_a_torch_ours_alone(self):
        said = self.bench(["--mesh", "1x1", "--rounds", "2"], [7, 8])
        self.assertIn("| 1 × 1 | 7, 8 | – | – | – | – |", said)

    def test_a_program_that_fails_is_named_with_its_words(self):
        for time, words in (("dies", "it went wrong"), ("mute", "ended with code 0")):
            with self.assertRaises(Stop) as stopped:
                self.bench(["--mesh", "1x2"], [time], [1])
            self.assertIn(words, str(stopped.exception))

    def test_limits_are_those_of_small_only(self):
        self.assertIn("| – |", self.bench(["--preset", "tiny", "--mesh", "2x2", "--rounds", "1"], [1], [1]))

    def test_a_named_python_must_have_a_torch(self):
        for gpu in (False, True):
            with self.assertRaises(Stop) as stopped:
                bench.find_torch("/nowhere/python", gpu)
            self.assertIn("/nowhere/python", str(stopped.exception))
            self.assertEqual(stopped.exception.code, 2)

    def test_a_torch_that_sees_no_gpu_is_for_the_processor(self):
        python = self.folder / "python"
        python.write_text("#!/bin/sh\necho 9.9.9 False\n")
        python.chmod(0o755)
        self.assertEqual(bench.find_torch(str(python)), (str(python), "9.9.9"))
        self.assertEqual(bench.find_torch(str(python), gpu=True), (None, "torch 9.9.9 sees no GPU"))
        with unittest.mock.patch.object(bench, "PYTHONS", ["/nowhere/python"]):
            self.assertEqual(bench.find_torch(None), (None, "no torch here"))

    def test_flags_that_cannot_be(self):
        for flags in (["--mesh", "2y"], ["--mesh", "0x2"], ["--rounds", "0"], ["--what"]):
            with self.subTest(flags=flags), self.assertRaises(SystemExit) as stopped, contextlib.redirect_stderr(io.StringIO()):
                bench.parse(flags)
            self.assertEqual(stopped.exception.code, 2)


if __name__ == "__main__":
    unittest.main()
