"""Ranks that do not mean the same, a row each, with --check-collectives: every rank ends, non-zero; one heading says what is
wrong, if it is not one rank's own fault, and then each rank has one line. A rank that is merely slow is waited for.

    COURSE_BUILD=build python3 -m unittest discover -s tests/wrong_collectives
"""
import concurrent.futures
import re
import subprocess
import sys
import time
import typing
import unittest
import uuid
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "wrong_use"))
from launch import BUILD, MPIRUN, launch, processes_with  # noqa: E402

PROGRAM = "../tests/wrong_calls"
SHELL = ("Segmentation fault", "Segmentation fault (core dumped)")      # what the shell around a rank adds
SECONDS = 6                      # --timeout of what can only be found by waiting
CALL = (r"(?:none|(?:call|message) \d+ [a-z -]+?(?: of \d+ bytes)?(?: (?:from|to) rank \d+)? on \w+ \(\w+\.cpp:\d+\))")
STATE = r"(?:waiting for|computing for) \d+\.\d s|at the end of the program"
LINE = re.compile(rf"rank (\d+): (?:(?P<why>.+); )?last (?P<last>{CALL}), pending (?P<pending>{CALL})(?:, (?P<state>{STATE}))?")


class Row(typing.NamedTuple):
    mode: str
    heading: str = ""            # a regular expression; "": none, a rank says it in its own line
    ranks: tuple = (2, 4)
    rank: int = 1                # the one that is looked at, and its line's parts
    why: str = ""
    last: str = ""
    pending: str = ""
    state: str = ""
    slow: bool = False           # found by waiting


COME = r"ranks disagree about "
ROWS = [
    Row("operation", rf"call 2 on world: {COME}the operation \(all-reduce of 12 f32 on .*; all-gather of \d+ f32 on rank 1\)",
        pending="call 2 all-gather of"),
    Row("size", rf"call 2 on world, all-reduce: {COME}the size \(12 on rank 0; 1 on rank", last="call 1 all-reduce of 48 bytes",
        pending="call 2 all-reduce of 4 bytes on world"),
    Row("type", rf"call 2 on world, all-reduce: {COME}the type \(f32 on .*; f64 on rank 1\) and the size \(12 on .*; 6 on rank 1\)",
        pending="call 2 all-reduce of 48 bytes"),
    Row("reduction", rf"call 2 on world, all-reduce: {COME}the reduction \(sum on .*; maximum on rank 1\)"),
    Row("root", rf"call 2 on world, broadcast: {COME}the root \(rank 0 on .*; rank 1 on rank 1\)",
        pending="call 2 broadcast of 48 bytes from rank 1 on world"),
    Row("axis", rf"call \d on (tp|dp|world), .*: waited {SECONDS} s, ranks? .* did not come; --timeout sets the limit", (4,), rank=3,
        last="call 3 split on world", pending="call 1 all-reduce of 48 bytes on dp", state="waiting", slow=True),
    Row("axis-name", rf"call 1 on tp, all-reduce: {COME}the axis \(tp on .*; dp on rank 1\)", pending="call 1 all-reduce of 48 bytes on dp"),
    Row("order", rf"call 2 on world: {COME}the operation \(all-reduce of 12 f32 on .*; broadcast of 12 f32 on rank 1\)"),
    Row("order-of-axes", rf"call 1 on (tp|dp), all-reduce: waited {SECONDS} s, rank \d did not come", (4,), state="waiting", slow=True,
        pending="call 1 all-reduce of 48 bytes on tp"),
    Row("missing", rf"call 5 on world: {COME}the operation \(all-reduce of 12 f32 on .*; the end of the program on rank 1\)",
        last="call 4 all-reduce", pending="none", state="at the end"),
    Row("missing-on-axis", r"call 3 on tp, all-reduce: rank 1 has ended and will not come", (4,), last="call 2 all-reduce of 48 bytes on tp",
        state="at the end"),
    Row("save-on-rank-0", rf"call 2 on world, all-reduce: {COME}the type \(f64 on rank 0; f32 on .*the size \(1 on rank 0; 12 on", rank=0,
        pending="call 2 all-reduce of 8 bytes on world"),
    Row("return", rf"call 2 on world: {COME}the operation \(split on .*; the end of the program on rank 1\)", state="at the end"),
    Row("exit", why=r"exit\(\) was called in the middle of the run", last="call 1", pending="none"),
    Row("exception", why="data/1.bin is missing", last="call 1", pending="none"),
    Row("signal", why="ended by SIGSEGV, it touched memory that it does not own", last="call 1", pending="none"),
    Row("loop", rf"call 2 on world, all-reduce: waited {SECONDS} s, rank 1 did not come; --timeout sets the limit", last="call 1", pending="none",
        state="computing for", slow=True),
    Row("loop-at-end", rf"call 2 on world, the end of the program: waited {SECONDS} s, rank 1 did not come", pending="none", state="computing for",
        slow=True),
    Row("uneven", rf"call 2 on world, all-gather: {COME}the counts \(\[3,2.*\] on .*; \[2,3.*\] on rank 1\)"),
    Row("all-to-all", r"call 2 on world, all-to-all: rank 0 sends 3 elements to rank 1, which expects 2"),
    Row("message", r"message 1 from rank 0 to rank 1 on world: 3 f32 sent, 4 f32 expected", pending="message 1 recv of 16 bytes from rank 0"),
    Row("message-missing", r"message 1 from rank 0 on world: rank 0 has ended and will not come", pending="message 1 recv of 12 bytes"),
    Row("split", rf"call 2 on world: {COME}the operation \(split on .*; all-reduce of 12 f32 on rank 1\)"),
]


def run(mode, ranks, *flags):
    """(the result, processes of it that are left: the launcher ends before the last that it has killed)."""
    mark = str(uuid.uuid4())
    result = launch(PROGRAM, ranks, ["--mode", mode, *flags], {"WRONG_CALLS": mark})
    end = time.monotonic() + 10
    while processes_with(mark) and time.monotonic() < end:
        time.sleep(0.1)
    return result, list(processes_with(mark))


def complaints(row, ranks, result, left):
    """What is wrong about how a wrong program ended; [] if nothing is."""
    said, wrong = "\n".join(result.lines), []
    if result.hung:
        wrong.append("it hung")
    if result.code == 0:
        wrong.append("exit code 0 of the launcher")
    wrong += [f"rank {rank} ended with 0" for rank, code in result.codes.items() if code == 0]
    if left:
        wrong.append(f"still running: {left}")
    lines = [line for line in result.lines if line not in SHELL]
    if row.heading:
        heading = lines.pop(0) if lines else ""
        if not re.match(row.heading, heading):
            wrong.append(f"the heading is not {row.heading}")
    found = [LINE.fullmatch(line) for line in lines]
    if None in found or [int(match[1]) for match in found if match] != list(range(ranks)):
        return wrong + ["not one line a rank", said]
    line = found[row.rank]
    for part in ("why", "last", "pending", "state"):
        if not re.match(getattr(row, part), line[part] or ""):
            wrong.append(f"rank {row.rank}'s '{part}' is not {getattr(row, part)}")
    wrong += [f"rank {match[1]} says why, too" for match in found if match["why"] and not (row.why and match is line)]
    return wrong + [said] if wrong else []


def judge(row, ranks):
    timeout = SECONDS if row.slow else 40          # what need not wait must not
    result, left = run(row.mode, ranks, "--check-collectives", "--timeout", str(timeout))
    return complaints(row, ranks, result, left)


class WrongCollectives(unittest.TestCase):
    maxDiff = None

    def test_each_ends_with_one_line_a_rank(self):
        runs = [(row, ranks) for row in ROWS for ranks in row.ranks]
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            for (row, ranks), wrong in zip(runs, pool.map(lambda run: judge(*run), runs)):
                with self.subTest(f"{row.mode} on {ranks}"):
                    self.assertEqual("\n".join(wrong), "")

    def test_a_slow_rank_is_waited_for(self):
        for flags in (["--check-collectives", "--timeout", "20"], ["--check-collectives", "--timeout", "0"]):
            result, _ = run("slow", 3, *flags)
            self.assertEqual((result.code, result.lines), (0, []), flags)

    def test_two_lines_are_a_note_once(self):
        done = subprocess.run([MPIRUN, "-n", "2", str(BUILD / "bin" / PROGRAM), "--check-collectives", "--mode", "order-alike"],
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        notes = re.findall(r"^note: call (\d) on world, all-reduce, comes from different lines \(wrong_calls.cpp:(\d+) on rank 0; "
                           r"wrong_calls.cpp:(\d+) on rank 1\)", done.stderr, re.M)
        self.assertEqual([number for number, *_ in notes], ["2", "3"], done.stderr)
        self.assertEqual(int(notes[0][1]), int(notes[0][2]) + 1)

    def test_without_the_flag_a_limit_ends_it(self):
        modes = ("missing", "loop", "axis", "exception", "signal")
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            ends = pool.map(lambda mode: run(mode, 4, "--timeout", str(SECONDS)), modes)
        for mode, (result, left) in zip(modes, ends):
            with self.subTest(mode):
                self.assertFalse(result.hung)
                self.assertNotEqual(result.code, 0)
                self.assertEqual(left, [])


if __name__ == "__main__":
    unittest.main()
