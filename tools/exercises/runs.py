"""Builds one version of an exercise, runs its check on several rank counts, and says how it ended."""
import dataclasses
import json
import math
import re
import subprocess
import tempfile
import textwrap
from pathlib import Path

RANKS = 1, 2, 3, 4
LAUNCHER = re.compile(r"=|YOUR APPL|Please see|This typ|Abort\(|note: \d+ ranks share")     # lines that say nothing of the program
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


@dataclasses.dataclass
class Verdict:
    outcomes: list              # up to the first that did not pass
    compiler: str = ""          # its words, where it did not build
    mistake: object = None      # source.Wrong, where the answers are those of one

    @property
    def passed(self):
        return not self.compiler and all(o.how == "passed" for o in self.outcomes)

    def said(self, exercise):
        if self.compiler:
            return f"{exercise.name} does not compile\n\n{self.compiler}"
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
    names = {"hang": "the ranks wait for each other", "died": "it ended with an error", "endless": f"no end after {LIMIT} s"}
    return names[outcome.how] + "".join(f"\n  {line}" for line in outcome.words.splitlines()[:12])


# ---- build -----------------------------------------------------------------------------------------------------------

def build(course, exercise, versions):
    """'' or the compiler's words about the learner's own lines."""
    if not course.cache():
        course.configure()
    targets = [f"exercise_{exercise.name}.{version}" for version in versions]
    code, output = course.capture(["cmake", "--build", course.build_folder(), "-j", str(course.cores()), "--target", *targets])
    return "" if code == 0 else complaints(course, exercise, output)


def complaints(course, exercise, output):
    """The first errors with the learner's file and line, without the build's own words."""
    lines = [line.replace(str(course.ROOT) + "/", "").replace("../chapters/", "chapters/") for line in output.splitlines()]
    lines = [line for line in lines if not re.match(r"\[\d+/\d+\]|FAILED:|ninja:|gmake|make|\S*/(c\+\+|g\+\+|cc)\b|In file included|\s+from ", line)]
    missing = re.findall(r"undefined reference to `course::([^(']+)", output)
    if missing:
        header = exercise.path.with_suffix(".hpp").name
        return (f"{', '.join(dict.fromkeys(missing))}: not in your file as {header} declares it. Leave names, parameters and what is "
                "returned as they are")
    return "\n".join(lines[:24])


# ---- run -------------------------------------------------------------------------------------------------------------

def run(course, exercise, version, ranks, seed=1):
    program = course.build_folder() / "tests" / "exercises" / exercise.name / version
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [course.launcher(), "-n", str(ranks), program, "--report", report, "--seed", str(seed), "--check-collectives",
                   "--timeout", str(SECONDS), "--threads", "1"]
        try:
            with course.child(command, {"NO_COLOR": "1", **FILLED}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
                words = process.communicate(timeout=LIMIT)[1].decode("utf-8", "replace")
        except subprocess.TimeoutExpired:
            return Outcome(ranks, "endless")
        said = json.loads(report.read_text()) if report.exists() else None
    if said and said["checks"] > 0 and (process.returncode == 0) == said["passed"]:
        return Outcome(ranks, "passed" if said["passed"] else "fault", said["checks"], said["fault"], said["values"])
    words = "\n".join(line for line in words.splitlines() if line and not LAUNCHER.match(line))
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
        return isinstance(x, (int, float)) and isinstance(y, (int, float)) and math.isclose(x, y, rel_tol=1e-4, abs_tol=1e-6)
    return x == y


def summary(outcome):
    """Of a hang what each rank waits for, of an error what was said of it. Without source lines and times: two files differ in those."""
    plain = re.sub(r" ?\(\S+\.[ch]pp:\d+\)|\d+(\.\d+)? s\b", "", outcome.words)
    if outcome.how == "hang":
        return sorted(re.findall(r"^rank (\d+): last (.*?), pending (.*?)(?: and \d+ more)?(?:, \w+ for.*)?$", plain, re.M))
    # Which rank is the first to say it is chance, and its sizes are its own.
    said = {re.sub(r"^rank \d+: |; last .*", "", line) for line in plain.splitlines() if not re.match(r"rank \d+: last ", line)}
    return sorted({re.sub(r"\d+", "#", line) for line in said})


def check(course, exercise, version, seed=1):
    complaint = build(course, exercise, [version])
    if complaint:
        return Verdict([], complaint)
    outcomes = []
    for ranks in RANKS:
        outcomes.append(run(course, exercise, version, ranks, seed))
        if outcomes[-1].how != "passed":
            return Verdict(outcomes, mistake=known(course, exercise, outcomes, version))
    return Verdict(outcomes)


RECORDED = {}


def recorded(course, exercise, version, ranks):
    """run(), once in the life of this process."""
    key = exercise.name, version, ranks
    if key not in RECORDED:
        RECORDED[key] = run(course, exercise, version, ranks)
    return RECORDED[key]


def known(course, exercise, outcomes, version):
    """The wrong answer that ends as this did, or None. Where several do, the rank counts that follow tell them apart."""
    written = outcomes[-1].fault and outcomes[-1].fault["what"].endswith("not written yet")
    if written or build(course, exercise, ["wrong_" + w.name for w in exercise.wrong]):
        return None
    left = exercise.wrong
    for ranks in RANKS[len(outcomes) - 1:]:
        mine = outcomes[-1] if ranks == outcomes[-1].ranks else run(course, exercise, version, ranks)
        left = [w for w in left if same(mine, recorded(course, exercise, "wrong_" + w.name, ranks))]
        if len(left) < 2:
            break
    return left[0] if left else None
