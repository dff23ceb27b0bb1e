"""04: a Linear by columns with f, and by rows with g, with the program's numbers."""
from said import lines, matrix
from svg import Picture


def panel(p, top, name, parts, front, notes):
    """Two lanes from X to Y, and the node at which they meet: f in front, or g behind. parts: a lane's X, W and Y."""
    p.text(20, top, name, 13, bold=True)
    middle = top + 76
    p.box(165 if front else 555, top + 22, 40, 108, "call", "f" if front else "g", 18, bold=True)
    p.box(20 if front else 630, middle - 26, 110, 52, "plain", "X, whole\non both" if front else "Y, whole\non both")
    for rank in range(2):
        y = top + 22 + rank * 62
        x_part, w_part, y_part = parts[rank]
        p.box(245, y, 270, 46, f"r{rank}", f"rank {rank} multiplies by\n{w_part} of W")
        if front:
            p.box(600, y, 140, 46, f"r{rank}", f"rank {rank}: Y\n{y_part}")
        else:
            p.box(20, y, 140, 46, f"r{rank}", f"rank {rank}: X\n{x_part}")
        for start, end in ((205, 245), (515, 600)) if front else ((160, 245), (515, 555)):
            p.arrow((start, y + 14), (end, y + 14), kind=f"l{rank}")
            p.arrow((end, y + 32), (start, y + 32), kind=f"l{rank}")
    start, end = (130, 165) if front else (595, 630)
    p.arrow((start, middle - 9), (end, middle - 9))
    p.arrow((end, middle + 9), (start, middle + 9))
    for at, words in enumerate(notes):
        p.text(20, top + 152 + at * 18, words, 12)


def picture():
    said = lines(4)
    dx, terms = matrix(said, "dX = dY W, by one rank", 2), matrix(said, "dY W, from a rank's own", 3)[1:]
    y, y_terms = matrix(said, "Y, by one rank", 2), matrix(said, "terms of Y, b in the first", 3)[1:]
    p = Picture("A Linear on two ranks: f and g",
                "Upper half: cut by columns of W transposed. f copies X forward and all-reduces its gradient backward. Lower "
                "half: cut by rows. g all-reduces Y forward and passes its gradient on unchanged. Arrows to the right are "
                "forward, arrows to the left are backward.", 476)
    p.text(20, 54, "→ forward   ← backward", 12, kind="soft")
    panel(p, 84, "by columns of Wᵀ: ColwiseParallel",
          (("", "rows 0 1 2", "columns 0 1 2"), ("", "rows 3 4 5", "columns 3 4 5")), True,
          ("f forward: nothing, X is on both.  f backward: an all-reduce, since X fed all six columns.",
           f"dX[0,0]: rank 0 has {terms[0][0]}, rank 1 has {terms[0][4]}, the gradient is their sum {dx[0][0]}."))
    p.line((20, 268), (740, 268), dashed=True)
    panel(p, 292, "by rows of Wᵀ: RowwiseParallel",
          (("columns 0 1", "columns 0 1", ""), ("columns 2 3", "columns 2 3", "")), False,
          (f"g forward: an all-reduce. Y[0,0]: rank 0 has {y_terms[0][0]}, rank 1 has {y_terms[0][6]}, Y is their sum {y[0][0]}.",
           "g backward: nothing, dY is on both."))
    return p
