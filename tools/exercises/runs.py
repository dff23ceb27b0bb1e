"""Builds one version of an exercise, runs its check on several rank counts, and says how it ended."""
import contextlib
import dataclasses
import json
import math
import os
import re
import shutil
import subprocess
import tempfile
import textwrap
import threading
from pathlib import Path

import compiler
import sandbox

RANKS = 1, 2, 3, 4
SEED = 1                        # of the visible checks
LAUNCHER = re.compile(r"=|YOUR APPL|Please see|This typ|Abort\(|note: \d+ ranks share")     # lines that say nothing of the program
WAITS = re.compile(r"rank \d+: last .*, pending ")      # what the watch on collectives says of each rank in a hang
IGNORED = {".git", ".notebook", ".peer", "bundle", "data", "runs", "work"}        # and build*: no files of the course
MADE = {"__pycache__", ".ipynb_checkpoints"}    # by Python and notebooks, anywhere
SHOWN = 12                      # lines of stderr
SECONDS = 8                     # that ranks may wait for each other before it counts as a hang
# Memory comes from the system with the same bytes in every run, none of them 0: what was never written reads alike each time.
FILLED = {"GLIBC_TUNABLES": "glibc.malloc.perturb=1:glibc.malloc.tcache_count=0"}
LIMIT = 60                      # of one run in all: a loop without end, with no collective in it


@dataclasses.dataclass
class Outcome:
    """One run. `how`: passed, fault (a comparison failed), hang, died (an error or signal), endless."""
    ranks: int
    how: str
    checks: int = 0
    fault: dict = None
    values: list = dataclasses.field(default_factory=list)
    words: str = ""             # of stderr, where it hung or died

    @property
    def unwritten(self):
        """Whether it came to a part that is still as ./course start made it."""
        return self.how == "fault" and self.fault["what"].endswith("not written yet")


@dataclasses.dataclass
class Verdict:
    outcomes: list              # up to the first that did not pass
    compiler: str = ""          # its words in short, where it did not build
    theirs: bool = True         # whether that is the learner's file's fault
    full: str = ""              # all of them
    mistake: object = None      # source.Wrong, where the answers are those of one

    @property
    def passed(self):
        return not self.compiler and all(o.how == "passed" for o in self.outcomes)

    def said(self, exercise):
        if self.compiler:
            what = f"{exercise.name} does not compile" if self.theirs else "the build failed, and does not name your file"
            return f"{what} (--full: all that the compiler says)\n\n{self.compiler}"
        last = self.outcomes[-1]
        ranks = ", ".join(str(o.ranks) for o in self.outcomes)
        if self.passed:
            return f"{exercise.name} passed: {sum(o.checks for o in self.outcomes)} checks on {ranks} ranks"
        lines = [f"{exercise.name} failed on {last.ranks} rank{'s' * (last.ranks > 1)}: {described(last)}"]
        if self.mistake:
            lines += ["", f"This is a known mistake, '{self.mistake.name.replace('_', ' ')}'.", textwrap.fill(self.mistake.says, 100)]
        return "\n".join(lines)


def described(outcome):
    fault = outcome.fault
    if outcome.how == "fault":
        at = f" at {fault['at']}" if "at" in fault else ""
        rank = f"\n  rank {fault['rank']}{at}: yours {fault['got']}, right {fault['expected']}" if "rank" in fault else ""
        return f"{fault['what']}\n  {fault['with']}{rank}"
    names = {"hang": "the ranks wait for each other", "died": "it ended with an error", "endless": "it does not end"}
    lines = outcome.words.splitlines()
    if outcome.how == "hang":                           # before the learner's own words
        lines.sort(key=lambda line: not WAITS.match(line))
    if len(lines) > SHOWN:
        lines[SHOWN // 2:-(SHOWN // 2)] = ["..."]
    return names[outcome.how] + "".join(f"\n  {line}" for line in lines)


# ---- build -----------------------------------------------------------------------------------------------------------

def target(exercise, version):
    return f"exercise_{exercise.name}.{version}"


def build(course, targets):
    """'' or the compiler's words."""
    if not course.cache():
        course.configure()
    code, output = course.capture(["cmake", "--build", course.build_folder(), "-j", str(course.jobs()), "--target", *targets])
    return output if code else ""


# ---- run -------------------------------------------------------------------------------------------------------------

def run(course, exercise, version, ranks, seed=SEED):
    program = course.build_folder() / "tests" / "exercises" / exercise.name / version
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        if version == "work":
            return run_learners(course, program, ranks, seed, report)
        try:
            with course.child(command(course, program, ranks, seed, report), {"NO_COLOR": "1", **FILLED}, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE) as process:
                words = process.communicate(timeout=LIMIT)[1].decode("utf-8", "replace")
        except subprocess.TimeoutExpired:
            return Outcome(ranks, "endless", words=f"stopped after {LIMIT} s")
        said = json.loads(report.read_text()) if report.exists() else None
    return outcome(ranks, process.returncode, said, words)


def run_learners(course, program, ranks, seed, report):
    """Shut in, where this system can: it may read the course, and write nothing in it. Else a change there is found."""
    report.touch()
    before = sandbox.reason() and written(course.ROOT)
    readable = [*mpi(course), (course.ROOT, course.ROOT), (course.build_folder(),) * 2]
    ended = sandbox.run(command(course, program, ranks, seed, report), readable, [report],
                        sandbox.Limits(seconds=LIMIT), environment(course), as_nobody=False)
    changed = before and sorted(path for path, _ in before ^ written(course.ROOT))
    if changed:
        return Outcome(ranks, "died", words="it wrote into the course, which git can put back: " +
                       ", ".join(course.short(path) for path in dict.fromkeys(changed)))
    if ended.over:
        return Outcome(ranks, "endless" if ended.over == "time" else "died", words=f"stopped at its limit of {ended.over}")
    return outcome(ranks, ended.code, report_in(report), ended.words)


def written(root):
    """When each file of the course was written last. Not those that git ignores: the learner may save one in work/ meanwhile."""
    tops = [top for top in root.iterdir() if top.name not in IGNORED and not top.name.startswith("build")]
    return {(path, path.stat().st_mtime_ns) for top in tops for path in [top, *top.rglob("*")]
            if path.is_file() and MADE.isdisjoint(path.parts)}


def report_in(path):
    """What the report says, or None where it is none. It may be anything: the program under test could write it."""
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
            said = json.loads(file.read())
        fault = said["fault"]
        right = isinstance(said["passed"], bool) and isinstance(said["checks"], int) and isinstance(said["values"], list) \
            and said["passed"] == (fault is None) \
            and (fault is None or isinstance(fault["what"], str) and isinstance(fault["with"], str)
                 and ("rank" not in fault or {"got", "expected"} <= fault.keys()))
        return said if right else None
    except (OSError, ValueError, RecursionError, KeyError, TypeError, AttributeError):
        return None


def command(course, program, ranks, seed, report):
    return [course.launcher(), "-n", str(ranks), program, "--report", report, "--seed", str(seed), "--check-collectives", "--timeout",
            str(SECONDS), "--threads", "1"]


def mpi(course):
    """[(folder, folder)] of the MPI that runs the ranks, where it lies outside of what a sandbox opens anyway. They come before the
    other folders of a sandbox, since they may hold the course."""
    found = os.path.abspath(shutil.which(course.launcher()) or "/usr/bin/mpirun")
    folders = dict.fromkeys([Path(found).parent, Path(os.path.realpath(found)).parent.parent])  # of the link, and of what it is
    return [(f, f) for f in folders if f != f.parent and not sandbox.of_system(f, [course.ROOT])]


def environment(course):
    """Of a run in the sandbox."""
    return {**{k: v for k, v in course.environment().items() if k not in os.environ}, **FILLED}


def outcome(ranks, code, said, words):
    """`said`: the report, or None."""
    if said and said["checks"] > 0 and (code == 0) == said["passed"]:
        return Outcome(ranks, "passed" if said["passed"] else "fault", said["checks"], said["fault"], said["values"])
    words = "\n".join(line for line in words.splitlines() if line and not LAUNCHER.match(line))
    words = words or f"exit code {code} before the check was through: is there an exit() or abort() in it?"
    hang = re.search(r"did not come|it does not end|will not come|ranks disagree", words)
    return Outcome(ranks, "hang" if hang else "died", words=words)


def same(a, b):
    """Whether two runs ended alike: the same comparison failed, with the same values up to rounding."""
    if (a.how, a.ranks) != (b.how, b.ranks):
        return False
    if a.how in ("hang", "died"):
        return summary(a) == summary(b)
    return len(a.values) == len(b.values) and all(alike(x, y) for x, y in zip(a.values, b.values))


def alike(x, y):
    if isinstance(x, list):
        return isinstance(y, list) and len(x) == len(y) and all(map(alike, x, y))
    if isinstance(x, float) or isinstance(y, float):
        with contextlib.suppress(OverflowError):        # an integer that no float holds
            return isinstance(x, (int, float)) and isinstance(y, (int, float)) and math.isclose(x, y, rel_tol=1e-4, abs_tol=1e-6)
        return False
    return x == y


def summary(outcome):
    """Of a hang what each rank waits for, of an error what was said of it. Without source lines and times: two files differ in those."""
    plain = re.sub(r" ?\(\S+\.[ch]pp:\d+\)|\d+(\.\d+)? s\b", "", outcome.words)
    if outcome.how == "hang":
        return sorted(re.findall(r"^rank (\d+): last (.*?), pending (.*?)(?: and \d+ more)?(?:, \w+ for.*)?$", plain, re.M))
    # Which rank is the first to say it is chance, and its sizes are its own.
    said = {re.sub(r"^rank \d+: |; last .*", "", line) for line in plain.splitlines() if not re.match(r"rank \d+: last ", line)}
    return sorted({re.sub(r"\d+", "#", line) for line in said})


def check(course, exercise, version):
    words = build(course, [target(exercise, version)])
    if words:
        file = f"work/{exercise.folder}/{exercise.path.name}"
        return Verdict([], compiler.short(words, course.ROOT, file), full=words, theirs=compiler.blames(words, file))
    return judge(course, exercise, version, lambda: builds_wrong(course, exercise))


def judge(course, exercise, version, others_built=lambda: True):
    """The verdict on a version that is built. `others_built`: whether the wrong answers, to compare it with, are built too."""
    outcomes = []
    for ranks in RANKS:
        outcomes.append(run(course, exercise, version, ranks))
        if outcomes[-1].how != "passed":
            again = lambda n: run(course, exercise, version, n)  # noqa: E731
            return Verdict(outcomes, mistake=known(course, exercise, outcomes, again, SEED, others_built))
    return Verdict(outcomes)


def builds_wrong(course, exercise):
    return not build(course, [target(exercise, "wrong_" + w.name) for w in exercise.wrong])


RECORDED = {}


def recorded(course, exercise, version, ranks, seed):
    """run(), once for each build of a wrong answer: one that hangs takes seconds. With the visible seed it is kept in a file."""
    program = course.build_folder() / "tests" / "exercises" / exercise.name / version
    key = program, ranks, seed
    if key not in RECORDED:
        kept = program.with_name(f"{version}.on_{ranks}.json")
        outcome = seed == SEED and kept_outcome(kept, program)
        RECORDED[key] = outcome or run(course, exercise, version, ranks, seed)
        if seed == SEED and not outcome:
            aside = kept.with_name(f"{kept.name}.{os.getpid()}.{threading.get_ident()}")
            aside.write_text(json.dumps(dataclasses.asdict(RECORDED[key])), encoding="utf-8")
            aside.replace(kept)
    return RECORDED[key]


def kept_outcome(kept, program):
    """What is kept of a program that has not been built anew since, or None. That one did not end may be a busy machine's fault: it
    runs again."""
    with contextlib.suppress(OSError, ValueError, TypeError):
        if kept.stat().st_mtime_ns > program.stat().st_mtime_ns:
            outcome = Outcome(**json.loads(kept.read_text(encoding="utf-8")))
            return None if outcome.how == "endless" else outcome
    return None


def known(course, exercise, outcomes, again, seed, others_built):
    """The wrong answer that ends as this did, or None. Where several do, the rank counts that follow tell them apart: again(ranks)
    runs this once more."""
    if outcomes[-1].unwritten or not exercise.wrong or not others_built():
        return None
    left = exercise.wrong
    for ranks in RANKS[len(outcomes) - 1:]:
        mine = outcomes[-1] if ranks == outcomes[-1].ranks else again(ranks)
        left = [w for w in left if same(mine, recorded(course, exercise, "wrong_" + w.name, ranks, seed))]
        if len(left) < 2:
            break
    return left[0] if left else None
