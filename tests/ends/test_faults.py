"""One rank throws, gives up or stays away (case B12): every rank ends, the launcher's exit code is not 0, one line says which
rank and why. All but `stays_away` run without a time limit, so that a rank which waits for ever is seen to. Most of a run is
waiting, so four are under way at once."""
import concurrent.futures
import shutil
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from run import BUILD, MPIRUN, ROOT, STACK, Run, goes_wrong  # noqa: E402

NO_LIMIT = "0"

# How one rank goes wrong, what its line says, and flags of goes_wrong; `ranks` and `who` are how many and which.
THROWS = [
    # The five of case B12; where its data file alone is missing has a test of its own.
    ("throw", "its third all-reduce was one too many", {}),
    ("throw-in-thread", "the worker found nothing to do", {}),
    ("throw-in-hook", "the hook found no gradient", {"where": "hook"}),
    ("throw-bad-alloc", "out of memory", {}),
    # Others of its kind.
    ("ask-for-too-much", "out of memory: 4503599627370496 bytes asked for", {}),
    ("throw-int", "an exception of a type that has no words", {}),
    ("throw-in-destructor", "a destructor gave up", {}),
    ("throw-while-unwinding", "a destructor gave up", {}),
    ("meet-while-unwinding", "thrown beside one who meets at its end", {"where": "end"}),
    ("throw-in-noexcept", "nothing may leave here", {}),
    ("throw-in-openmp", "a loop of many threads gave up", {}),
    ("terminate", "terminate() was called", {}),
    # What all ranks throw together is said by one; here one alone throws it.
    ("throw-shared-alone", "a fault that all should have seen", {}),
    ("throw-usage-alone", "a flag that only this rank was given", {"where": "split"}),
    ("throw-shared-alone", "a fault that all should have seen", {"where": "end"}),
    # The rank that speaks for all.
    ("throw-shared-alone", "a fault that all should have seen", {"who": 0}),
    ("throw", "its third all-reduce was one too many", {"ranks": 2, "who": 0}),
    # While the others split or end.
    ("throw", "its third all-reduce was one too many", {"where": "split"}),
    ("throw", "its third all-reduce was one too many", {"where": "end"}),
]
# How one rank stays away, which others say so, and of what.
AWAY = [
    ("stay-away", "013", "all-reduce on world", {}),
    ("stay-away", "013", "barrier on world", {"where": "split"}),
    ("stay-away", "013", "all-reduce on the end of the run", {"where": "end"}),
    ("return", "0123", "all-reduce on (world|the end of the run)", {}),
]


class Faults(unittest.TestCase):
    def each(self, rows, check):
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            runs = [pool.submit(check, how, *said, **flags) for how, *said, flags in rows]
            for row, run in zip(rows, runs):
                with self.subTest(row):
                    run.result()


class OneRankThrows(Faults):
    def check(self, how, words, ranks=4, who=2, **flags):
        with goes_wrong(how, ranks, who=who, timeout=NO_LIMIT, **flags) as run:
            code, lines = run.end(), run.lines()
            self.assertNotEqual(code, 0)
            self.assertIn("two went well", run.stdout())
            named = [line for line in lines if line.startswith(f"rank {who}: ")]
            self.assertEqual(len(named), 1, lines)
            self.assertIn(words, named[0])
            self.assertLessEqual(len(lines), ranks, lines)
            self.assertIsNone(STACK.search("\n".join(lines)), lines)

    def test_each_ends_with_its_line(self):
        self.each(THROWS, self.check)

    def trained(self, rank, **others):
        """(exit code, lines, stdout) of a training of two steps; `rank` has other values of some flags."""
        def command(here):
            flags = {"model": self.folder / "whole", "text": self.text, "tokenizer": ROOT / "tests/golden/tokenizer/tokenizer.json",
                     "steps": 2, "batch": 4, "seq": 15, "timeout": NO_LIMIT, **(others if here else {})}
            return ["-n", "1", BUILD / "bin" / "10_tensor_parallel_training", "--quiet",
                    *(w for name, value in flags.items() for w in ("--" + name, value))]

        with Run([MPIRUN, *(w for r in range(4) for w in [":"] * (r > 0) + command(r == rank))]) as run:
            return run.end(), run.lines(), run.stdout()

    def test_only_its_data_file_is_missing(self):
        with tempfile.TemporaryDirectory() as folder:
            self.folder, self.text = Path(folder), Path(folder) / "text.txt"
            shutil.copy(ROOT / "chapters/03_device_mesh/README.md", self.text)
            for name in ("without_config", "without_weights"):
                (self.folder / name).mkdir()
                shutil.copy(BUILD / "tests/uneven_model/config.json", self.folder / name)
            made = Run([BUILD / "bin" / "09_llama", "--model", self.folder / "without_weights", "--text", self.text, "--seq", "15", "--batch", "2",
                        "--steps", "2", "--tokenizer", ROOT / "tests/golden/tokenizer/tokenizer.json", "--save", self.folder / "whole"])
            with made:
                self.assertEqual(made.end(), 0, made.stderr())
            (self.folder / "without_config" / "config.json").unlink()
            code, lines, said = self.trained(2)
            self.assertEqual(code, 0, lines)
            # The text is read by rank 0, who tells the others.
            self.assertEqual(self.trained(2, text=self.folder / "missing")[0], 0)
            for rank, others, words in ((0, {"text": self.folder / "missing"}, "missing: no such file"),
                                        (2, {"model": self.folder / "without_config"}, "without_config/config.json: cannot be read"),
                                        (2, {"model": self.folder / "without_weights"}, "without_weights/model.safetensors: cannot open: No such file")):
                with self.subTest(words):
                    code, lines, _ = self.trained(rank, **others)
                    self.assertNotEqual(code, 0)
                    self.assertEqual(len(lines), 1, lines)
                    self.assertRegex(lines[0], f"^rank {rank}: .*{words}")


class StaysAway(Faults):
    """Without --check-collectives. The limit is short here, so that the test is."""

    def check(self, how, who_speaks, words, **flags):
        with goes_wrong(how, timeout="6", **flags) as run:
            self.assertNotEqual(run.end(), 0)
            lines = run.lines()
            self.assertTrue(lines)
            for line in lines:
                self.assertRegex(line, rf"^rank [{who_speaks}]: waited 6 s for {words} \(rank \d of 4\): another rank did not come")

    def test_the_others_say_what_they_waited_for(self):
        self.each(AWAY, self.check)

    def test_one_rank_exits(self):
        with goes_wrong("exit", timeout="0") as run:
            self.assertNotEqual(run.end(), 0)
            self.assertEqual(run.lines(), ["rank 2: exit() was called in the middle of the run"])


if __name__ == "__main__":
    unittest.main()
