"""./course matrix: proves every exercise, and ends with one line, or with a line for each that is not as it must be.

  the stub compiles, and fails by "not written yet" on 2 and 3 ranks
  the solution passes on 1, 2, 3 and 4 ranks, with the visible seed and another
  every wrong answer is rejected, and known by its own name
  every broken program of museum/ fails in the way that its source says, and its fault is among the names to choose from
  every question of ./course predict has its answer in what its program prints

  ./course matrix [NN|NAME...] [museum] [predict]     some of it
"""
import concurrent.futures
import contextlib
import json
import re
import sys

import make
import museum
import predict
import runs

OTHER_SEED = 7


def of_solution(course, exercise):
    for seed in (runs.SEED, OTHER_SEED):
        for ranks in runs.RANKS:
            end = runs.run(course, exercise, "solution", ranks, seed)
            if end.how != "passed":
                yield f"the solution fails on {ranks} ranks, seed {seed}: {runs.described(end)}"


def of_stub(course, exercise):
    for ranks in (2, 3):
        end = runs.run(course, exercise, "stub", ranks)
        if not end.unwritten:
            yield f"the stub on {ranks} ranks does not fail by 'not written yet': {end.how}"


def of_wrong(course, exercise, wrong):
    verdict = runs.judge(course, exercise, "wrong_" + wrong.name)
    if verdict.passed:
        yield f"wrong answer {wrong.name} passes"
    elif verdict.mistake is not wrong:
        taken = verdict.mistake.name if verdict.mistake else "nothing known"
        yield f"wrong answer {wrong.name} is taken for {taken}: {runs.described(verdict.outcomes[-1])}"


def named(exercises, words):
    """(the exercises that the words name, all without words; the words that name none)"""
    called = {name: {name, e.folder, e.number, re.sub(r"\b0", "", e.number), *["museum"] * bool(e.fault)}
              for name, e in exercises.items()}
    chosen = [e for name, e in exercises.items() if not words or called[name] & set(words)]
    return chosen, [w for w in words if w not in {"museum", "predict"}.union(*called.values())]


def forget_chance(course, exercise):
    """Removes what runs.py keeps of wrong answers that hung or died: on a busy machine that may be chance, and would stay."""
    for kept in (course.build_folder() / "tests" / "exercises" / exercise.name).glob("*.on_*.json"):
        with contextlib.suppress(ValueError, KeyError, TypeError):
            if json.loads(kept.read_text(encoding="utf-8"))["how"] in ("passed", "fault"):
                continue
        kept.unlink()


def main(course, words):
    if {"--help", "-h"} & set(words):
        print(__doc__.strip())
        return 0
    exercises = make.everything(course.ROOT)
    chosen, unknown = named(exercises, words)
    if unknown:
        said = ", ".join(map(repr, unknown))
        raise course.Stop(f"matrix: there is no exercise {said}; they are {', '.join(exercises)}, museum and predict", 2)
    asked = {n: len(predict.questions(course, n)) for n in course.chapters()} if not words or "predict" in words else {}
    asked = {n: count for n, count in asked.items() if count}
    course.configure()                      # a source may have got its first marks
    course.build([f"exercise_{e.name}" for e in chosen] + [course.chapters()[n] for n in asked])
    for e in chosen:
        forget_chance(course, e)
    written, broken = [e for e in chosen if not e.fault], [e for e in chosen if e.fault]
    jobs = []
    for e in chosen:
        parts = [(of_solution,), (museum.of_broken if e.fault else of_stub,), *[(of_wrong, w) for w in e.wrong]]
        jobs += [(f"{e.name}: ", part, e, *extra) for part, *extra in parts]
    jobs += [("", predict.of_chapter, n) for n in asked]
    with concurrent.futures.ThreadPoolExecutor(course.cores()) as pool:
        found = pool.map(lambda job: [job[0] + line for line in job[1](course, *job[2:])], jobs)
        faults = [line for lines in found for line in lines]
    faults += [f"{e.name}: {len(e.wrong)} wrong answers; 3 are the least" for e in written if len(e.wrong) < 3]
    faults += museum.of_names(course, broken) if broken else []
    for line in faults:
        print(line)
    said = [f"{sum(asked.values())} predictions"] * bool(asked)
    said += [f"{len(broken)} broken programs, {sum(len(e.wrong) for e in broken)} wrong repairs"] * bool(broken)
    said += [f"{len(written)} exercises, {sum(len(e.wrong) for e in written)} wrong answers"] * (not words or bool(written))
    if faults or not jobs:
        print(f"{'; '.join(said)}: {len(faults)} not as they must be", file=sys.stderr)
        return 1
    print(": all as they must be\n".join(said) + ": all as they must be")
    return 0
