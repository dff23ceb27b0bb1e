"""Runs a built program on some ranks, and judges how it was refused."""
import concurrent.futures
import contextlib
import os
import re
import shlex
import subprocess
import tempfile
import typing
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / (os.environ.get("COURSE_BUILD") or "build")
MPIRUN = os.environ.get("COURSE_MPIRUN") or "mpirun"
# Open MPI refuses root, and more ranks than cores, unless told.
ENVIRONMENT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1"}
LIMIT = 60                       # seconds: far beyond what a refusal takes, even on a loaded machine

# Notes each rank's own exit code: the launcher's is a mix of them.
NOTE = '"$@"; code=$?; echo $code > "$CODES/${PMI_RANK:-${OMPI_COMM_WORLD_RANK:-${PMIX_RANK:-0}}}"; exit $code'

# What MPICH and Open MPI say of their own when a rank ends all.
LAUNCHER = re.compile(r"application called MPI_Abort|^In: PMI_Abort|MPI_ABORT was invoked|^=|^YOUR APPLICATION|^Please see the FAQ"
                      r"|^This typically refers|^\[(mpiexec|proxy)|^(mpirun|prterun)|^-+$|^\s*$|^with errorcode|^NOTE: invoking|^You may or may not"
                      r"|^exactly when Open MPI|^the application process")
STACK = re.compile(r"terminate called|what\(\):|backtrace|Assertion|Segmentation|Traceback|\bstd::|\[0x[0-9a-f]+\]|\.so\.")


class Row(typing.NamedTuple):
    """One wrong use. {f} in flags and words is the folder of files all rows share, {d} one that is the row's own."""
    program: str
    flags: str
    words: tuple                 # each must be said on stderr
    code: int = 2                # 2 wrong usage, 1 the run failed
    ranks: int = 2
    prepare: typing.Callable = None   # called with {f} and {d}: puts things into {d}
    base: dict = {}              # flags that a right run of this program has; the row's replace them
    leaves: tuple = ()           # what it may leave in {d}

    def name(self):
        return f"{self.program[:2]} on {self.ranks}: {self.flags}"


class Result(typing.NamedTuple):
    code: int                    # the launcher's
    codes: dict                  # {rank: its own}, of the ranks that came to an end by themselves
    lines: list                  # of stderr, the launcher's own aside
    hung: bool


def command_line(base, flags, places):
    """The base's flags, less those that the row's flags name, then the row's."""
    words = shlex.split(flags.format(**places))
    given = {w.split("=")[0] for w in words if w.startswith("--")}
    kept = [w.format(**places) for flag, value in base.items() if flag not in given for w in [flag, *value.split()]]
    return kept + words


def launch(program, ranks, arguments, env=None):
    with tempfile.TemporaryDirectory() as codes:
        command = [MPIRUN, "-n", str(ranks), "sh", "-c", NOTE, "note", str(BUILD / "bin" / program), *arguments]
        environment = {**os.environ, **ENVIRONMENT, "NO_COLOR": "1", "CODES": codes, **(env or {})}
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
                                   cwd=ROOT, env=environment, start_new_session=True)
        hung = False
        try:
            said = process.communicate(timeout=LIMIT)[1]
        except subprocess.TimeoutExpired:
            hung = True
            process.terminate()              # the launcher ends its ranks
            said = process.communicate()[1]
        lines = [line for line in said.decode("utf-8", "replace").splitlines() if not LAUNCHER.search(line) and not line.startswith("note: ")]
        return Result(process.returncode, {int(p.name): int(p.read_text() or -1) for p in Path(codes).iterdir()}, lines, hung)


def processes_with(mark):
    """{process: environment} of all that live and have this word in their environment."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            environment = b"\0" + (folder / "environ").read_bytes()
            if mark.encode() in environment:
                found[int(folder.name)] = environment
    return found


def alive(pid):
    """Whether a process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except (OSError, IndexError):
        return False


def contents(folder):
    """{path: bytes} of all files below, and {path: None} of the folders."""
    return {str(p.relative_to(folder)): p.read_bytes() if p.is_file() else None for p in Path(folder).rglob("*")}


def complaints(row, result, places, before, after):
    """What is wrong about how this row was refused; [] if nothing is."""
    said, wrong = "\n".join(result.lines), []
    if result.hung:
        return [f"still running after {LIMIT} s; it said:\n{said}"]
    if result.code == 0:
        wrong.append("exit code 0")
    for rank, code in result.codes.items():
        if code != row.code:
            wrong.append(f"rank {rank} ended with {code}, not {row.code}")
    if row.code == 2 and len(result.codes) != row.ranks:
        wrong.append(f"only ranks {sorted(result.codes)} of {row.ranks} ended by themselves")
    if not 1 <= len(result.lines) <= row.ranks:
        wrong.append(f"{len(result.lines)} lines for {row.ranks} ranks")
    if STACK.search(said):
        wrong.append("C++ text")
    for word in row.words:
        if word.format(**places) not in said:
            wrong.append(f"not said: {word.format(**places)}")
    for path, bytes_before in before.items():
        if path not in after or after[path] != bytes_before:
            wrong.append(f"lost or changed on disk: {path}")
    for path in set(after) - set(before):
        if not any(path.startswith(name) for name in row.leaves):
            wrong.append(f"left behind: {path}")
    return wrong + [f"it said:\n{said}"] if wrong else []


def judge(row, shared):
    with tempfile.TemporaryDirectory() as own:
        places = {"f": str(shared), "d": own}
        if row.prepare:
            row.prepare(Path(shared), Path(own))
        before = contents(own)
        result = launch(row.program, row.ranks, command_line(row.base, row.flags, places))
        return complaints(row, result, places, before, contents(own))


def judge_all(rows, shared):
    """[(row, complaints)] in the order of the rows; two at a time."""
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return list(zip(rows, pool.map(lambda row: judge(row, shared), rows)))
