"""Tests of tools/course_ranks.py with processes that only sign in: no MPI."""
import contextlib
import io
import os
import signal
import socket
import subprocess
import sys
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
from course_ranks import Ranks  # noqa: E402

# A rank as the programs are: it holds its FIFO, signs in, and waits for a line that says what to do.
RANK = """import os, signal, sys
folder, rank, host = os.environ["COURSE_RANKS_FOLDER"], *sys.argv[1:]
held = os.open(folder + "/" + rank, os.O_RDWR | os.O_NONBLOCK)
said = os.open(folder + "/said", os.O_WRONLY | os.O_APPEND)
os.write(said, f"{rank} {os.getpid()} {host}\\n".encode())
for word in sys.stdin:
    if word == "gone\\n": os.kill(os.getpid(), signal.SIGKILL)
    os.write(said, f"{rank} {word}".encode())
"""


class WhoWasKilled(unittest.TestCase):
    def setUp(self):
        self.watch = Ranks(3)
        self.addCleanup(self.watch.__exit__)
        self.ranks = []
        for rank in range(3):
            self.ranks.append(subprocess.Popen([sys.executable, "-c", RANK, str(rank), socket.gethostname()], stdin=subprocess.PIPE,
                                               env={**os.environ, **self.watch.environment()}))
            self.addCleanup(self.end, self.ranks[-1])
        self.wait_for(lambda: len(self.watch.processes()) == 3)
        self.watch.selector.select(0)                         # as the loop does: what woke it by being opened is forgotten

    def wait_for(self, true):
        end = time.monotonic() + 30
        while not true():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.02)

    def end(self, process):
        process.kill()
        process.wait()
        process.stdin.close()

    def tell(self, rank, word):
        self.ranks[rank].stdin.write(word.encode() + b"\n")
        self.ranks[rank].stdin.flush()
        if word == "gone":
            self.ranks[rank].wait()
        else:
            self.wait_for(lambda: (rank, word) in self.watch.words())

    def until_the_end(self, code=1):
        """The launcher: by now all ranks are gone, and nobody has looked yet."""
        launcher = subprocess.Popen(["sh", "-c", f"exit {code}"], stdout=subprocess.PIPE)
        with launcher.stdout:
            self.assertEqual(self.watch.until_the_end(launcher), code)
        return self.watch.who_was_killed()

    def test_the_first_to_go_is_named(self):
        for rank in (2, 0, 1):
            self.tell(rank, "gone")
        self.assertIn(f"rank 2 (process {self.ranks[2].pid} on {socket.gethostname()}) was killed", self.until_the_end())

    def test_whoever_ends_all_takes_along_those_that_go_before_it(self):
        self.tell(1, "ends all")
        for rank in (0, 2, 1):
            self.tell(rank, "gone")
        self.assertEqual(self.until_the_end(), "")

    def test_who_tells_its_signal_was_not_killed(self):
        self.tell(1, "ended")
        for rank in (1, 2, 0):
            self.tell(rank, "gone")
        self.assertEqual(self.until_the_end(), "")

    def test_one_that_dies_of_a_signal_because_another_is_going(self):
        """A killed process gives back its memory before its files: who reads that memory may be the first to speak."""
        self.tell(1, "ended")
        self.tell(0, "gone")
        for rank in (1, 2):
            self.tell(rank, "gone")
        self.assertIn("rank 0 ", self.until_the_end())

    def test_all_end_in_order(self):
        for rank in range(3):
            self.tell(rank, "ended")
            self.tell(rank, "gone")
        self.assertEqual(self.until_the_end(code=0), "")

    def test_others_that_ended_in_order_explain_nothing(self):
        for rank in (0, 1):
            self.tell(rank, "ended")
        for rank in (2, 0, 1):
            self.tell(rank, "gone")
        self.assertIn("rank 2 ", self.until_the_end())

    def test_kill_ends_all(self):
        self.watch.kill()
        self.assertEqual([rank.wait(10) for rank in self.ranks], [-signal.SIGKILL] * 3)


class Output(unittest.TestCase):
    def test_stdout_is_handed_on_as_it_comes(self):
        out = io.TextIOWrapper(io.BytesIO())
        with Ranks(1) as watch, contextlib.redirect_stdout(out):
            launcher = subprocess.Popen(["printf", "a\\377b\\nlast"], stdout=subprocess.PIPE)
            with launcher.stdout:
                self.assertEqual(watch.until_the_end(launcher), 0)
            self.assertEqual(watch.who_was_killed(), "")      # a rank that never signed in
        self.assertEqual(out.buffer.getvalue(), b"a\xffb\nlast")

    def test_who_holds_the_pipe_open_is_not_waited_for(self):
        out = io.TextIOWrapper(io.BytesIO())
        with Ranks(1) as watch, contextlib.redirect_stdout(out):
            launcher = subprocess.Popen(["sh", "-c", "sleep 60 & echo $!"], stdout=subprocess.PIPE)
            with launcher.stdout:
                begin = time.monotonic()
                self.assertEqual(watch.until_the_end(launcher), 0)
                self.assertLess(time.monotonic() - begin, 50)
        os.kill(int(out.buffer.getvalue()), signal.SIGKILL)


if __name__ == "__main__":
    unittest.main()
