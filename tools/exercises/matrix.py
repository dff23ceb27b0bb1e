"""./course matrix: proves every exercise, and ends with one line, or with a line for each that is not as it must be.

  the stub compiles, and fails by "not written yet" on 2 and 3 ranks
  the solution passes on 1, 2, 3 and 4 ranks, with the visible seed and another
  every wrong answer is rejected, and known by its own name
"""
import concurrent.futures
import sys

import make
import runs
import source

OTHER_SEED = 7


def of_solution(course, exercise):
    for seed in (1, OTHER_SEED):
        for ranks in runs.RANKS:
            end = runs.run(course, exercise, "solution", ranks, seed)
            if end.how != "passed":
                yield f"the solution fails on {ranks} ranks, seed {seed}: {runs.described(end)}"


def of_stub(course, exercise):
    for ranks in (2, 3):
        end = runs.run(course, exercise, "stub", ranks)
        if end.how != "fault" or not end.fault["what"].endswith("not written yet"):
            yield f"the stub on {ranks} ranks does not fail by 'not written yet': {end.how}"


def of_wrong(course, exercise, wrong):
    verdict = runs.check(course, exercise, "wrong_" + wrong.name)
    if verdict.passed:
        yield f"wrong answer {wrong.name} passes"
    elif verdict.mistake is not wrong:
        yield f"wrong answer {wrong.name} is taken for {verdict.mistake.name if verdict.mistake else 'nothing known'}: " \
              + runs.described(verdict.outcomes[-1] if verdict.outcomes else runs.Outcome(0, 'died', words=verdict.compiler))


def main(course, words):
    try:
        exercises = make.exercises(course.ROOT)
    except source.Fault as fault:
        raise course.Stop(str(fault)) from None
    chosen = [exercises[w] for w in words if w in exercises] if words else list(exercises.values())
    if words and len(chosen) != len(words):
        raise course.Stop(f"matrix: there is no exercise among '{' '.join(words)}'; they are {', '.join(exercises)}", 2)
    course.configure()                      # a source may have got its first marks
    course.build([f"exercise_{e.name}" for e in chosen])
    jobs = [(e, part, extra) for e in chosen
            for part, extra in [(of_solution, []), (of_stub, []), *[(of_wrong, [w]) for w in e.wrong]]]
    with concurrent.futures.ThreadPoolExecutor(course.cores()) as pool:
        found = pool.map(lambda job: [f"{job[0].name}: {line}" for line in job[1](course, job[0], *job[2])], jobs)
        faults = [line for lines in found for line in lines]
    few = [f"{e.name}: {len(e.wrong)} wrong answers; 3 are the least" for e in chosen if len(e.wrong) < 3]
    for line in faults + few:
        print(line)
    count = sum(len(e.wrong) for e in chosen)
    if faults or few or not chosen:
        print(f"{len(chosen)} exercises, {count} wrong answers: {len(faults + few)} not as they must be", file=sys.stderr)
        return 1
    print(f"{len(chosen)} exercises, {count} wrong answers: all as they must be")
    return 0
