"""./course grade: runs what a class has handed in, and says of each exercise of each student how it ended.

  ./course grade --class DIR --out grades.csv [--out grades.json] [--out grades.xml]

DIR holds a folder a student, each with what a learner's work/ holds: NN_chapter/FILE.cpp, and state.json, where it is there. With
--museum the programs of museum/ are graded too: a repair passes as a solution does; whether the fault was named too, state.json says.

  passed             on 1, 2, 3 and 4 ranks
  wrong              a comparison failed; the mistake's name, where it is a known one
  does not compile   with the first errors
  crashed            an error or a signal ended it, or it took more memory than it may
  hangs              the ranks wait for each other, or there is no end
  cheats             it went round the check: see submission.py
  not handed in      no file, or the one that ./course start makes
  not graded         the grader, the compiler or the disk failed at it: look at the file
"""
import argparse
import contextlib
import difflib
import json
import os
import secrets
import stat
import sys
import tempfile
import time
from pathlib import Path

import compiler
import grades
import make
import museum
import runs
import sandbox
import source
import submission

LARGEST = 256 * 2**10           # bytes of a file that is handed in


def students_of(course, folder):
    """{name: folder with the chapters in it}; who has packed work/ itself is taken at its word."""
    if not folder.is_dir():
        raise course.Stop(f"--class: there is no folder {folder}", 2)
    found = {}
    for path in sorted(p for p in folder.iterdir() if p.is_dir() and not p.name.startswith(".")):
        inner = path / "work"
        found[path.name] = inner if inner.is_dir() and not inner.is_symlink() else path
    if not found:
        raise course.Stop(f"--class: {folder} holds no folders; one a student is expected, with what stands in a learner's work/", 2)
    return found


class Refused(Exception):
    """A file that is not taken, and why."""


def handed_in(folder, name):
    """The bytes of a file below a student's folder, or None. Throws Refused: a link may lead to another student's file."""
    path = folder / name
    if not path.exists() and not path.is_symlink():
        return None
    if Path(os.path.realpath(folder)) not in Path(os.path.realpath(path)).parents:     # resolve() throws at a link to itself
        raise Refused(f"{name} is a link that leaves the student's folder")
    with contextlib.closing(os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb")) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise Refused(f"{name} is no file")
        data = file.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise Refused(f"{name} is larger than {LARGEST // 2**10} KiB")
    return data


def record_of(folder, exercise):
    """What the student's own state.json says: it is theirs, so no more than a hint."""
    with contextlib.suppress(Refused, OSError, ValueError, RecursionError, AttributeError):
        entry = json.loads(handed_in(folder, "state.json") or b"{}").get(exercise.name, {})
        kinds = {"checks": int, "hints": int, "shown": bool, "named": str}
        return {k: entry[k] for k, kind in kinds.items() if type(entry.get(k)) is kind}
    return {}


def grade_one(judge, folder, exercise):
    try:
        data = handed_in(folder, f"{exercise.folder}/{exercise.path.name}")
        text = None if data is None else data.decode("utf-8")
    except (Refused, OSError, UnicodeDecodeError) as error:
        return submission.Result("does not compile", detail=str(error))
    if text is None or text.strip() == source.stub(exercise).strip():
        return submission.Result("not handed in", detail="" if text is None else "the file is as ./course start made it")
    result = judge.of(exercise, text)
    if same_lines(text, source.solution(exercise)) and result.status == "passed":
        result.detail = "the same lines as the chapter's"
    return result


def grade_safely(course, *what):
    """grade_one(), where a submission that the grader did not expect costs its own line and not the class's."""
    try:
        return grade_one(*what)
    except course.Stop:
        raise
    except Exception as error:
        return submission.Result("not graded", detail=f"the grader failed: {type(error).__name__}: {compiler.cut(str(error))}")


def same_lines(a, b):
    return [line.strip() for line in a.splitlines() if line.strip()] == [line.strip() for line in b.splitlines() if line.strip()]


def refuse_open(course, folder):
    """Throws Stop where every submission could read all of the class."""
    opened = sandbox.of_system(folder, [place for place, _ in runs.mpi(course)])
    if opened and not sandbox.reason():
        raise course.Stop(f"--class: submissions can read what lies in {opened}, {folder} too; move the class to another folder", 2)


def options_of(course, words):
    parser = argparse.ArgumentParser(prog="./course grade", description="grades what a class has handed in",
                                     epilog="the same --seed gives the same inputs again; without, they are new each time")
    parser.add_argument("--class", dest="folder", required=True, type=Path, help="a folder with a folder a student")
    parser.add_argument("--out", action="append", default=[], type=Path, help="grades.csv, .json or .xml (JUnit), by its ending; repeatable")
    parser.add_argument("--json", action="append", default=[], type=Path, help="a file for JSON, whatever its ending")
    parser.add_argument("--junit", action="append", default=[], type=Path, help="a file for JUnit, whatever its ending")
    parser.add_argument("--only", action="append", default=[], metavar="EXERCISE", help="only this one; repeatable")
    parser.add_argument("--museum", action="store_true", help="the programs of museum/ too")
    parser.add_argument("--student", action="append", default=[], help="only this one; repeatable")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**6) + 1000, help="of the inputs")
    parser.add_argument("--seconds", type=float, default=20, help="that one run may take (20)")
    parser.add_argument("--memory", type=int, default=2048, metavar="MIB", help="that all its ranks may take together (2048)")
    options = parser.parse_args(words)
    if options.seconds <= 0 or options.memory < 64:
        raise course.Stop(f"grade: --seconds {options.seconds:g} --memory {options.memory}: above 0 and at least 64 are needed", 2)
    return options


def files_of(course, options):
    """[(path, how to write it)]"""
    found = [(p, grades.as_json) for p in options.json] + [(p, grades.as_junit) for p in options.junit]
    for path in options.out:
        if path.suffix not in grades.BY_ENDING:
            raise course.Stop(f"--out {path}: its ending says the form: {', '.join(grades.BY_ENDING)}", 2)
        found.append((path, grades.BY_ENDING[path.suffix]))
    for path, _ in found:
        if not path.absolute().parent.is_dir():
            raise course.Stop(f"there is no folder {path.absolute().parent} for {path.name}", 2)
    return found


def picked(course, known, wanted, what):
    missing = [w for w in wanted if w not in known]
    if missing:
        near = difflib.get_close_matches(missing[0], known, 2)
        raise course.Stop(f"there is no {what} '{missing[0]}'; " + (f"did you mean {' or '.join(near)}?" if near else
                                                                    f"there are {', '.join(known)}"), 2)
    return [known[w] for w in wanted] if wanted else list(known.values())


def wanted(course, known, options):
    """`known`: exercises and exhibits."""
    only = []
    for word in options.only:
        exhibits = museum.named([e for e in known.values() if e.fault], word) if word.startswith("museum") else []
        only += [e.name for e in exhibits] or [word]
    return [e for e in picked(course, known, only, "exercise") if only or options.museum or not e.fault]


def main(course, words):
    return grade(course, options_of(course, words), make.everything(course.ROOT))


def grade(course, options, known):
    files, exercises = files_of(course, options), wanted(course, known, options)
    students = students_of(course, options.folder)
    if options.student:
        picked(course, students, options.student, "student")
        students = {name: students[name] for name in options.student}
    if sandbox.reason():
        course.say(f"note: no sandbox here: {sandbox.reason()}. What is graded can read what you can read, other submissions too, and reach "
                   "the network; the limits of time, memory and processes hold")
    course.configure()
    refuse_open(course, options.folder)
    course.build([f"exercise_{e.name}.solution" for e in exercises])
    limits = sandbox.Limits(seconds=options.seconds, memory=options.memory * 2**20)
    sheet = grades.Sheet(options.seed, "bwrap" if not sandbox.reason() else f"limits only: {sandbox.reason()}")
    with tempfile.TemporaryDirectory(prefix="course-grade-") as folder:
        os.chmod(folder, 0o755)                         # the user nobody runs what lies in it
        judge = submission.Judge(course, Path(folder), options.seed, limits)
        for name, work in students.items():
            began, results = time.monotonic(), []
            for exercise in exercises:
                results.append(grade_safely(course, judge, work, exercise))
                sheet.add(name, exercise, results[-1], record_of(work, exercise))
            for path, form in files:                    # after each student: what is done stays, whatever comes
                grades.write(path, form(sheet))
            print(f"{grades.valid(name):24} {grades.tally(r.status for r in results)}   {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    print(grades.by_exercise(sheet))
    for path, _ in files:
        print(f"written: {path}", file=sys.stderr)
    return 0
