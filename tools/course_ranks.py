"""What ./course sees of the ranks of a run: their processes, and which of them went first without a word.

A launcher that loses a rank ends the others within milliseconds, and what it then says names a process, not always the one
that went first. So each rank holds a FIFO open (common/last_words.hpp), in which nothing is written: the kernel closes
it when the rank is gone, and epoll hands these events on in the order in which they came, however late we look. What ranks
say of themselves stands in a file beside them.
"""
import contextlib
import os
import re
import selectors
import signal
import socket
import sys
import tempfile
from pathlib import Path


class Ranks:
    def __init__(self, count):
        self.folder = tempfile.TemporaryDirectory(prefix="course-")
        self.selector = selectors.DefaultSelector()
        self.said = Path(self.folder.name) / "said"
        self.said.touch()
        self.first = None                   # the rank that went first
        for rank in range(count):
            path = Path(self.folder.name) / str(rank)
            os.mkfifo(path)
            self.selector.register(os.open(path, os.O_RDONLY | os.O_NONBLOCK), selectors.EVENT_READ, rank)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        for key in list(self.selector.get_map().values()):
            if key.data is not None:
                os.close(key.fd)
        self.selector.close()
        self.folder.cleanup()

    def environment(self):
        return {"COURSE_RANKS_FOLDER": self.folder.name}

    def until_the_end(self, process):
        """Hands the stdout of the launcher on as it comes. Returns the launcher's exit code."""
        out = process.stdout.fileno()
        self.selector.register(out, selectors.EVENT_READ)
        sys.stdout.flush()
        while True:
            ready = self.selector.select(0.2)
            for key, _ in ready:
                self.hear(key) if key.data is not None else self.hand_on(out)
            # A process that the run left behind may hold the pipe open.
            if out not in self.selector.get_map() or (not ready and process.poll() is not None):
                break
        code = process.wait()
        while ready := [key for key, _ in self.selector.select(0) if key.data is not None]:
            for key in ready:
                self.hear(key)
        return code

    def hand_on(self, out):
        data = os.read(out, 65536)
        if not data:
            self.selector.unregister(out)
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()

    def hear(self, key):
        with contextlib.suppress(BlockingIOError):
            if not os.read(key.fd, 1):
                self.first = key.data if self.first is None else self.first
                self.selector.unregister(key.fd)
                os.close(key.fd)

    def words(self):
        """[(rank, what it said)]: `process host` first, `ended` or `ends all` before an end that needs no explanation."""
        lines = (line.partition(" ") for line in self.said.read_text(errors="replace").splitlines())
        return [(int(rank), words) for rank, _, words in lines if rank.isdigit()]

    def processes(self):
        """{rank: (process, host)}"""
        return {rank: (int(words.split()[0]), words.split()[1]) for rank, words in reversed(self.words()) if re.match(r"\d+ \S", words)}

    def kill(self):
        """Ends the ranks of this machine at once."""
        for pid, host in self.processes().values():
            if host == socket.gethostname():
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)

    def who_was_killed(self):
        """A line that names the rank that went first, if it went without a word; "" if there is none."""
        words = self.words()
        if self.first not in self.processes() or (self.first, "ended") in words or "ends all" in dict(words).values():
            return ""
        pid, host = self.processes()[self.first]
        return f"rank {self.first} (process {pid} on {host}) was killed or left without a word, perhaps for want of memory; the others were ended"
