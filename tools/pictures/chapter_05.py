"""05: an MLP by columns, then by rows: one all-reduce each way, with the program's numbers."""
from said import lines, value
from svg import Picture


def picture():
    said = lines(5)
    terms = value(said, r"what each rank has alone: (\S+) (\S+)")
    total = value(said, r"their sum: (\S+)")
    shape, middle = value(said, r"^x (\S+), (\d+) features in between")
    half = int(middle) // 2
    p = Picture("An MLP on two ranks: column, then row",
                "x is on both ranks. Each rank computes half of the features in between, applies the activation to them, and "
                "multiplies them by its part of fc2, with nothing sent in between. One all-reduce at the end of forward adds the "
                "terms of y, one at the end of backward adds the terms of the gradient of x.", 322)
    p.text(20, 54, "→ forward   ← backward", 12, kind="soft")
    p.box(20, 96, 70, 140, "plain", f"x\n{shape}\non both", 11)
    p.box(118, 96, 34, 140, "call", "f", 16, bold=True)
    p.box(566, 96, 34, 140, "call", "g", 16, bold=True)
    p.box(650, 96, 90, 140, "plain", f"y\n{shape}\ny[0,0,0] =\n{total}", 11)
    p.arrow((90, 156), (118, 156))
    p.arrow((118, 176), (90, 176))
    p.arrow((600, 156), (650, 156))
    p.arrow((650, 176), (600, 176))
    for rank in range(2):
        y = 96 + rank * 84
        first, last = rank * half, rank * half + half - 1
        p.box(190, y, 122, 56, f"r{rank}", f"fc1\nrows {first}..{last}", 12)
        p.box(336, y, 52, 56, f"r{rank}", "gelu", 12)
        p.box(412, y, 122, 56, f"r{rank}", f"fc2\ncolumns {first}..{last}", 12)
        p.text(171, y - 6, f"rank {rank}", 11, kind="soft")
        for start, end in ((152, 190), (312, 336), (388, 412), (534, 566)):
            p.arrow((start, y + 18), (end, y + 18), kind=f"l{rank}")
            p.arrow((end, y + 38), (start, y + 38), kind=f"l{rank}")
    p.text(362, 170, "nothing is sent in between", 11.5, "middle", bold=True)
    p.text(20, 272, "f  forward: nothing.  backward: all-reduce of dx", 12)
    p.text(20, 294, f"g  forward: all-reduce of y, {terms[0]} on rank 0 and {terms[1]} on rank 1 make {total}.  backward: nothing", 12)
    return p
