"""./course start, check, hint, solution, reset, progress, watch: a learner's way through the exercises.

  ./course start [NN|NAME]      a file to write into: work/NN_chapter/FILE.cpp
  ./course check [NN|NAME]      build it, run it on 1, 2, 3 and 4 ranks, say what is wrong (--full: all the compiler's words)
  ./course hint [NN|NAME]       the next hint
  ./course solution [NN|NAME]   the solution, once you have passed (--anyway: before; it is noted)
  ./course reset [NN|NAME]      begin again; what you wrote is kept beside
  ./course progress             what is done
  ./course watch                check whenever the file is saved, and go on to the next when it passes

Without a name: the exercise that was started last and is not passed; solution: started or passed last.
museum/3 is a broken program of museum/ (museum.py).
"""
import contextlib
import datetime
import difflib
import fcntl
import hashlib
import json
import os
import shutil
import sys
import time

import make
import museum
import predict
import runs
import source


NEW = {"started": None, "passed": None, "checks": 0, "hints": 0, "shown": False}      # what is noted of an exercise


class Learner:
    """What is written in work/: the files, and state.json of what was started, passed and asked."""

    def __init__(self, course):
        self.course = course
        self.folder = course.ROOT / "work"
        self.exercises, self.exhibits = make.exercises(course.ROOT), make.exhibits(course.ROOT)
        self.state = self.read()

    def read(self):
        """{name of an exercise: what is noted of it}, and "predictions". Throws Stop."""
        path = self.folder / "state.json"
        if not path.exists():
            return {}
        with contextlib.suppress(ValueError, RecursionError):
            state = json.loads(path.read_text(encoding="utf-8"))
            if isinstance(state, dict) and all(well_formed(*item) for item in state.items()):
                return state
        raise self.course.Stop("work/state.json is not what the course wrote; remove it, and what was passed is asked again")

    def of(self, exercise):
        return {**NEW, **self.state.get(exercise.name, {})}

    @contextlib.contextmanager
    def change(self, name):
        """What is noted under a name, to write into; it is kept where nothing is thrown. Another terminal may have noted
        something since, and must not while we do: read anew, under a lock."""
        self.folder.mkdir(exist_ok=True)
        with open(self.folder / "state.lock", "w") as lock:
            with contextlib.suppress(OSError):          # a network's file system may know no locks
                fcntl.flock(lock, fcntl.LOCK_EX)
            self.state = self.read()
            entry = self.state.setdefault(name, {})
            yield entry
            aside = self.folder / f"state.json.{os.getpid()}"
            aside.write_text(json.dumps(self.state, indent=1), encoding="utf-8")
            aside.replace(self.folder / "state.json")

    @contextlib.contextmanager
    def note(self, exercise):
        """change() of an exercise."""
        with self.change(exercise.name) as entry:
            for key, value in NEW.items():
                entry.setdefault(key, value)
            yield entry

    def file(self, exercise):
        return self.folder / exercise.folder / exercise.path.name

    def everything(self):
        return [*self.exercises.values(), *self.exhibits.values()]

    def passed(self, exercise):
        return bool(self.of(exercise)["passed"])

    def has_file(self, exercise):
        return self.file(exercise).exists()

    def sha256(self, exercise):
        """Of the file as it is now; '' where there is none."""
        file = self.file(exercise)
        return hashlib.sha256(file.read_bytes()).hexdigest() if file.exists() else ""

    def next(self):
        """The first that is not passed, or None."""
        return next((e for e in self.exercises.values() if not self.passed(e)), None)

    def written(self, exercise):
        """Its file, which is there. Throws Stop."""
        file = self.file(exercise)
        if not self.has_file(exercise):
            raise self.course.Stop(f"{self.course.short(file)} is missing; ./course start {exercise.name} makes it", 2)
        return file

    def latest(self):
        """What was started or passed last, or None."""
        when = {e.name: self.of(e)["passed"] or self.of(e)["started"] for e in self.everything()}
        return max((e for e in self.everything() if when[e.name]), key=lambda e: (when[e.name], not self.passed(e)), default=None)

    def chosen(self, words, started=True, first=lambda exercise: False):
        """The exercise that the words name. Of a chapter with several, one for which `first` holds, then one that
        is left, then one that is begun, then the one whose file was written last. Throws Stop."""
        if len(words) > 1:
            raise self.course.Stop(f"one exercise, not {len(words)}: {' '.join(words)}", 2)
        if not words:
            begun = [e for e in self.everything() if self.of(e)["started"] and not self.passed(e)]
            found = max(begun, key=lambda e: self.of(e)["started"]) if begun else None if started else self.next()
            if not found:
                any_begun = any(self.of(e)["started"] for e in self.everything())
                raise self.course.Stop("all that is begun is passed: name one; ./course start begins the next" if any_begun else
                                       "no exercise is begun; ./course start begins the next", 2)
            return found
        if words[0] in self.exercises:
            return self.exercises[words[0]]
        if words[0].split("/")[0] == "museum" or words[0] in self.exhibits:
            return self.preferred(self.exhibits_of(words[0]), first)
        number = int(words[0]) if words[0].isdecimal() else None
        of_chapter = [e for e in self.exercises.values() if words[0] == e.folder or int(e.number) == number]
        if not of_chapter:
            near = difflib.get_close_matches(words[0], self.exercises, 2)
            meant = f"did you mean {' or '.join(near)}? " * bool(near)
            known = ", ".join(f"{e.number} {e.name}" for e in self.exercises.values())
            raise self.course.Stop(f"there is no exercise '{words[0]}'; {meant}they are {known}", 2)
        return self.preferred(of_chapter, first)

    def preferred(self, exercises, first):
        def age(e):
            return -self.file(e).stat().st_mtime_ns if self.has_file(e) else 0
        return min(exercises, key=lambda e: (not first(e), self.passed(e), not self.of(e)["started"], age(e)))

    def exhibits_of(self, word):
        """museum/3, museum/03 or its name; museum: all. Throws Stop."""
        named = museum.named(self.exhibits.values(), word)
        if not named:
            raise self.course.Stop(f"there is no '{word}'; ./course museum lists them", 2)
        return named

    def now(self):
        return datetime.datetime.now().isoformat(timespec="seconds")


def well_formed(name, entry):
    """Whether it may be used as what state.json says under a name. A person may have written it."""
    if not isinstance(entry, dict):
        return False
    if name == "predictions":
        return all(isinstance(said, dict) and {"right", "of"} <= said.keys() for said in entry.values())
    return all(type(entry.get(key, value)) in (type(value), str if value is None else bool if value is False else int)
               for key, value in {**NEW, "guesses": 0}.items())


def start(learner, words):
    exercise = learner.chosen(words, started=False)
    file, course = learner.file(exercise), learner.course
    if file.exists():
        print(f"{exercise.name} is begun already, in {course.short(file)}")
    else:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(source.stub(exercise), encoding="utf-8")
        if exercise.fault:
            print(f"{exercise.number} {exercise.name}: find the fault in\n  {course.short(file)}\n\n"
                  f"name it (./course name {exercise.number}) and mend it")
        else:
            places = f" ({len(exercise.parts)} places)" if len(exercise.parts) > 1 else ""
            print(f"{exercise.number} {exercise.name}: write what stands between '// exercise {exercise.name} {{' and "
                  f"'// }} exercise'{places} in\n  {course.short(file)}")
    with learner.note(exercise) as entry:               # of a file that was there too: state.json may have been removed
        entry["started"] = learner.now()
    print("\n" + source.wrapped(exercise.task))
    print(f"\nthen: ./course check {exercise.name}        stuck: ./course hint {exercise.name}")
    return 0


def check(learner, words):
    full = "--full" in words
    exercise = learner.chosen([w for w in words if w != "--full"], first=learner.has_file)
    file, course = learner.written(exercise), learner.course
    with learner.note(exercise) as entry:
        entry["checks"] += 1
    of_file = learner.sha256(exercise)
    verdict = runs.check(course, exercise, "work")
    print(f"{course.short(file)}, sha256 {of_file[:12]}: {verdict.said(exercise)}")
    if full and verdict.full:
        print("\n" + verdict.full)
    if verdict.passed and learner.sha256(exercise) != of_file:
        print("\nthe file was changed meanwhile; check it once more")
        return 1
    if verdict.passed and exercise.fault:
        return museum.mended(learner, exercise)
    if verdict.passed:
        with learner.note(exercise) as entry:
            entry.update(passed=entry["passed"] or learner.now(), sha256=of_file)
        print("\nWhy it works\n" + source.wrapped(exercise.why))
        left = learner.next()
        print(f"\nnext: ./course start {left.number}    ({left.name})" if left else "\nall exercises are passed")
    return 0 if verdict.passed else 1


def hint(learner, words):
    exercise = learner.chosen(words)
    if learner.of(exercise)["hints"] >= len(exercise.hints):
        print(f"{exercise.name} has no more hints; all {len(exercise.hints)} again:")
    else:
        with learner.note(exercise) as entry:
            entry["hints"] += 1
    for number, text in enumerate(exercise.hints[:learner.of(exercise)["hints"]], 1):
        print(source.wrapped(f"{number} of {len(exercise.hints)}. {text}"))
    return 0


def solution(learner, words):
    anyway = "--anyway" in words
    words = [w for w in words if w != "--anyway"]
    exercise = learner.chosen(words) if anyway else not words and learner.latest() or learner.chosen(words, first=learner.passed)
    if not learner.passed(exercise) and not anyway:
        raise learner.course.Stop(f"{exercise.name} is not passed yet; ./course hint {exercise.name}, or --anyway, which is noted")
    if not learner.passed(exercise):
        with learner.note(exercise) as entry:
            entry["shown"] = True
    if exercise.fault:
        print(f"the fault is {exercise.fault.name}: {exercise.fault.says}\n")
    print("\n\n".join([*source.shown(exercise), source.wrapped(exercise.why)]))
    return 0


def reset(learner, words):
    exercise = learner.chosen(words, first=learner.has_file)
    file, course = learner.file(exercise), learner.course
    if file.exists():
        kept = next(p for n in range(1, 10**6) if not (p := file.with_name(f"{file.name}.{n}")).exists())
        shutil.copy2(file, kept)
        print(f"what you wrote is kept in {course.short(kept)}")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(source.stub(exercise), encoding="utf-8")
    with learner.note(exercise) as entry:
        entry.update(started=learner.now(), passed=None)
        entry.pop("mended", None)
    print(f"{course.short(file)} is as at the start")
    return 0


def progress(learner, words):
    learner.course.no_more(words, "progress")
    done = [e for e in learner.exercises.values() if learner.passed(e)]
    width = 40
    full = width * len(done) // max(1, len(learner.exercises))
    print(f"[{'#' * full}{'.' * (width - full)}] {len(done)} of {len(learner.exercises)}\n")
    for e in learner.exercises.values():
        entry = learner.of(e)
        print(f"{e.number} {e.name:24} {museum.state(entry):8} {(entry['passed'] or '')[:16]:18} {museum.asked(entry)}".rstrip())
    print("", *museum.progress(learner), *predict.progress(learner), sep="\n")
    return 0


def watch(learner, words):
    """By the time of last change, looked at twice a second: it needs nothing of the system."""
    exercise = learner.chosen(words)
    learner.written(exercise)
    seen = None
    while True:
        file = learner.file(exercise)
        changed = file.stat().st_mtime_ns if file.exists() else None
        if changed != seen:
            seen = changed
            print(f"\n{time.strftime('%H:%M:%S')} {learner.course.short(file)}")
            if changed and check(learner, [exercise.name]) == 0:
                exercise = None if exercise.fault else learner.next()
                if not exercise:
                    return 0
                start(learner, [exercise.name])
                seen = learner.file(exercise).stat().st_mtime_ns
        time.sleep(0.5)


COMMANDS = {"start": start, "check": check, "hint": hint, "solution": solution, "reset": reset, "progress": progress,
            "watch": watch, "museum": museum.listed, "name": museum.name, "predict": predict.predict}


def main(course, command, words):
    if {"--help", "-h"} & set(words):
        print(sys.modules[COMMANDS[command].__module__].__doc__.strip())
        return 0
    return COMMANDS[command](Learner(course), words)
