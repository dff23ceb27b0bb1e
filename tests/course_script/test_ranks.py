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

# A rank as the programs are: it opens its FIFO, writes `process host`, and waits for a line that says what to do.
RANK = """import os, signal, sys
fd = os.open(os.environ["COURSE_RANKS_FOLDER"] + "/" + sys.argv[1], os.O_RDWR | os.O_NONBLOCK)
os.write(fd, f"{os.getpid()} {sys.argv[2]}\\n".encode())
for word in sys.stdin:
    if word == "told\\n": os.write(fd, b"ended\\n")
    if word == "gone\\n": os.kill(os.getpid(), signal.SIGKILL)
"""


class WhoWasKilled(unittest.TestCase):
    def setUp(self):
        self.watch = self.enterContext(Ranks(3)) if hasattr(self, "enterContext") else self.entered(Ranks(3))
        self.ranks = []
        for rank in range(3):
            self.ranks.append(subprocess.Popen([sys.executable, "-c", RANK, str(rank), socket.gethostname()], stdin=subprocess.PIPE,
                                               env={**os.environ, **self.watch.environment()}))
            self.addCleanup(self.end, self.ranks[-1])
        while not all(map(self.watch.process, range(3))):
            for key, _ in self.watch.selector.select(10):
                self.watch.hear(key)
        self.watch.selector.select(0)                         # as the loop does: looks once more, and finds nothing

    def entered(self, context):
        self.addCleanup(context.__exit__, None, None, None)
        return context.__enter__()

    def end(self, process):
        process.kill()
        process.wait()
        process.stdin.close()

    def tell(self, rank, word):
        self.ranks[rank].stdin.write(word.encode() + b"\n")
        self.ranks[rank].stdin.flush()
        if word == "gone":
            self.ranks[rank].wait()
        time.sleep(0.2 if word == "told" else 0)

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

    def test_who_tells_why_is_not_killed_and_neither_are_those_it_takes_along(self):
        self.tell(1, "told")
        for rank in (0, 2, 1):
            self.tell(rank, "gone")
        self.assertEqual(self.until_the_end(), "")

    def test_who_tells_why_because_another_went_before(self):
        self.tell(0, "gone")
        self.tell(1, "told")
        for rank in (1, 2):
            self.tell(rank, "gone")
        self.assertIn("rank 0 ", self.until_the_end())

    def test_all_end_in_order(self):
        for rank in range(3):
            self.tell(rank, "told")
            self.tell(rank, "gone")
        self.assertEqual(self.until_the_end(code=0), "")

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
