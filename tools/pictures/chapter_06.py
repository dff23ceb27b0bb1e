"""06: which rank has which heads, for the program's 12 query heads and 3 key/value heads."""
import re

from said import lines, value
from svg import Picture


def chunk(n, ranks, rank):
    """As torch.chunk: (first, behind the last)."""
    size = -(-n // ranks)
    return min(n, rank * size), min(n, (rank + 1) * size)


def picture():
    said = lines(6)
    heads, groups, size = map(int, value(said, r"(\d+) query heads, (\d+) key/value heads of (\d+)"))
    each, left, width = heads // groups, 170, 45
    p = Picture("Heads go to ranks by key/value group",
                f"{heads} query heads read {groups} key/value heads, {each} each. On two ranks the first has two groups and the second "
                "one; on four ranks the last has none. An even cut of the rows of k_proj would go through the middle of a head.", 380)
    p.legend(56, 3)
    p.text(left + 204, 56, "3 groups on 4 ranks: rank 3 holds none", 12, kind="soft")
    for block, ranks in enumerate((2, 4)):
        top = 82 + block * 112
        p.text(20, top + 46, f"{ranks} ranks", 13, bold=True)
        p.text(left - 8, top + 20, "key/value", 11, "end", kind="soft")
        p.text(left - 8, top + 60, "query", 11, "end", kind="soft")
        for rank in range(ranks):
            first, end = chunk(groups, ranks, rank)
            if ranks == 2:                       # the program says the same
                told = value(said, rf"^ +{rank}  heads? (\d+(?: to \d+)?) ")
                numbers = [int(n) for n in re.findall(r"\d+", told)]
                if (numbers[0], numbers[-1] + 1) != (first, end):
                    raise ValueError(f"rank {rank} holds key/value heads {told}, the picture says {first} to {end - 1}")
            for group in range(first, end):
                x = left + group * each * width
                p.box(x + 2, top, each * width - 4, 30, f"r{rank}", f"k and v head {group}, on rank {rank}", 11)
                for head in range(group * each, (group + 1) * each):
                    p.box(left + head * width + 3, top + 42, width - 6, 28, f"r{rank}", f"q {head}", 11)
                    p.line((left + (head + 0.5) * width, top + 30), (left + (head + 0.5) * width, top + 42), kind=f"l{rank}")
    top, cell = 306, 45
    p.text(20, top + 20, "k_proj's rows", 12, bold=True)
    for row in range(groups * size):
        p.box(left + row * cell, top, cell, 28, "plain", f"head {row // size}"[0] + f"{row // size}", 11, 0)
    cut = groups * size // 2
    p.line((left + cut * cell, top - 8), (left + cut * cell, top + 40), kind="l1 thick")
    p.text(20, top + 58, f"{groups * size} rows are {groups} heads of {size}. An even cut, {cut} and {cut}, goes through head {cut // size}: "
           "so a cut falls between blocks only.", 11.5)
    return p
