"""Trains `tiny` for 2,000 steps on dp 2 x tp 2, saving now and then, and looks at every rank from outside:

    steps.py MPIRUN PROGRAM [--steps N]

Linux counts for each process its resident memory, its open files, its threads and its shared-memory segments. None of
them may grow between the tenth of the run that follows the warm-up and its last tenth: a request that is never freed, a
communicator made at each step, a file left open or a tensor kept is found here within bytes of a step.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LEAK_PER_STEP = 256   # bytes of one rank: less than one MPI request and its vector of counts


def children(pid):
    """All processes below pid, and pid itself."""
    found = [pid]
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in task.read_text().split():
            found += children(int(child))
    return found


def ranks_below(pid, program):
    def is_rank(p):
        return os.path.realpath(f"/proc/{p}/exe") == os.path.realpath(program)
    return [p for p in children(pid) if is_rank(p)]


def look(pid):
    """What one rank holds: {name: number}."""
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    maps = Path(f"/proc/{pid}/maps").read_text().splitlines()
    return {"resident bytes": int(status["RssAnon"].split()[0]) * 1024, "open files": len(os.listdir(f"/proc/{pid}/fd")),
            "threads": int(status["Threads"]), "shared mappings": sum(" rw-s " in line for line in maps)}


def newest_step(metrics):
    """The last whole step line's number, 0 before the first."""
    try:
        lines = metrics.read_text().splitlines()
    except OSError:
        return 0
    for line in reversed(lines):
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if row["kind"] == "step":
            return row["step"]
    return 0


def watch(process, program, metrics):
    """[(step, {rank's pid: what it holds})] until the run ends, as often as steps are short."""
    seen = []
    while process.poll() is None:
        try:
            seen.append((newest_step(metrics), {p: look(p) for p in ranks_below(process.pid, program)}))
        except (FileNotFoundError, ProcessLookupError, KeyError):
            pass                                   # a process ended while it was looked at
        time.sleep(0.1)
    return seen


def smallest(samples, pid, name):
    """The least of a part of the run: while a checkpoint is written, a rank holds more, and that is no leak."""
    return min(ranks[pid][name] for _, ranks in samples)


def judge(seen, steps):
    """Words for each thing that grew; empty if nothing did."""
    early = [(s, r) for s, r in seen if 0.1 * steps <= s < 0.2 * steps and len(r) == 4]
    late = [(s, r) for s, r in seen if 0.9 * steps <= s < steps and len(r) == 4]
    if not early or not late:
        return [f"the run was not seen: {len(early)} looks early, {len(late)} late, of {len(seen)}"]
    apart = late[-1][0] - early[0][0]
    grew = []
    for rank, pid in enumerate(sorted(late[-1][1])):
        for name in late[-1][1][pid]:
            before, after = smallest(early, pid, name), smallest(late, pid, name)
            allowed = LEAK_PER_STEP * apart if name == "resident bytes" else 0
            print(f"process {rank}: {name} {before} around step {early[0][0]}, {after} around step {late[-1][0]}")
            if after > before + allowed:
                grew.append(f"process {rank}: {name} grew from {before} to {after} in {apart} steps, {allowed} are allowed")
    return grew


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("mpirun")
    parser.add_argument("program")
    parser.add_argument("--steps", type=int, default=2000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        metrics = Path(folder) / "metrics.jsonl"
        command = [options.mpirun, "-n", "4", options.program, "--preset", "tiny", "--dp", "2", "--tp", "2", "--steps",
                   str(options.steps), "--seq", "8", "--batch", "2", "--threads", "1", "--quiet", "--text",
                   "chapters/03_device_mesh/README.md",
                   "--metrics", str(metrics), "--save", folder + "/saved", "--save-every", str(max(1, options.steps // 20))]
        start = time.monotonic()
        with open(Path(folder) / "output", "w+") as output:
            process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
            try:
                seen = watch(process, options.program, metrics)
            finally:
                process.terminate()                # nothing once it has ended; else the launcher ends its ranks
                process.wait()
            output.seek(0)
            said = output.read()
        steps = newest_step(metrics)
    print(f"{steps} steps in {time.monotonic() - start:.0f} s, seen {len(seen)} times")
    wrong = judge(seen, options.steps)
    if process.returncode != 0 or steps != options.steps:
        wrong.append(f"the run ended with {process.returncode} after {steps} of {options.steps} steps:\n{said}")
    for line in wrong:
        print(line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
