"""What ./course sees of the ranks of a run: their processes, and which of them went first without a word.

A launcher that loses a rank ends the others within milliseconds, and what it then says names a process, not always the one
that went first. So each rank holds a FIFO open (common/support/last_words.hpp): it writes its process and host at the start,
`ended` when it ends in order or has said why it does not; the kernel closes it when the rank is gone. epoll hands these events
on in the order in which they came.
"""
import contextlib
import os
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
        self.said = [""] * count            # by rank
        self.first = None                   # the rank whose end was the first event of its kind, and whether it said so
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
            data = os.read(key.fd, 4096)
            self.said[key.data] += data.decode("utf-8", "replace")
            told = "ended" in self.said[key.data]
            if self.first is None and (told or not data):
                self.first = (key.data, told)
            if not data:
                self.selector.unregister(key.fd)
                os.close(key.fd)

    def process(self, rank):
        """(process, host), or None before the rank has started."""
        words = self.said[rank].split()
        return (int(words[0]), words[1]) if len(words) > 1 else None

    def kill(self):
        """Ends the ranks of this machine at once."""
        for pid, host in filter(None, map(self.process, range(len(self.said)))):
            if host == socket.gethostname():
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)

    def who_was_killed(self):
        """A line that names the rank that went without a word before any other ended; "" if there is none."""
        if self.first is None or self.first[1] or not self.process(self.first[0]):
            return ""
        pid, host = self.process(self.first[0])
        return f"rank {self.first[0]} (process {pid} on {host}) was killed or left without a word, perhaps for want of memory; the others were ended"
