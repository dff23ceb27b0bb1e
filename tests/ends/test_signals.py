"""A fatal signal on one rank: it says which rank, which signal, in which step and after which collective, the process ends by
that signal, and the launcher ends the others."""
import signal
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from run import goes_wrong  # noqa: E402
from training import training  # noqa: E402


class FatalSignals(unittest.TestCase):
    def check(self, how, words, **flags):
        with goes_wrong(how, timeout="0", **flags) as run:
            self.assertNotEqual(run.end(), 0)
            lines = run.lines()
            self.assertIn(f"rank 2: ended by {words}", lines[0])
            self.assertRegex(lines[0], r"; its last collective: all-reduce \(goes_wrong\.cpp:\d+\)$")
            self.assertEqual(len(lines), 1, lines)

    def test_memory_that_is_not_ours(self):
        self.check("segv", "SIGSEGV")

    def test_a_stack_that_ran_over(self):
        self.check("stack", "SIGSEGV")

    def test_a_mapped_file_that_shrank(self):
        self.check("bus", "SIGBUS")

    def test_a_division_by_zero(self):
        self.check("fpe", "SIGFPE")

    def test_an_unknown_instruction(self):
        self.check("ill", "SIGILL")

    def test_abort(self):
        self.check("abort", "SIGABRT")

    def test_a_process_of_its_own_shows_the_signal(self):
        with goes_wrong("segv", ranks=1, who=0) as run:
            run.end()
            self.assertIn("signal 11", run.stdout())         # the launcher's words: the default action was taken

    def test_a_wish_to_stop_that_nobody_asked_about_is_not_lost(self):
        with goes_wrong("signal-that-nobody-asks-about", timeout="0") as run:
            self.assertNotEqual(run.end(), 0)
            self.assertEqual(run.lines(), [])

    def test_a_second_ctrl_c_is_obeyed_at_once(self):
        with goes_wrong("second-ctrl-c", timeout="0") as run:
            self.assertNotEqual(run.end(), 0)
            self.assertEqual(run.lines(), [])

    def test_in_a_training_the_step_is_named(self):
        with tempfile.TemporaryDirectory() as folder, training(folder) as run:
            run.wait_until_step(2)
            run.signal_rank(1, signal.SIGSEGV)
            self.assertNotEqual(run.end(), 0)
            self.assertRegex(run.stderr(), r"(?m)^rank 1: ended by SIGSEGV, .*; in step \d+; its last collective: [\w-]+ \(\w+\.[ch]pp:\d+\)$")


if __name__ == "__main__":
    unittest.main()
