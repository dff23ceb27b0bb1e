"""What ./course and its tools share: how they end, speak, and run other programs."""
import contextlib
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


class Stop(Exception):
    """Ends the script: one message, one exit code (1 something failed, 2 wrong usage)."""

    def __init__(self, message, code=1):
        super().__init__(message)
        self.code = code


def say(line):
    """What the script itself does goes to stderr; stdout is the program's."""
    print(line, file=sys.stderr, flush=True)


def short(path):
    path = Path(path)
    return str(path.relative_to(ROOT)) if ROOT in path.parents else str(path)


def environment():
    """What Open MPI asks for, where it is the MPI here: as root, and with more ranks than cores. MPICH needs nothing."""
    extra = {"OMPI_MCA_rmaps_base_oversubscribe": "1", "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe"}
    if os.geteuid() == 0:
        extra.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    return {**os.environ, **extra}


@contextlib.contextmanager
def child(command, extra=None, **options):
    """A child that never outlives us: whatever ends this block early (Ctrl-C too) ends the child first."""
    # A signal that came while the child is being made would leave it alive: it waits until we can end the child.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    process = None
    try:
        process = subprocess.Popen([str(c) for c in command], stdin=subprocess.DEVNULL, cwd=str(ROOT),
                                   env={**os.environ, **(extra or {})},
                                   preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, mask), **options)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        yield process
    except BaseException:
        for end in (process.terminate, process.kill) if process else ():
            with contextlib.suppress(subprocess.TimeoutExpired, PermissionError):      # sudo's child is not ours to end
                end()
                process.wait(timeout=5)
                break
        raise
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for stream in filter(None, (process.stdout, process.stderr) if process else ()):
            stream.close()


def call(command, extra=None):
    """Runs with our own stdout and stderr; returns the exit code as a shell would. `extra`: more of the environment."""
    with child(command, extra) as process:
        code = process.wait()
    return 128 - code if code < 0 else code


def capture(command, timeout=None, apart=False):
    """(exit code, stdout and stderr together), or, `apart`, (exit code, stdout, stderr). 127: there is no such program, 124: it
    took longer than so many seconds."""
    try:
        with child(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE if apart else subprocess.STDOUT) as process:
            said = [stream.decode("utf-8", "replace") for stream in process.communicate(timeout=timeout) if stream is not None]
        return process.returncode, *said
    except (FileNotFoundError, PermissionError) as error:
        code, why = 127, f"{command[0]}: {'not found' if isinstance(error, FileNotFoundError) else error.strerror}"
    except subprocess.TimeoutExpired:
        code, why = 124, f"{command[0]}: no answer within {timeout} seconds"
    return (code, "", why) if apart else (code, why)


def telling(output):
    """Of what a program said, the lines that a person wants: those that say what is wrong, else the last."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    wrong = [line for line in lines if re.search(r"FAILED|rank \d+:|error|differ|should be|Timeout|[Nn]o GPU|driver|skipped", line)]
    return " / ".join((wrong or lines[-3:])[:4])[:400]


def version(tool, behind=""):
    """The first version number that a program prints, behind these words; as a tuple, () if it prints none."""
    found = re.search(rf"(?<={behind})\d+(\.\d+)+", capture([tool, "--version"])[1])
    return tuple(int(n) for n in found.group().split(".")) if found else ()


def dotted(numbers):
    return ".".join(map(str, numbers))
