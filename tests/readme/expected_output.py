"""The blocks under "Expected output" of a chapter's README: which command each is from, and whether a run says the same.

A block is a ``` fence without a language. The commands between it and the block before (code spans that begin with mpirun
or build/bin/, or a fence of nothing else) are run in that order, and the block is what the last of them says. Where none is
stated, the block is from the same run as the one before. A line `...` in a block stands for lines left out.

The rule, number by number; all other text must be equal:
  a time, a rate or a share of time   any number: it is followed by a unit of TIMED, or its column or line names one
  written like 1e-07, below 1e-5      a rounding error: any number of that size, 0 too
  a loss or a norm                    within 1e-3 of its size
  KiB, MiB, GiB                       within 1 %; any where the build has a GPU, whose kernels take other scratch
  any other with a point              within one of its last digit
  all else (counts, bytes, ranks)     equal
Spaces count, except in a table or paragraph with a number of the first two kinds, whose width is not known beforehand.
Rows of a table with times may stand in any order; where one of them stands for several "short kernels", which rows those are
goes by the clock, so only rows on both sides count. Of progress lines ("step 3/9 ...") the first and the last count, since
the others come by the clock. "tokenizer:" says whether one was found or trained, by the machine's past: its words are free.
So is the text that --generate makes, behind the words it begins with.
"""
import importlib.machinery
import importlib.util
import os
import re
import shlex
import subprocess
import sys
import tempfile
import typing
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OTHER_DEVICE = os.environ.get("COURSE_CUDA", "off") != "off"
TIMEOUT = 300                                    # seconds a command: a hang ends the test, slowness does not

UNIT = r"(?:tokens/s|GFLOP/s|GB/s|MB/s|ms|µs|ns|s|seconds|%|×)"
TIMED = re.compile(r"\s?" + UNIT + r"(?![\w/])")
TIMED_WORDS = re.compile(r"(?<![\w/])(?:tokens/s|GFLOP/s|GB/s|MB/s|ms|µs|ns|seconds|share|imbalance)(?![\w/])")
NUMBER = re.compile(r"(?<![\w.])[+-]?\d+(?:,\d{3})*(?::\d\d:\d\d)?(?:\.\d+)?(?:e[+-]?\d+)?(?!\w)")
NAMED = re.compile(r"\b(?:loss|norm)\b")
PROGRESS = re.compile(r"step +\d+/(\d+)  ")
SHORT = re.compile(r"\d+ short kernels")
COMMAND = re.compile(r"(?:mpirun -n \d+ |mpirun )?build/bin/")


class Block(typing.NamedTuple):
    start: int              # the block is lines[start:end] of the README, the fences not among them
    end: int
    commands: tuple


def blocks(text):
    """The output blocks of a README, in order. ValueError for a block without a command above it."""
    found, commands, prose, fence, inside = [], (), [], None, False
    fresh = []
    for at, line in enumerate(text.split("\n")):
        if fence is None and line.startswith("## "):
            inside = line.strip() == "## Expected output"
        elif inside and line.startswith("```"):
            if fence is None:
                fence, language = at + 1, line[3:].strip()
                fresh += [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", " ".join(prose)) if COMMAND.match(span)]
                prose = []
                continue
            content = text.split("\n")[fence:at]
            if all(COMMAND.match(word) for word in content):
                fresh += content
            elif not language:
                commands, fresh = tuple(fresh) or commands, []
                if not commands:
                    raise ValueError(f"line {fence}: no command is stated above this block of expected output")
                found.append(Block(fence, at, commands))
            fence = None
        elif inside and fence is None:
            prose.append(line)
    return found


# ---- running ---------------------------------------------------------------------------------------------------------

def course():
    """The script ./course as a module: it knows the launcher, the build folder and what Open MPI asks for."""
    loader = importlib.machinery.SourceFileLoader("course", str(ROOT / "course"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("course", loader))
    sys.dont_write_bytecode, before = True, sys.dont_write_bytecode
    loader.exec_module(module)
    sys.dont_write_bytecode = before
    return module


class Runner:
    """Runs the commands of one README at the course's top. Folders under runs/ are temporary, and shared between them."""

    def __init__(self):
        self.course, self.said = course(), {}
        self.folder = tempfile.TemporaryDirectory(prefix="course-readme-")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.folder.cleanup()

    def output(self, commands):
        """The lines that the last of the commands says. RuntimeError when one of them ends with a code other than 0."""
        for at in range(len(commands)):
            if commands[:at + 1] not in self.said:
                self.said[commands[:at + 1]] = self.run(commands[at])
        return self.said[commands]

    def run(self, command):
        words = [self.word(word) for word in shlex.split(command)]
        quiet = {"NO_COLOR": "1", "COURSE_PROGRESS": "plain", "GOMP_SPINCOUNT": "1000"}
        try:
            done = subprocess.run(words, cwd=ROOT, env={**self.course.environment(), **quiet}, stdin=subprocess.DEVNULL,
                                  capture_output=True, timeout=TIMEOUT, encoding="utf-8", errors="replace")
        except OSError as error:
            raise RuntimeError(f"{command}\n{error}; is the course built? ./course setup") from None
        except subprocess.TimeoutExpired:
            raise RuntimeError(f"{command}\nno end within {TIMEOUT} seconds") from None
        if done.returncode:
            raise RuntimeError(f"{command}\nended with code {done.returncode} and said\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        runs = str(Path(self.folder.name))
        out, err = (stream.replace(runs, "runs").rstrip("\n").split("\n") for stream in (done.stdout, done.stderr))
        return merged(out, [line for line in err if PROGRESS.match(line)])

    def word(self, word):
        if word == "mpirun":
            return self.course.launcher()
        for prefix, place in (("build/", self.course.build_folder()), ("runs/", Path(self.folder.name))):
            if word.startswith(prefix):
                return str(place / word[len(prefix):])
        return word


def merged(out, progress):
    """Progress goes to stderr: it belongs before the line that says how the training ended."""
    ends = [at for at, line in enumerate(out) if line.startswith("held-out loss after")]
    at = ends[0] if ends else len(out)
    return [line.rstrip() for line in out[:at] + progress + out[at:]]


# ---- comparing -------------------------------------------------------------------------------------------------------

def value(word):
    return float(word.replace(",", "").lstrip("+"))


def is_timed(line, number, header):
    if TIMED.match(line, number.end()) or ":" in number[0]:
        return True
    if re.search(r"(?:share|imbalance|over mean):?\s*$", line[:number.start()]):
        return True
    return any(TIMED_WORDS.search(name) for name in header_of(header, line, number.start()))


def header_of(header, line, place):
    """The words over a number in a table: its column's, and what stands before ':' in its group of columns. [] elsewhere."""
    if not header or line.count("│") != header.count("│"):
        return []
    cells, names = (list(re.finditer(r"\S+(?: \S+)*", text.replace("│", " "))) for text in (line, header))
    cell = next(found for found in cells if found.start() <= place < found.end())
    over = [name[0] for name in names if name.start() < cell.end() and cell.start() < name.end()]
    group = header.split("│")[line.count("│", 0, place)]
    return over + ([group.split(":")[0]] if ":" in group else [])


def agree(line, number, word, header):
    """Whether `word` may stand for this number of an expected line."""
    if is_timed(line, number, header):
        return True
    if ":" in number[0] or ":" in word:
        return number[0] == word
    expected, actual = value(number[0]), value(word)
    if "e-" in number[0] and abs(expected) < 1e-5:
        return abs(actual) < 1e-5
    if "." not in number[0]:
        return number[0] == word
    size = max(abs(expected), abs(actual))
    if re.match(r"\s[KMG]iB", line[number.end():]):
        return OTHER_DEVICE or abs(expected - actual) <= 0.01 * size
    if NAMED.search(line[:number.start()]) or any(NAMED.search(name) for name in header_of(header, line, number.start())):
        return abs(expected - actual) <= 1e-3 * size
    digits = len(number[0].partition("e")[0].partition(".")[2])
    scale = 10.0 ** int(number[0].partition("e")[2] or 0)
    return abs(expected - actual) <= 1.01 * 10.0 ** -digits * scale


def is_free(line, number, header):
    """Whether not even its width is known beforehand."""
    return is_timed(line, number, header) or ("e-" in number[0] and abs(value(number[0])) < 1e-5)


def is_rule(line):
    return bool(line) and not line.strip("─┼ ")


class Line(typing.NamedTuple):
    text: str
    header: str = ""        # of the table in which it stands
    loose: bool = False     # the number of spaces is free
    timed: bool = False     # in a table with times

    def same(self, other):
        mine, theirs = self.text, other.text
        if self.loose or other.loose:
            mine, theirs = (re.sub(r"[ ─]*─[ ─]*", "─", re.sub(r" +", " ", text)) for text in (mine, theirs))
        numbers, words = list(NUMBER.finditer(mine)), NUMBER.findall(theirs)
        if NUMBER.split(mine) != NUMBER.split(theirs) or len(numbers) != len(words):
            return False
        originals = list(NUMBER.finditer(self.text))
        return all(agree(self.text, number, word, self.header) for number, word in zip(originals, words))


def understood(lines):
    """Plain lines as Lines: what is in which table, and where spaces are free."""
    result, paragraph = [], []
    for line in lines + [""]:
        if line:
            paragraph.append(line)
            continue
        rules = [at for at, text in enumerate(paragraph) if is_rule(text)]
        head = paragraph[rules[0] - 1] if rules and rules[0] else ""
        headers = [head if rules and at > rules[0] else "" for at in range(len(paragraph))]
        loose = any(is_free(text, number, header) for text, header in zip(paragraph, headers) for number in NUMBER.finditer(text))
        timed = bool(head and TIMED_WORDS.search(head))
        result += [Line(text, header, loose, timed and bool(header)) for text, header in zip(paragraph, headers)] + [Line("")]
        paragraph = []
    return result[:-1]


def usual(lines, commands):
    """Without what a clock or the machine's past decides: middle progress lines, the tokenizer's story, generated text."""
    last = shlex.split(commands[-1])
    prompt = last[last.index("--generate") + 1] if "--generate" in last[:-1] else None
    result, progress = [], [at for at, line in enumerate(lines) if PROGRESS.match(line)]
    at = 0
    while at < len(lines):
        line = lines[at]
        if at in progress[1:-1]:
            pass
        elif line.startswith("tokenizer: "):
            if not (result and result[-1].startswith("tokenizer:")):
                result.append("tokenizer: its file")
        elif prompt and line.startswith(prompt) and at and not lines[at - 1]:
            result.append(prompt)
            while at + 1 < len(lines) and not (lines[at + 1] in ("OK", "...") and not lines[at]):
                at += 1
            result.append("")
        else:
            result.append(re.sub(r"^(step) +(\d+/)", r"\1 \2", line))
        at += 1
    while result and not result[-1]:
        result.pop()
    return result


def pieces(lines):
    """Splits at the lines `...`: [(lines, open before, open behind)]."""
    result, piece, before = [], [], False
    for line in lines + [None]:
        if line in ("...", None):
            if piece:
                result.append((piece, before, line == "..."))
            piece, before = [], True
        else:
            piece.append(line)
    return result


def trimmed(lines):
    at, end = 0, len(lines)
    while at < end and not lines[at]:
        at += 1
    while end > at and not lines[end - 1]:
        end -= 1
    return lines[at:end]


def place(piece, before, behind, actual, start):
    """Where a piece of an expected block lies in what was said, by its first and its last line: (begin, end, what is wrong)."""
    wanted, said = understood(piece), understood(actual)

    def first(line, at):                         # as it is, else with other numbers in it
        words = NUMBER.split(line.text)
        for like in (line.same, lambda other: NUMBER.split(other.text) == words):
            found = next((k for k in range(at, len(said)) if like(said[k])), None)
            if found is not None:
                return found
        return None

    begin = start if not before else first(wanted[0], start)
    if begin is None:
        return start, start, [f"no line as `{piece[0]}`"]
    end = len(actual) if not behind else first(wanted[-1], begin)
    if end is None:
        return begin, begin, [f"no line as `{piece[-1]}` behind `{piece[0]}`"]
    return begin, (end if not behind else end + 1), []


def label(line):
    return NUMBER.split(line.text)[0].strip(" │")


def in_one_order(lines, others):
    """The rows of tables with times by their names; without the short ones, where short ones are put together."""
    def row(line):
        return line.timed and not is_rule(line.text)
    short = any(row(line) and SHORT.match(line.text) for line in lines + others)
    known = {label(line) for line in others if row(line) and not SHORT.match(line.text)}
    result, rows = [], []
    for line in lines + [Line("")]:
        if row(line):
            rows += [] if short and (SHORT.match(line.text) or label(line) not in known) else [line]
        else:
            result, rows = result + sorted(rows, key=label) + [line], []
    return result[:-1]


def compare(expected, actual):
    """What is wrong between two lists of lines, line by line. Both hold the same stretch of output."""
    wanted, said = understood(expected), understood(actual)
    if any(line.timed for line in wanted):
        wanted, said = in_one_order(wanted, said), in_one_order(said, wanted)
    wrong, at, to = [], 0, 0
    while at < len(wanted) or to < len(said):
        if at < len(wanted) and to < len(said) and wanted[at].same(said[to]):
            at, to = at + 1, to + 1
            continue
        # The nearest place where both go on alike; between here and there they differ.
        best = min(((i + j, i, j) for i in range(len(wanted) - at + 1) for j in range(len(said) - to + 1)
                    if i + j and ((at + i == len(wanted) and to + j == len(said)) or
                                  (at + i < len(wanted) and to + j < len(said) and wanted[at + i].text
                                   and wanted[at + i].same(said[to + j])))))
        gone, new = wanted[at:at + best[1]], said[to:to + best[2]]
        at, to = at + best[1], to + best[2]
        while gone and new and gone[-1].text == new[-1].text:    # blank lines on which both end
            gone, new = gone[:-1], new[:-1]
        wrong += [f"- {line.text}" for line in gone] + [f"+ {line.text}" for line in new]
    return wrong


def differences(expected, actual, commands):
    """[] where a run agrees with a block, else lines: `- ` as the README has it, `+ ` as the program says it."""
    parts = pieces(usual(trimmed(expected), commands))
    said, start, wrong = usual(trimmed(actual), commands), 0, []
    for piece, before, behind in parts:
        piece = trimmed(piece)
        begin, end, lost = place(piece, before, behind, said, start)
        wrong += lost or compare(piece, trimmed(said[begin:end]))
        start = end
    return wrong


def renewed(expected, actual):
    """A block's new lines from a run: whole, or the same stretches where `...` leaves lines out. ValueError if one is gone."""
    result, start, actual = [], 0, trimmed(actual)
    for piece, before, behind in pieces(trimmed(expected)):
        lead = [""] * next(k for k, line in enumerate(piece) if line)
        tail = [""] * next(k for k, line in enumerate(reversed(piece)) if line)
        begin, end, lost = place(trimmed(piece), before, behind, actual, start)
        if lost:
            raise ValueError("; ".join(lost))
        result += (["..."] if before else []) + lead + trimmed(actual[begin:end]) + tail + (["..."] if behind else [])
        start = end
    return [line for at, line in enumerate(result) if not (line == "..." and at and result[at - 1] == "...")]
