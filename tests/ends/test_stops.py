"""A training that is ended from outside: Ctrl-C, SIGTERM, one rank killed; under the launcher alone and under ./course."""
import contextlib
import os
import signal
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from run import alive  # noqa: E402
from training import course_run, training  # noqa: E402


class Stops(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.save = self.folder / "checkpoints"

    def newest(self):
        return max(int(path.name[5:]) for path in self.save.glob("step-*"))

    def goes_on_from(self, step, **more):
        """The newest checkpoint is of that step, and a run that resumes it takes the next two."""
        self.assertEqual(self.newest(), step)
        (self.folder / "metrics.jsonl").unlink(missing_ok=True)
        with training(self.folder, resume=self.save, stop_after=step + 2, **more) as run:
            self.assertEqual(run.end(), 0, run.stderr())
            self.assertEqual(run.steps(), [step + 1, step + 2])

    def stopped(self, run, number, code, tell):
        run.wait_until_step(2)
        tell(number)
        self.assertEqual(run.end(), code, run.stderr())
        last = run.steps()[-1]
        name = signal.Signals(number).name
        self.assertIn(f"stopped by {name} after step {last} of 1000000: --resume {self.save} goes on", run.stderr())
        self.assertEqual([path.name for path in self.save.iterdir()], [f"step-{last:08}"])
        self.assertNotIn("MPI_Abort", run.stderr())
        return last

    def test_ctrl_c_and_sigterm_under_the_launcher(self):
        for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            with self.subTest(number), tempfile.TemporaryDirectory() as folder:
                self.folder, self.save = Path(folder), Path(folder) / "checkpoints"
                with training(folder, save=self.save) as run:
                    last = self.stopped(run, number, code, run.process.send_signal)
                self.goes_on_from(last)

    def test_ctrl_c_and_sigterm_under_course(self):
        for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            with self.subTest(number), tempfile.TemporaryDirectory() as folder:
                self.folder, self.save = Path(folder), Path(folder) / "checkpoints"
                # As a terminal does: to all of the foreground group.
                tell = os.killpg if number == signal.SIGINT else os.kill
                with course_run(folder, save=self.save) as run:
                    last = self.stopped(run, number, code, lambda number: tell(run.process.pid, number))
                    self.assertNotIn("killed", run.stderr())
                    self.assertNotIn("Traceback", run.stderr())
                self.goes_on_from(last)

    def test_a_closed_terminal_is_a_sigterm(self):
        with course_run(self.folder, save=self.save) as run:
            self.stopped(run, signal.SIGTERM, 129, lambda _: run.process.send_signal(signal.SIGHUP))

    def test_one_rank_alone_hears_of_it(self):
        with training(self.folder, save=self.save) as run:
            self.stopped(run, signal.SIGTERM, 143, lambda number: run.signal_rank(3, number))

    def test_sigterm_again_and_again(self):
        def tell(number):
            for _ in range(3):
                with contextlib.suppress(ProcessLookupError):
                    run.process.send_signal(number)
                    time.sleep(0.002)

        with training(self.folder, save=self.save) as run:
            self.stopped(run, signal.SIGTERM, 143, tell)

    def test_a_save_that_fails_is_no_stop_in_order(self):
        for start in (training, course_run):
            with self.subTest(start.__name__), tempfile.TemporaryDirectory() as folder, \
                    start(folder, save=Path(folder) / "checkpoints") as run:
                run.wait_until_step(1)
                (Path(folder) / "checkpoints").rename(Path(folder) / "moved")
                (Path(folder) / "checkpoints").touch()
                run.process.send_signal(signal.SIGTERM)
                self.assertEqual(run.end(), 1, run.stderr())
                self.assertIn("is not saved: ", run.stderr())

    def test_without_save_nothing_is_saved(self):
        with training(self.folder) as run:
            run.wait_until_step(1)
            run.process.send_signal(signal.SIGINT)
            self.assertEqual(run.end(), 130)
            self.assertRegex(run.stderr(), r"stopped by SIGINT after step \d+ of 1000000: nothing is saved without --save")

    def test_chapter_09_keeps_its_model(self):
        with training(self.folder, "09_llama", ranks=1, save=self.folder / "model") as run:
            run.wait_until_step(1)
            run.process.send_signal(signal.SIGINT)
            self.assertEqual(run.end(), 130, run.stderr())
            self.assertIn("what it has learnt is in", run.stderr())
        self.assertEqual({p.name for p in (self.folder / "model").iterdir()}, {"config.json", "model.safetensors", "tokenizer.json"})

    def test_a_second_ctrl_c_ends_at_once(self):
        """Rank 1 is held, so that no step ends: only the second can end the run."""
        for start in (training, course_run):
            with self.subTest(start.__name__), tempfile.TemporaryDirectory() as folder, \
                    start(folder, save=Path(folder) / "checkpoints", timeout=0) as run:
                run.wait_until_step(1)
                run.signal_rank(1, signal.SIGSTOP)
                run.process.send_signal(signal.SIGINT)
                time.sleep(2)
                self.assertIsNone(run.process.poll(), run.stderr())
                self.assertTrue(all(map(alive, run.ranks().values())))
                run.process.send_signal(signal.SIGINT)
                self.assertNotEqual(run.end(), 0)
                if start is course_run:
                    self.assertEqual(run.process.returncode, 130)
                    self.assertNotIn("Traceback", run.stderr())
                self.assertFalse(list((Path(folder) / "checkpoints").glob("step-*")))


class OneRankIsKilled(unittest.TestCase):
    setUp, newest, goes_on_from = Stops.setUp, Stops.newest, Stops.goes_on_from

    def kill(self, start, rank, **more):
        with start(self.folder, save=self.save, save_every=1, timeout=0, **more) as run:
            run.wait_until_step(3)
            run.signal_rank(rank, signal.SIGKILL)
            code = run.end()
            self.assertNotIn(code, (0, 130, 143))
            return run.ranks()[rank], run.stderr()

    def test_under_the_launcher_the_newest_checkpoint_goes_on(self):
        self.kill(training, 2)
        self.assertGreaterEqual(self.newest(), 2)
        self.goes_on_from(self.newest())

    def test_under_course_a_line_names_the_rank(self):
        for rank in (0, 3):
            with self.subTest(rank), tempfile.TemporaryDirectory() as folder:
                self.folder, self.save = Path(folder), Path(folder) / "checkpoints"
                process, said = self.kill(course_run, rank)
                lines = [line for line in said.splitlines() if line.startswith("course: ")]
                self.assertEqual(len(lines), 1, said)
                self.assertRegex(lines[0], rf"^course: rank {rank} \(process {process} on \S+\) was killed or left without a word")
                self.assertIn(f"the newest checkpoint is {self.save}/step-{self.newest():08}: --resume {self.save}", lines[0])
                self.goes_on_from(self.newest())

    def test_a_rank_held_and_then_killed(self):
        with training(self.folder, save=self.save, timeout=0) as run:
            run.wait_until_step(1)
            run.signal_rank(1, signal.SIGSTOP)
            run.signal_rank(1, signal.SIGKILL)
            self.assertNotEqual(run.end(), 0)


if __name__ == "__main__":
    unittest.main()
