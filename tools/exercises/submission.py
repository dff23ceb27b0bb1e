"""One file that somebody else wrote: compiled, linked with the check of its exercise and run, each in the sandbox.

What the compiler may read: headers of the course, this one file. What the program may read: itself. Both: the system's folders
(sandbox.SYSTEM), so no class may lie in one.

A program's word is not taken. It has passed where its exit code and its report say so, and where it made as many comparisons as the
solution did on the same inputs, with the same numbers in them. The inputs come from a seed that is not known before. So a report
that the file writes itself, exit(0) in the middle and a printed verdict do not pass; nor does a file that defines what belongs to
the check, a C function such as exit() among them.

What is not defended against: code in the check's own process can read and change its memory, so somebody who writes for that can
still deceive it. And the solution stands in the chapter for all to copy.
"""
import dataclasses
import hashlib
import os
import re
import shutil
import subprocess
import time

import commands
import compiler
import runs
import sandbox

COMPILING = sandbox.Limits(seconds=90, memory=3 * 2**30, file=256 * 2**20)
STATUS = {"passed": "passed", "fault": "wrong", "hang": "hangs", "endless": "hangs", "died": "crashed"}


@dataclasses.dataclass
class Result:
    status: str
    mistake: str = ""           # its name, where it is a known one
    detail: str = ""
    sha256: str = ""            # of the file
    seconds: float = 0


class Judge:
    def __init__(self, course, folder, seed, limits):
        self.course, self.folder, self.seed, self.limits = course, folder, seed, limits
        self.headers = folder / "headers"
        for path in headers(course.ROOT):
            (self.headers / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(course.ROOT / path, self.headers / path)
        bundle = course.ROOT / "bundle"         # MPI and the like, where this machine has none of its own
        self.also = [(bundle, bundle)] if bundle.is_dir() else []
        self.mpi = runs.mpi(course)
        for path, _ in self.also:
            (self.headers / path.name).mkdir()
        self.right, self.others = {}, {}        # outcomes of the solution; symbols of the rest

    def of(self, exercise, text):
        began = time.monotonic()
        aside = self.folder / "one"
        shutil.rmtree(aside, ignore_errors=True)
        for folder in (aside, aside / "made"):
            folder.mkdir()
            folder.chmod(0o755)                 # the user nobody runs what lies in it, whatever the umask
        result = self.judged(exercise, text, aside)
        result.sha256, result.seconds = hashlib.sha256(text.encode()).hexdigest(), time.monotonic() - began
        return result

    def judged(self, exercise, text, aside):
        failed, made = self.compile(exercise, text, aside)
        if failed:
            return failed
        foreign = self.foreign(exercise, made)
        if foreign:
            return Result("cheats", detail=f"it defines {', '.join(foreign)}, which is not its own")
        failed, program = self.link(exercise, made, aside)
        if failed:
            return failed
        outcomes = []
        for ranks in runs.RANKS:
            outcome, cheats = self.run(exercise, program, ranks)
            outcomes.append(outcome)
            if cheats:
                return Result("cheats", detail=f"on {counted(ranks)}: {cheats}")
            if outcome.how != "passed":
                return self.failed(exercise, outcomes, program)
        return Result("passed")

    def failed(self, exercise, outcomes, program):
        last = outcomes[-1]
        if last.unwritten:
            return Result("not handed in", detail="a part of it is not written yet")
        mistake = runs.known(self.course, exercise, outcomes, lambda ranks: self.run(exercise, program, ranks)[0], self.seed,
                             lambda: runs.builds_wrong(self.course, exercise))
        return Result(STATUS[last.how], mistake.name if mistake else "", f"on {counted(last.ranks)}: {runs.described(last)}")

    # ---- build ---------------------------------------------------------------------------------------------------

    def compile(self, exercise, text, aside):
        """(the result where it failed, the object)"""
        root, made = self.course.ROOT, aside / "made"
        file = aside / exercise.path.name
        file.write_text(text, encoding="utf-8")
        inside = root / "work" / exercise.folder / exercise.path.name
        tree = self.headers / "work" / exercise.folder
        tree.mkdir(parents=True, exist_ok=True)
        (tree / file.name).touch()              # the place for it in the headers' folder, which is not to be written to
        words, _ = commands.compiling(self.course, self.version(exercise, "solution.cpp"))
        ended = sandbox.run([*words, "-c", inside if not sandbox.reason() else file, "-o", made / "one.o"],
                            [*self.mpi, (self.headers, root), (file, inside), *self.also], [made], COMPILING, as_nobody=False)
        return self.unbuilt(exercise, ended), made / "one.o"

    def link(self, exercise, made, aside):
        """(the result where it failed, the program). The check's own objects come first."""
        build, program = self.course.build_folder(), aside / "made" / "program"
        words = [str(build / w) if (build / w).exists() else w for w in commands.linking(self.course, f"exercise_{exercise.name}.solution")]
        own = commands.object_of(words, "solution.cpp")
        last = max(i for i, w in enumerate(words) if w.endswith(".o"))
        words.insert(last + 1, str(made))
        del words[own]
        words[words.index("-o") + 1] = str(program)
        ended = sandbox.run(words, [*self.mpi, (build, build), *self.also], [aside / "made"], COMPILING, as_nobody=False)
        if failed := self.unbuilt(exercise, ended):
            return failed, None
        program.chmod(0o755)
        return None, program

    def unbuilt(self, exercise, ended):
        """The result where compiler or linker failed, or None. A full disk is not the student's."""
        if ended.over:
            return Result("does not compile", detail=f"compiler or linker met its limit of {ended.over}")
        if not ended.code:
            return None
        file = f"work/{exercise.folder}/{exercise.path.name}"
        words = compiler.short(ended.words, self.course.ROOT, file)
        if compiler.blames(ended.words, file):
            return Result("does not compile", detail=words)
        return Result("not graded", detail=f"the build failed, and does not name the file: {words}")

    def version(self, exercise, name):
        return self.course.build_folder() / "tests" / "exercises" / exercise.name / name

    def foreign(self, exercise, made):
        """What the object defines that is neither the exercise's nor the learner's own: names of the check and the rest, functions of C,
        and what a library has. A global variable is not mangled either, and may be the learner's own."""
        words = commands.linking(self.course, f"exercise_{exercise.name}.solution")
        build, own = self.course.build_folder(), commands.object_of(words, "solution.cpp")
        if exercise.name not in self.others:
            rest = [build / w for i, w in enumerate(words) if w.endswith((".o", ".a")) and (build / w).exists() and i != own]
            others = {name for name, kind in defined(rest).items() if kind not in "WVuw"}
            others.update(name for name in of_libraries(self.version(exercise, "solution")) if not name.startswith("_Z"))
            self.others[exercise.name] = defined([build / words[own]]), others
        ours, others = self.others[exercise.name]
        found = [name for name, kind in defined([made]).items()
                 if name not in ours and (name in others or not name.startswith("_Z") and kind in "Ti")]
        # By stdin: a name may be longer than an argument.
        said = subprocess.run(["c++filt"], input="\n".join(found[:3]), capture_output=True, text=True).stdout
        return [compiler.cut(name) for name in said.splitlines()]

    # ---- run -----------------------------------------------------------------------------------------------------

    def run(self, exercise, program, ranks):
        """(the outcome, how it tried to cheat or '')"""
        outcome, said, code = self.once(program, ranks)
        if outcome.how == "passed" or said and said["passed"]:
            right = self.solution(exercise, ranks)
            if said["checks"] != right.checks or not agrees(said["values"], right.values):
                return outcome, "its report says passed, with other numbers than the right ones"
        if code == 0 and not said:
            return outcome, "it ended with exit code 0 before the check was through: exit(), _exit() or a report of its own"
        if code == 0 and not said["passed"]:
            return outcome, "it ended with exit code 0 where the check had failed"
        return outcome, ""

    def solution(self, exercise, ranks):
        """The outcome of the course's own, in the same sandbox with the same inputs. Throws Stop where that fails: then nothing can be graded."""
        key = exercise.name, ranks
        if key not in self.right:
            program = self.folder / f"solution_{exercise.name}"
            if not program.exists():
                shutil.copyfile(self.version(exercise, "solution"), program)
                program.chmod(0o755)
            self.right[key] = self.once(program, ranks)[0]
        if self.right[key].how != "passed":
            raise self.course.Stop(f"the course's own {exercise.name} does not pass here on {counted(ranks)}, so nothing is graded: "
                                   + runs.described(self.right[key]))
        return self.right[key]

    def once(self, program, ranks):
        report = self.folder / "report.json"
        report.unlink(missing_ok=True)
        report.touch()
        if os.geteuid() == 0:
            os.chown(report, sandbox.NOBODY, sandbox.NOBODY)
        ended = sandbox.run(runs.command(self.course, program, ranks, self.seed, report), [*self.mpi, (program, program), *self.also],
                            [report], self.limits, runs.environment(self.course))
        said = runs.report_in(report)
        if ended.over == "time":
            return runs.Outcome(ranks, "endless", words=f"stopped after {self.limits.seconds:g} s"), said, ended.code
        if ended.over == "memory":
            return runs.Outcome(ranks, "died", words=f"it took more than {self.limits.memory // 2**20} MiB"), said, ended.code
        return runs.outcome(ranks, ended.code, said, ended.words), said, ended.code


def counted(ranks):
    return f"{ranks} rank{'s' * (ranks > 1)}"


def headers(root):
    """What the compiler may read: no source, for a learner's file must not take in the chapter's."""
    for folder in ("chapters", "common", "museum", "tests/exercises"):
        yield from (path.relative_to(root) for path in (root / folder).rglob("*.hpp"))


def defined(words):
    """{symbol: nm's letter} of what objects and archives define for others. `words`: files, and options of nm."""
    done = subprocess.run(["nm", "--defined-only", "--extern-only", "--format=posix", *map(str, words)], capture_output=True, text=True)
    return {words[0]: words[1] for words in map(str.split, done.stdout.splitlines()) if len(words) > 1}


def of_libraries(program):
    """What the shared libraries of a program define, by their names without a version."""
    said = subprocess.run(["ldd", str(program)], capture_output=True, text=True).stdout
    return {name.split("@")[0] for name in defined(["--dynamic", *re.findall(r"=> (/\S+)", said)])}


def agrees(mine, right):
    """The same comparisons with the same numbers, within more than any check allows. Bytes sent are left to the check: several ways may be right."""
    try:
        return len(mine) == len(right) and all(one[:2] == other[:2] and ("sends" in other[0] or "bytes" in other[0] or close(one[2], other[2]))
                                               for one, other in zip(mine, right))
    except (TypeError, IndexError, KeyError, OverflowError):
        return False


def close(mine, right):
    if not isinstance(right, list):
        return mine == right
    numbers = [x for x in right if isinstance(x, (int, float))]
    near = 1e-3 * (sum(x * x for x in numbers) / max(1, len(numbers))) ** 0.5
    return len(mine) == len(right) and all(abs(x - y) <= near + 1e-3 * abs(y) if isinstance(y, (int, float)) else x == y
                                           for x, y in zip(mine, right))
