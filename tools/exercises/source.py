"""An exercise in a chapter's source: what is marked there, and the files made from it.

The part that a learner writes stands between two lines, and may stand in several functions:

      // exercise row_split {
      ...
      // } exercise

What goes with it stands at the end of the same file, each entry on from a word at the start of a comment:

    // Exercise 01 row_split                  the chapter that it belongs to, and its name
    // Task: what to write, and what the caller may count on.
    // Hint: the first thing to think of.
    // Hint: the next; any number of them.
    // Why: what is said to who has passed.
    // Wrong no_all_reduce: what is said to who makes this mistake.
    //   - comm.all_reduce(y).wait();
    // Wrong mean: ...
    //   - comm.all_reduce(y).wait();
    //   + comm.all_reduce(y).wait();
    //   + backend.scale(y, 1.0f / static_cast<float>(comm.size()));

A wrong answer is the solution with lines of it (-) replaced by others (+), anywhere in the marked parts; - lines that follow
each other follow each other there, and stand there once. Nothing is kept twice: the stub, the solution and every wrong
answer are made from this one file. A source has one exercise at the most, so a learner's file takes its place whole.

An exhibit of museum/ is an exercise whose stub is a broken program, titled `// Exhibit 01 checkpoint`. Two more entries:

    // Fault own_end: the name of what is wrong, a word of museum/README.md's table, and what is said to who names it
    //   - right line
    //   + the broken program's
    // Seen 2: how the broken program ends on 2 ranks: each line begins one of those that the check says
    //   | rank 0: last none, pending call 1 all-reduce of 8 bytes on world
"""
import dataclasses
import re
import textwrap
from pathlib import Path

from course_base import Stop

BEGIN = re.compile(r"^\s*// exercise (\w+) \{$")
END = re.compile(r"^\s*// \} exercise$")
TITLE = re.compile(r"^// (Exercise|Exhibit) (\d\d) (\w+)$")
ENTRY = re.compile(r"^// (Task|Hint|Why|(?:Wrong|Fault) \w+|Seen \d): (.*)$")
EDIT = re.compile(r"^//   ([-+])(?: (.*))?$")
LINE = re.compile(r"^//   \| (.*)$")
COMMENT = re.compile(r"^//(?: (.*))?$")


class Fault(Stop):
    """What is wrong with a marked source: file, line, words."""


@dataclasses.dataclass
class Wrong:
    name: str
    says: str
    edits: list                 # of [lines taken out, lines put in]


@dataclasses.dataclass
class Exercise:
    name: str
    number: str                 # of the chapter that it belongs to: "01"; of an exhibit "museum/01"
    path: Path                  # of the marked source
    code: list                  # its lines, without the entries
    parts: list                 # the marked ones: (first line, line after the last), without the markers
    task: str
    hints: list
    why: str
    wrong: list                 # of Wrong
    fault: Wrong = None         # of an exhibit, with which it is the broken program
    seen: dict = dataclasses.field(default_factory=dict)    # of an exhibit: {ranks: [how a line begins]}

    @property
    def folder(self):
        """Of the source, below chapters/: "01_column_row_split". Of an exhibit "museum/01_checkpoint"."""
        return "museum/" * bool(self.fault) + self.path.parent.name


def exercise_in(path):
    """The exercise of a source, or None. Throws Fault."""
    lines = path.read_text(encoding="utf-8").splitlines()
    titles = [i for i, line in enumerate(lines) if TITLE.match(line)]
    code = lines[:titles[0]] if titles else lines
    parts = marked_parts(path, code)
    names = {name for name, _, _ in parts} | {TITLE.match(lines[i])[3] for i in titles}
    if not names:
        return None
    if len(names) > 1 or len(titles) != 1 or not parts:
        raise Fault(f"{path}: wants one exercise, with a marked part and one '// Exercise': there are {len(parts)} parts and "
                    f"{len(titles)} titles, named {', '.join(sorted(names))}")
    entries = read_entries(path, lines, titles[0] + 1)
    task, why = ([e.text for e in entries if e.kind == kind] for kind in ("Task", "Why"))
    if len(task) != 1 or len(why) != 1:
        raise Fault(f"{path}: exercise {names.pop()} wants one Task and one Why")
    kind, number, name = TITLE.match(lines[titles[0]]).groups()
    of_exhibit = [[e for e in entries if e.kind == wanted] for wanted in ("Fault", "Seen")]
    if kind == "Exercise" and any(of_exhibit) or kind == "Exhibit" and (len(of_exhibit[0]) != 1 or not of_exhibit[1]):
        raise Fault(f"{path}: an exhibit wants one Fault and how it is Seen, an exercise neither")
    return Exercise(name, "museum/" * (kind == "Exhibit") + number, path, code, [(begin, end) for _, begin, end in parts], task[0],
                    [e.text for e in entries if e.kind == "Hint"], why[0],
                    [Wrong(e.name, e.text, e.edits) for e in entries if e.kind == "Wrong"],
                    next((Wrong(e.name, e.text, e.edits) for e in of_exhibit[0]), None),
                    {int(e.name): e.edits for e in of_exhibit[1]})


def marked_parts(path, lines):
    """[(name, first line, line after the last)]"""
    parts, name, begin = [], None, 0
    for number, line in enumerate(lines):
        if start := BEGIN.match(line):
            if name:
                raise Fault(f"{path}:{number + 1}: exercise {start[1]} begins inside {name}")
            name, begin = start[1], number + 1
        elif END.match(line):
            if not name:
                raise Fault(f"{path}:{number + 1}: the end of no exercise")
            parts.append((name, begin, number))
            name = None
    if name:
        raise Fault(f"{path}: exercise {name} has no end")
    return parts


@dataclasses.dataclass
class Entry:
    kind: str
    name: str
    text: str
    edits: list


def read_entries(path, lines, begin):
    entries = []
    for number in range(begin, len(lines)):
        comment = COMMENT.match(lines[number])
        if not comment:
            raise Fault(f"{path}:{number + 1}: the entries of an exercise are the end of its file")
        if start := ENTRY.match(lines[number]):
            kind, _, name = start[1].partition(" ")
            entries.append(Entry(kind, name, start[2], []))
        elif not entries:
            raise Fault(f"{path}:{number + 1}: neither Task, Hint, Why nor Wrong")
        elif (edit := EDIT.match(lines[number])) and entries[-1].kind in ("Wrong", "Fault"):
            add_edit(entries[-1].edits, edit[1], edit[2] or "")
        elif (line := LINE.match(lines[number])) and entries[-1].kind == "Seen":
            entries[-1].edits.append(line[1])
        else:
            entries[-1].text += " " + (comment[1] or "").strip()
    return entries


def add_edit(edits, sign, line):
    """A - line after a + line begins the next edit."""
    if not edits or (sign == "-" and edits[-1][1]):
        edits.append([[], []])
    edits[-1]["-+".index(sign)].append(line)


# ---- the files made from it ------------------------------------------------------------------------------------------

def stub(exercise):
    """The file that a learner starts with."""
    if exercise.fault:
        return answer(exercise, exercise.fault)
    return rewritten(exercise, lambda lines: [indent(lines) + f'not_written("{exercise.name}");'])


def solution(exercise):
    return rewritten(exercise, lambda lines: lines)


def shown(exercise):
    """Each marked part of the solution, with its markers and the first line of its function: a learner sees where it goes."""
    for begin, end in exercise.parts:
        head = max(i for i in range(begin) if re.match(r"\S", exercise.code[i]) and exercise.code[i] != "}")
        blank = indent(exercise.code[begin - 1:])
        before = [blank + "..."] if head < begin - 2 else []
        after = ["}"] if exercise.code[end + 1] == "}" else [blank + "...", "}"]
        yield "\n".join([exercise.code[head], *before, *exercise.code[begin - 1:end + 1], *after])


def answer(exercise, wrong):
    """The solution with a wrong answer's edits."""
    left = list(wrong.edits)

    def edited(lines):
        for edit in list(left):
            out, put = edit
            at = places(lines, out)
            if len(at) > 1:
                raise Fault(f"{exercise.path}: wrong {wrong.name}: '{out[0].strip()}' stands {len(at)} times in a marked part")
            if at:
                blank = indent(lines[at[0]:])
                lines = lines[:at[0]] + [blank + new if new else "" for new in put] + lines[at[0] + len(out):]
                left.remove(edit)
        return lines
    text = rewritten(exercise, edited)
    if left or not wrong.edits:
        what = left[0][0][0].strip() if left and left[0][0] else "nothing"
        raise Fault(f"{exercise.path}: wrong {wrong.name}: '{what}' does not stand in a marked part")
    return text


def wrapped(text, blank="  "):
    """What an entry says, for a terminal."""
    return textwrap.fill(text, 100, initial_indent=blank, subsequent_indent=blank)


def indent(lines):
    return re.match(r"\s*", lines[0] if lines else "")[0]


def places(lines, block):
    stripped, wanted = [line.strip() for line in lines], [line.strip() for line in block]
    return [i for i in range(len(lines) - len(wanted) + 1) if wanted and stripped[i:i + len(wanted)] == wanted]


def rewritten(exercise, part):
    """The code with each marked part replaced by part(lines); the markers stay."""
    out, done = [], 0
    for begin, end in exercise.parts:
        out += exercise.code[done:begin] + part(exercise.code[begin:end])
        done = end
    return "\n".join(out + exercise.code[done:]).rstrip() + "\n"
