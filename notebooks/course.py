"""What the notebooks need to run the chapters' programs and to read what a run leaves. The standard library is enough.

    seen = run(13, ranks=4, dp=2, steps=20)     # ./course run 13 -n 4 --dp 2 --steps 20, built first where need be
    seen.metrics                                # what --metrics wrote: a list of dicts, each with `kind`
    seen.rows("step", "loss")                   # one key of all lines of a kind
    run(5, ranks=2, trace=True).events          # what --trace wrote, without the names of its tracks; quickest_step(), inside()
    seen.table("sent by each rank")             # a table it printed, for what no file holds: rows of text and numbers
    seen.block("W, by columns")                 # the lines it printed under this one, up to an empty one
    source("common/chunk.hpp", "first words")   # lines of the course's own source, so that a notebook never quotes old ones
    golden("chunks.json")                       # values from PyTorch, of tests/golden
    golden_tests(5, ranks=2)                    # the C++ tests that compare chapter 05 with them
"""
import functools
import importlib.machinery
import importlib.util
import json
import re
import struct
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FIRST_WITH_METRICS = 9
EXERCISE = re.compile(r"\s*(//|#) (exercise \w+ {|} exercise)\s*$")


class Failed(Exception):
    """A program did not end well, or did not say what was looked for."""


class Run:
    """What one run said and left."""

    def __init__(self, text, metrics=(), events=()):
        self.text, self.metrics, self.events = text, list(metrics), list(events)

    def rows(self, kind, key):
        return [line[key] for line in self.metrics if line["kind"] == kind]

    def one(self, kind):
        """The one line of a kind: config, time, summary."""
        lines = [line for line in self.metrics if line["kind"] == kind]
        if len(lines) != 1:
            raise Failed(f"the metrics have {len(lines)} lines of kind {kind}, not one")
        return lines[0]

    def quickest_step(self):
        """(begin, end) of the quickest training step of rank 0, in microseconds of the trace."""
        step = min((e for e in self.events if e["name"] == "step" and e["tid"] == 0), key=lambda e: e["dur"])
        return step["ts"], step["ts"] + step["dur"]

    def inside(self, begin, end, category, rank=0):
        """The events of a category (kernel, collective, phase) on a rank's own track that begin in this time."""
        return [e for e in self.events if e["cat"] == category and e["tid"] == rank and begin <= e["ts"] < end]

    def table(self, heading):
        """The rows of the table whose header starts so, cell by cell; what reads as a number is one."""
        header, rule, *rows = [self.line(heading), *self.block(heading)]
        if not set(rule) <= set("─┼ "):
            raise Failed(f"what stands under '{header}' is no table")
        return [[number(cell) for cell in re.split(r"\s*│\s*|\s{2,}", row.strip())] for row in rows]

    def block(self, heading):
        lines = self.text.splitlines()
        after = lines[lines.index(self.line(heading)) + 1:]
        return after[:next((i for i, line in enumerate(after) if not line.strip()), len(after))]

    def line(self, heading):
        """The line that is this, or else the first that starts so."""
        lines = self.text.splitlines()
        for line in [heading] * (heading in lines) + lines:
            if line.startswith(heading):
                return line
        raise Failed(f"the program printed no line that starts with '{heading}'; it said:\n{self.text}")


def number(word):
    plain = word.replace(",", "")
    for kind in (int, float):
        try:
            return kind(plain)
        except ValueError:
            pass
    return word


def command(chapter, ranks, flags):
    """The words behind ./course: loss_parallel=True is --loss-parallel, text=[a, b] is --text a b."""
    words = ["run", f"{chapter:02}", "-n", str(ranks)]
    for name, value in flags.items():
        if value is not False:
            words.append("--" + name.replace("_", "-"))
            words += [] if value is True else [str(v) for v in (value if isinstance(value, (list, tuple)) else [value])]
    return words


def run(chapter, ranks, trace=False, **flags):
    """Runs a chapter's program by ./course run, and prints that line, to be typed in a terminal as well."""
    words = command(chapter, ranks, flags)
    print("./course " + " ".join(words))
    with tempfile.TemporaryDirectory() as folder:
        metrics, trace_file = Path(folder) / "metrics", Path(folder) / "trace"
        words += ["--metrics", str(metrics)] if chapter >= FIRST_WITH_METRICS else []
        words += ["--trace", str(trace_file)] if trace else []
        text = course(*words)
        lines = metrics.read_text(encoding="utf-8").splitlines() if metrics.exists() else []
        events = json.loads(trace_file.read_text(encoding="utf-8"))["traceEvents"] if trace else []
    return Run(text, map(json.loads, lines), (event for event in events if event["ph"] == "X"))


def course(*words):
    """Standard output of ./course and these words, or Failed with the last it said."""
    done = subprocess.run([sys.executable, str(ROOT / "course"), *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          stdin=subprocess.DEVNULL, text=True, encoding="utf-8", errors="replace")
    if done.returncode:
        said = "\n".join((done.stdout + done.stderr).strip().splitlines()[-12:])
        raise Failed(f"./course {' '.join(words)} ended with {done.returncode}:\n{said}")
    return done.stdout


def compare(guess, right, unit=""):
    """A prediction beside what came out."""
    said = "you made no guess" if guess is None else f"your guess: {guess:,}" if guess != right else "as you guessed"
    print(f"{right:,} {unit}".rstrip() + f" ({said})")


def source(path, first, last=None):
    """The line of a file of the course that starts with `first` (spaces aside), or the lines from there to the next that starts with `last`;
    without the spaces that all of them begin with, and without the marks of an exercise."""
    lines = [line for line in (ROOT / path).read_text(encoding="utf-8").splitlines() if not EXERCISE.match(line)]

    def find(words, begin):
        for i in range(begin, len(lines)):
            if lines[i].strip().startswith(words):
                return i
        raise Failed(f"{path} has no line that starts with '{words}'" + (f" after line {begin}" if begin else ""))

    at = find(first, 0)
    return textwrap.dedent("\n".join(lines[at:1 + (find(last, at + 1) if last else at)]))


def golden(name):
    """A file of values from PyTorch, of tests/golden: what JSON holds, or (metadata, {tensor's name: (shape, numbers)})."""
    raw = (ROOT / "tests" / "golden" / name).read_bytes()
    if name.endswith(".json"):
        return json.loads(raw)
    size = struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8:8 + size])
    metadata = header.pop("__metadata__", {})
    letters = {"F32": "f", "I32": "i", "F64": "d", "I64": "q"}
    tensors = {}
    for tensor, about in header.items():
        begin, end = (8 + size + offset for offset in about["data_offsets"])
        letter = letters[about["dtype"]]
        tensors[tensor] = about["shape"], struct.unpack(f"<{(end - begin) // struct.calcsize(letter)}{letter}", raw[begin:end])
    return metadata, tensors


@functools.cache
def script():
    """./course as a module: it knows the build folder and the launcher."""
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        loader = importlib.machinery.SourceFileLoader("course_script", str(ROOT / "course"))
        module = importlib.util.module_from_spec(importlib.util.spec_from_loader("course_script", loader))
        loader.exec_module(module)
        return module
    finally:
        sys.dont_write_bytecode = before


def golden_tests(chapter, ranks):
    """Runs the C++ tests that compare a chapter's modules with PyTorch's values on so many ranks; Failed unless all agree."""
    name = script().chapters()[chapter]
    program = script().build_folder() / "tests" / f"test_{name}"
    if not program.exists():
        raise Failed(f"the tests of {name} are not built: ./course setup")
    done = subprocess.run([script().launcher(), "-n", str(ranks), str(program), "[golden]"], cwd=ROOT, stdin=subprocess.DEVNULL, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env={**script().environment(), "GOMP_SPINCOUNT": "1000"})
    if done.returncode or not re.search(r"All tests passed \([1-9]", done.stdout):
        raise Failed(f"chapter {chapter:02}, {ranks} ranks: not all agree with PyTorch's values:\n" + done.stdout)
    print(f"chapter {chapter:02} on {ranks} rank{'s' * (ranks > 1)}: agrees with PyTorch")
