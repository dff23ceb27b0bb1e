"""Runs a command that nobody vouches for.

With bubblewrap (bwrap; `./course setup` installs it): its own file system, with the system's programs to read, a small /tmp, and what
the caller names; no network; its own process table, so all that it has started ends with it, daemons too. Where root runs it, the command
is given to the user nobody, unless the caller wants files that root has (a compiler's, a linker's).
What lies below SYSTEM every command can read: see of_system().
Without it (no bwrap, or a system that allows no user namespaces): the limits below, and an end to every process it leaves; but it
may read what this user may read, and reach the network. `reason()` says which.

Limits in both cases: seconds, memory of all its processes together, number of processes, size of a file, and what is kept of
stderr. stdout is thrown away.
"""
import contextlib
import ctypes
import dataclasses
import functools
import os
import shutil
import signal
import subprocess
import threading
import time
from pathlib import Path

NOBODY = 65534
PR_SET_CHILD_SUBREAPER = 36
KEPT = 64 * 2**10               # bytes of stderr
SYSTEM = ["/usr", "/bin", "/lib", "/lib64", "/opt", "/sys", "/etc/alternatives", "/etc/ld.so.cache", "/etc/passwd", "/etc/hosts",
          "/etc/nsswitch.conf"]


@dataclasses.dataclass
class Limits:
    seconds: float = 60
    memory: int = 2 * 2**30     # bytes, all processes together
    processes: int = 128        # threads count
    file: int = 64 * 2**20      # bytes of one


@dataclasses.dataclass
class End:
    code: int                   # as a shell has it
    words: str                  # of stderr the beginning and the end
    over: str = ""              # "time" or "memory": the limit that ended it


@functools.lru_cache(maxsize=None)
def reason():
    """'' where bwrap does its work, else why not."""
    if not shutil.which("bwrap"):
        return "bwrap is not installed (Debian's package bubblewrap)"
    done = subprocess.run([*bwrap([], []), "true"], stdin=subprocess.DEVNULL, capture_output=True, text=True, **nobody())
    said = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
    return said if done.returncode else ""


def of_system(path, also=()):
    """The folder of SYSTEM, or of `also`, that this path lies in, else None."""
    real = Path(os.path.realpath(path))
    return next((p for p in [*SYSTEM, *also] if Path(os.path.realpath(p)) in (real, *real.parents)), None)


def nobody():
    """Options of Popen: root gives up being root."""
    return {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}


def bwrap(readable, writable):
    command = ["bwrap", "--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    for path in SYSTEM:
        command += ["--ro-bind-try", path, path]
    command += ["--proc", "/proc", "--dev", "/dev"]
    for path in ("/dev/shm", "/tmp"):
        command += ["--size", str(256 * 2**20), "--tmpfs", path]
    for host, inside in readable:
        command += ["--ro-bind", str(host), str(inside)]
    for path in writable:
        command += ["--bind", str(path), str(path)]
    return command + ["--chdir", "/tmp", "--remount-ro", "/dev", "--remount-ro", "/"]


def run(command, readable=(), writable=(), limits=Limits(), environment=None, as_nobody=True):
    """readable: (path here, path inside) of files and folders; writable: paths. Without bwrap every path is the one here."""
    shut = not reason()
    if not shut:
        become_subreaper()
    nproc = limits.processes + (0 if shut else tasks_of_user(NOBODY if as_nobody and os.geteuid() == 0 else os.getuid()))
    limited = ["prlimit", f"--nproc={nproc}", f"--as={4 * max(limits.memory, 2**30)}", f"--fsize={limits.file}", f"--cpu={int(4 * limits.seconds)}", "--core=0",
               *map(str, command)]
    plain = {"PATH": os.environ.get("PATH", os.defpath), "HOME": "/tmp", "LANG": "C.UTF-8", "NO_COLOR": "1", **(environment or {})}
    process = subprocess.Popen((bwrap(readable, writable) if shut else []) + limited, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, env=plain, cwd="/tmp", start_new_session=True, **(nobody() if as_nobody else {}))
    kept = bytearray()
    reader = threading.Thread(target=keep_ends, args=(process.stderr, kept), daemon=True)
    reader.start()
    try:
        over = wait(process, limits)
    finally:
        end(process, shut)
    reader.join(5)
    process.stderr.close()
    code = process.returncode
    return End(128 - code if code < 0 else code, bytes(kept).decode("utf-8", "replace"), over)


def keep_ends(stream, kept):
    """The last words say how it ended, whatever it wrote before."""
    while chunk := stream.read1(2**16):
        kept += chunk
        if len(kept) > KEPT:
            del kept[KEPT // 2:-(KEPT // 2)]


def wait(process, limits):
    """'' once it has ended by itself, else the limit that it met."""
    last = time.monotonic() + limits.seconds
    pause = 0.005
    while process.poll() is None:
        if time.monotonic() > last:
            return "time"
        if takes_more(below(process.pid), limits.memory):
            return "memory"
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(pause)
        pause = min(0.1, 2 * pause)
    return ""


def end(process, shut):
    """The first process of bwrap's process table dies with bwrap, and the rest with it. Without, one after the other."""
    if process.poll() is None:
        process.kill()
        process.wait()
    last = time.monotonic() + 5
    while not shut and time.monotonic() < last:
        left = [pid for pid in below(os.getpid()) if state(pid) != "Z"]
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in left:
                with contextlib.suppress(OSError):
                    os.kill(pid, number)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if not left:
            return


# ---- /proc -----------------------------------------------------------------------------------------------------------

def stat(pid):
    """The fields after the name: state, parent, ...; [] where it has ended."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    return []


def state(pid):
    return (stat(pid) or ["Z"])[0]


def below(pid):
    """The processes that it has started, and those that they have."""
    children = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (fields := stat(name)):
            children.setdefault(int(fields[1]), []).append(int(name))
    found = list(children.get(pid, []))
    for one in found:
        found += children.get(one, [])
    return found


def resident(pid):
    with contextlib.suppress(OSError, IndexError, ValueError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


def takes_more(pids, memory):
    """What processes share is counted once: forks do, and ranks on one node. That takes longer to ask."""
    return sum(map(resident, pids)) > memory and sum(map(proportional, pids)) > memory


def proportional(pid):
    with contextlib.suppress(OSError, StopIteration, ValueError):
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        return 1024 * int(next(line for line in lines if line.startswith("Pss:")).split()[1])
    return resident(pid)


def tasks_of_user(uid):
    count = 0
    for name in os.listdir("/proc"):
        with contextlib.suppress(OSError):
            if name.isdigit() and os.stat(f"/proc/{name}").st_uid == uid:
                count += len(os.listdir(f"/proc/{name}/task"))
    return count


def become_subreaper():
    """A process whose parent has ended becomes ours, so that it is found."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
