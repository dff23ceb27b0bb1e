"""08: pattern → style → module, from the plan and the tree that the program prints."""
import re
from fnmatch import fnmatchcase

from said import below, lines
from svg import Picture


def picture():
    said = lines(8)
    plan = [re.split(r"\s{2,}", line) for line in below(said, "module ", 11)[1:]]
    tree, path = [], []
    for line in below(said, "DecoderLayer", 40):
        found = re.match(r"( +)(·? ?)(\S+)(?:  (\S.*))?", line)
        if not found:
            break
        depth = len(found[1]) // 2
        if found[2]:
            tree[-1][2] = re.sub(r"^\S+ ", "", f"{found[3]} {line.split(found[3], 1)[1].strip()}")
            continue
        path = path[:depth - 1] + [found[3]]
        tree.append([".".join(path), depth, ""])
    p = Picture("A plan is data: pattern, style, module",
                "Left: the ten lines of the plan sequence, each a pattern of names and a style. Right: the modules of a decoder layer. "
                "A line joins a pattern and each module that it matches, beside it is how the module's weight lies on two ranks.", 396)
    p.text(20, 58, "pattern", 12, bold=True)
    p.text(196, 58, "style", 12, bold=True)
    p.text(470, 58, "module, and its weight on rank 0 of 2", 12, bold=True)
    colour = {"SequenceParallel": 0, "PrepareModuleInput": 1, "ColwiseParallel": 2, "RowwiseParallel": 3}
    places = {}
    for at, (name, depth, weight) in enumerate(tree):
        y = 84 + at * 27
        places[name] = y
        p.text(470 + (depth - 1) * 14, y, name.split(".")[-1], 11.5)
        if weight:
            place, shapes = weight.split("  ")
            p.text(742, y, f"{place}  {shapes}" if depth > 1 else place, 10, "end", kind="soft")
    for at, (pattern, style) in enumerate(plan):
        y = 84 + at * 30
        kind = colour[style.partition("(")[0]]
        p.text(20, y, pattern, 11.5)
        p.box(192, y - 13, 222, 20, f"r{kind}", style, 10.5)
        for name, to in places.items():
            if len(name.split(".")) == len(pattern.split(".")) and fnmatchcase(name, pattern):
                indent = 14 * name.count(".")
                p.arrow((414, y - 3), (464 + indent, to - 4), kind=f"l{kind}")
    return p
