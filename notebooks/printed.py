"""Reads what chapters 01 to 03 draw with letters: numbers, and the ranks that hold them. Rows of (word, [ranks]), as draw.tensors takes them."""
import re


def whole(lines, ranks):
    """A matrix that each of these ranks holds."""
    return [[(word, ranks) for word in line.split()] for line in lines]


def side_by_side(lines):
    """Pieces of columns, under a line `rank 0 | rank 1` (or `+`, where they are to be added)."""
    return [[(word, [rank]) for rank, part in enumerate(re.split(r"[|+]", line)) for word in part.split()] for line in lines[1:]]


def one_of(rank, pieces):
    """The piece of one rank."""
    return [[(word, ranks) for word, ranks in row if ranks == [rank]] for row in pieces]


def below(lines):
    """Pieces of rows, each behind its `rank 0`."""
    rows, rank = [], 0
    for line in lines:
        named = re.match(r"\s*rank (\d+)", line)
        rank = int(named[1]) if named else rank
        rows.append([(word, [rank]) for word in line[named.end() if named else 0:].split()])
    return rows


def before_and_after(run, name, ranks):
    """A collective of chapter 02, from lines such as `  rank 0   10 11   ->   10 11 20 21`: rank r brings (r+1)·10 and what follows."""
    of_all = name in ("reduce-scatter", "all-reduce")
    sides = [line.split("rank")[1][2:].split("->") for line in run.block(name + ":")]
    before, after = ([[(word, [int(word) // 10 - 1]) for word in side[i].split()] for side in sides] for i in (0, 1))
    return {"before": before, name: [[(word, list(range(ranks))) for word, _ in row] for row in after] if of_all else after}


def groups(run):
    """The groups of each axis of chapter 03's meshes, as printed."""
    return [line.strip() for line in run.text.splitlines() if re.match(r"\s+[dt]p groups?:", line)]


def mesh(run, heading):
    """A mesh of chapter 03: its ranks in rows, under the names of the axis."""
    rows = [re.sub(r"^\s*dp \d+", "", line).split() for line in run.block(heading) if line.strip() not in groups(run)]
    return [[(rank, [int(rank)]) for rank in row] for row in rows]


def placements(run, heading):
    """{placement: rows} of chapter 03's drawings that stand side by side under one line. `+` marks a number that is a sum of terms."""
    header = run.line(heading)
    starts = [found.start() for found in re.finditer(r"\S+", header)] + [None]
    drawn = {}
    for begin, end in zip(starts, starts[1:]):
        rows = [line[begin:end].split() for line in run.block(heading)]
        drawn[header[begin:end].strip()] = [[("+" if "+" in word else "", [int(rank) for rank in re.split("[,+]", word)]) for word in row]
                                            for row in rows if row and "holds" not in row]
    return drawn


def transitions(run, heading):
    """Of a table of chapter 03: {change: {forward: bytes, backward: bytes}}, and {change: (call forward, call backward)}."""
    sent, calls = {}, {}
    for change, gradient, forward, backward, measured, _ in run.table(heading):
        label = f"{change}, gradient {gradient}" if change in sent else change
        sent[label] = dict(zip(("forward", "backward"), map(int, measured.split("+"))))
        calls[label] = forward, backward
    return sent, calls
