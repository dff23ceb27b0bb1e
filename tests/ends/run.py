"""Starts a program on some ranks, does something to it, and looks at how it ended."""
import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "wrong_use"))
from launch import BUILD, ENVIRONMENT, LAUNCHER, MPIRUN, STACK, alive, processes_with  # noqa: E402,F401

LIMIT = 60                       # seconds: what takes longer hangs; it takes two, and some more on a loaded machine
GOES_WRONG = BUILD / "tests" / "goes_wrong"


class Run:
    """A command under way: `with Run([MPIRUN, ...]) as run:`. Nothing of it is left afterwards."""

    def __init__(self, command, env=None):
        self.folder = tempfile.TemporaryDirectory()
        self.mark = f"COURSE_TEST_RUN={self.folder.name}"             # in the environment of all that it starts
        self.seen = {}
        self.out, self.err = (open(Path(self.folder.name) / name, "wb") for name in ("out", "err"))
        self.process = subprocess.Popen([str(w) for w in command], stdin=subprocess.DEVNULL, stdout=self.out, stderr=self.err,
                                        cwd=ROOT, start_new_session=True,
                                        env={**os.environ, **ENVIRONMENT, "COURSE_TEST_RUN": self.folder.name, **(env or {})})

    def __enter__(self):
        return self

    def __exit__(self, *error):
        while left := self.processes():
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)
        self.process.wait()
        self.out.close()
        self.err.close()
        self.folder.cleanup()

    def ranks(self):
        """{rank: process} of all that were seen so far; a shell around one is none."""
        for pid, environment in self.processes().items():
            rank = name_of(pid) != "sh" and re.search(rb"\0(?:PMI_RANK|OMPI_COMM_WORLD_RANK)=(\d+)\0", environment)
            if rank:
                self.seen[int(rank[1])] = pid
        return self.seen

    def processes(self):
        """{process: environment} of all that this run has started and that live."""
        return processes_with(self.mark)

    def stdout(self):
        return Path(self.out.name).read_text(errors="replace")

    def stderr(self):
        return Path(self.err.name).read_text(errors="replace")

    def lines(self):
        """Of stderr, what the launcher says aside."""
        return [line for line in self.stderr().splitlines() if not LAUNCHER.search(line) and not line.startswith("note: ")]

    def wait_until(self, true, what):
        end = time.monotonic() + LIMIT
        while not true():
            if time.monotonic() > end or self.process.poll() is not None:
                raise AssertionError(f"never came: {what}; it said:\n{self.stdout()}\n{self.stderr()}")
            time.sleep(0.05)

    def end(self):
        """The exit code, after the run and all that it started have ended. Raises AssertionError if they do not."""
        try:
            code = self.process.wait(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {LIMIT} s; it said:\n{self.stdout()}\n{self.stderr()}") from None
        end = time.monotonic() + 10                   # the launcher may be a moment ahead of its ranks
        while left := self.processes():
            if time.monotonic() > end:
                raise AssertionError(f"left running: {[Path(f'/proc/{pid}/cmdline').read_bytes() for pid in left]}; it said:\n{self.stderr()}")
            time.sleep(0.05)
        return code


def name_of(pid):
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def goes_wrong(how, ranks=4, **flags):
    return Run([MPIRUN, "-n", ranks, GOES_WRONG, "--how", how, *(w for k, v in flags.items() for w in (f"--{k}", v))])
