"""`./course run` on what the learner wrote: a chapter's program, linked with the learner's object for each exercise that is passed.

The object stands before the libraries of the chapters, and has all that the chapter's own source has, so the linker takes nothing
from that one. A file that was changed since it passed is not used: nobody knows what it does.
"""
import os
from pathlib import Path

import commands
import runs
import work


def program(course, number, name):
    """The chapter's program with the learner's code, or None where there is none to use. Says which it is."""
    learner = work.Learner(course)
    of_here = [e for e in learner.exercises.values() if int(e.folder[:2]) <= number and learner.passed(e)]
    fresh = [e for e in of_here if learner.of(e).get("sha256") == learner.sha256(e)]
    for e in of_here:
        if e not in fresh:
            what = "was changed since it passed" if learner.file(e).exists() else "is missing"
            not_used(learner, e, what)
    fresh = built(learner, fresh)
    if not fresh:
        return None
    try:
        made, said = link(course, name, fresh)
    except commands.Unknown as unknown:
        made, said = None, str(unknown)
    names = ", ".join(f"{e.name} ({e.number})" for e in fresh)
    if said:
        course.say(f"note: yours does not go into {name}, the course's own is used: {said}")
        return None
    course.say(f"with your own {names}; --ours runs the course's")
    return made


def not_used(learner, exercise, why):
    file = learner.course.short(learner.file(exercise))
    learner.course.say(f"note: {file} {why}; the course's own is used until ./course check {exercise.name} passes")


def built(learner, exercises):
    """Those whose files build; of the others it is said. One build is fast, and one for each is for the day when that fails."""
    course = learner.course
    if not exercises or not runs.build(course, [runs.target(e, "work") for e in exercises]):
        return exercises
    failed = [e for e in exercises if runs.build(course, [runs.target(e, "work")])]
    for e in failed:
        not_used(learner, e, "does not build")
    return [e for e in exercises if e not in failed]


def link(course, name, exercises):
    """(the program, the linker's words where it failed)"""
    build, made = course.build_folder(), course.build_folder() / "own" / name
    made.parent.mkdir(exist_ok=True)
    places = [build / "tests" / "exercises" / e.name / "work.cpp" for e in exercises]
    objects = [commands.compiling(course, place)[1] for place in places]
    words = [str(build / w) if (build / w).exists() else w for w in commands.linking(course, name)]
    words[words.index("-o") + 1] = str(made)
    last = max(i for i, w in enumerate(words) if w.endswith(".o"))
    words[last + 1:last + 1] = map(str, objects)
    if up_to_date(made, words):
        return made, ""
    aside = made.with_name(f"{name}.{os.getpid()}")              # a linker that fails or is stopped leaves half of a program
    code, output = course.capture([str(aside) if w == str(made) else w for w in words])
    if code:
        aside.unlink(missing_ok=True)
        told = [line for line in output.splitlines() if "multiple definition" in line or "undefined" in line]
        return None, told[0] if told else output[-300:]
    record = made.with_suffix(".link")
    record.unlink(missing_ok=True)                              # at no time does it describe another program
    aside.replace(made)
    record.write_text("\n".join(words), encoding="utf-8")
    return made, ""


def up_to_date(made, words):
    """Linked by these words, of nothing that has changed since."""
    record = made.with_suffix(".link")
    if not made.exists() or not record.exists() or record.read_text(encoding="utf-8") != "\n".join(words):
        return False
    inputs = [Path(w) for w in words if w.endswith((".o", ".a")) and not w.startswith("-")]
    return all(path.exists() and path.stat().st_mtime_ns <= made.stat().st_mtime_ns for path in inputs)
