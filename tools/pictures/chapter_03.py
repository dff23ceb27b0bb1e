"""03: a mesh of 2 × 2 ranks, and a tensor of 5 × 4 numbers under six placements, as the program draws them."""
import re

from said import below, lines
from svg import Picture


def grids(said):
    """{"[S(0),R]": rows of words such as "0", "0,1" or "0+2"} of the 2 × 2 mesh."""
    section = said[next(at for at, line in enumerate(said) if line.startswith("2. Which ranks")):]
    mesh = section[next(at for at, line in enumerate(section) if line == "dp 2 × tp 2"):]
    names = re.findall(r"\[\S+\]", mesh[2])
    starts = [mesh[2].index(name) for name in names]
    rows = {name: [] for name in names}
    for line in mesh[3:8]:
        for name, begin, end in zip(names, starts, starts[1:] + [None]):
            rows[name].append(line[begin:end].split())
    return rows


MEANING = {"[S(0),R]": "dp cuts rows, tp copies", "[R,S(0)]": "dp copies, tp cuts rows", "[S(0),S(1)]": "dp rows, tp columns",
           "[S(1),S(0)]": "dp columns, tp rows", "[S(0),S(0)]": "rows twice, dp first", "[P,S(0)]": "terms on dp, tp cuts rows"}


def picture():
    said = lines(3)
    grid = [line.split()[2:] for line in below(said, "dp 2 × tp 2", 3)[1:]]
    p = Picture("Four ranks in a grid, and who holds each number of a tensor [5,4]",
                "Left: the mesh, dp 2 by tp 2, ranks 0 and 1 above ranks 2 and 3. Right: the same tensor under six pairs of "
                "placements. A cell names the ranks that hold the number; 0,1 is a copy on both, 0+2 a term on each.", 400)
    p.text(20, 70, "the mesh", 13, bold=True)
    for column in range(2):
        p.text(105 + column * 64, 106, f"tp {column}", 12, "middle")
    for row in range(2):
        p.text(22, 144 + row * 64, f"dp {row}", 12)
        for column, rank in enumerate(grid[row]):
            p.box(75 + column * 64, 116 + row * 64, 56, 48, f"r{rank}", rank, 16, bold=True)
    for at, words in enumerate(["tp groups: its rows,", "  0 1 and 2 3", "dp groups: its columns,", "  0 2 and 1 3"]):
        p.text(20, 272 + at * 20, words, 12)
    p.text(20, 366, "0,1  a copy on both", 12, kind="soft")
    p.text(20, 386, "0+2  a term on each", 12, kind="soft")
    for at, (name, rows) in enumerate(grids(said).items()):
        x, y = 232 + at % 3 * 174, 62 + at // 3 * 172
        p.text(x, y + 8, name, 13, bold=True)
        p.matrix(x, y + 16, rows, lambda i, j, rows=rows: tuple(int(r) for r in re.findall(r"\d", rows[i][j])), 36, 22, 11)
        p.text(x, y + 144, MEANING[name], 10.5, kind="soft")
    return p
