"""One rank throws, gives up or stays away (case B12): every rank ends, the launcher's exit code is not 0, one line says which
rank and why. All but `stays_away` run without a time limit, so that a rank which waits for ever is seen to."""
import shutil
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from run import BUILD, MPIRUN, ROOT, STACK, Run, goes_wrong  # noqa: E402

NO_LIMIT = "0"


class OneRankThrows(unittest.TestCase):
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

    # The five of case B12.
    def test_before_the_third_all_reduce(self):
        self.check("throw", "its third all-reduce was one too many")

    def test_in_a_worker_thread(self):
        self.check("throw-in-thread", "the worker found nothing to do")

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

    def test_in_a_hook_of_backward(self):
        self.check("throw-in-hook", "the hook found no gradient", where="hook")

    def test_bad_alloc(self):
        self.check("throw-bad-alloc", "out of memory")

    # Others of its kind.
    def test_more_memory_than_there_is(self):
        self.check("ask-for-too-much", "out of memory: 4503599627370496 bytes asked for")

    def test_what_is_no_exception(self):
        self.check("throw-int", "an exception of a type that has no words")

    def test_in_a_destructor(self):
        self.check("throw-in-destructor", "a destructor gave up")

    def test_in_a_destructor_while_unwinding(self):
        self.check("throw-while-unwinding", "a destructor gave up")

    def test_beside_a_destructor_that_meets_the_others(self):
        self.check("meet-while-unwinding", "thrown beside one who meets at its end", where="end")

    def test_out_of_noexcept(self):
        self.check("throw-in-noexcept", "nothing may leave here")

    def test_in_a_loop_of_many_threads(self):
        self.check("throw-in-openmp", "a loop of many threads gave up")

    def test_terminate(self):
        self.check("terminate", "terminate() was called")

    def test_a_shared_error_that_one_rank_alone_throws(self):
        self.check("throw-shared-alone", "a fault that all should have seen")
        self.check("throw-usage-alone", "a flag that only this rank was given", where="split")
        self.check("throw-shared-alone", "a fault that all should have seen", where="end")

    def test_on_the_rank_that_speaks_for_all(self):
        self.check("throw-shared-alone", "a fault that all should have seen", who=0)
        self.check("throw", "its third all-reduce was one too many", ranks=2, who=0)

    def test_while_the_others_split_or_end(self):
        for where in ("split", "end"):
            self.check("throw", "its third all-reduce was one too many", where=where)


class StaysAway(unittest.TestCase):
    """Without --check-collectives. The limit is short here, so that the test is."""

    def check(self, how, who_speaks, words, **flags):
        with goes_wrong(how, timeout="6", **flags) as run:
            self.assertNotEqual(run.end(), 0)
            lines = run.lines()
            self.assertTrue(lines)
            for line in lines:
                self.assertRegex(line, rf"^rank [{who_speaks}]: waited 6 s for {words} \(rank \d of 4\): another rank did not come")

    def test_one_rank_never_comes_to_a_collective(self):
        self.check("stay-away", "013", "all-reduce on world")

    def test_one_rank_never_comes_to_a_split(self):
        self.check("stay-away", "013", "barrier on world", where="split")

    def test_one_rank_never_comes_to_the_end(self):
        self.check("stay-away", "013", "all-reduce on the end of the run", where="end")

    def test_one_rank_returns_early(self):
        self.check("return", "0123", "all-reduce on (world|the end of the run)")

    def test_one_rank_exits(self):
        with goes_wrong("exit", timeout="0") as run:
            self.assertNotEqual(run.end(), 0)
            self.assertEqual(run.lines(), ["rank 2: exit() was called in the middle of the run"])


if __name__ == "__main__":
    unittest.main()
