"""01: the two ways to cut Y = X W on two ranks, with the program's numbers."""
from said import lines, matrix
from svg import Picture


def picture():
    said = lines(1)
    x, w = matrix(said, "X", 3), matrix(said, "W", 4)
    finished = matrix(said, "X times these columns", 4)[1:]
    terms = matrix(said, "their products", 4)[1:]
    y = matrix(said, "Y = X W, by one rank", 3)
    p = Picture("Two ways to cut Y = X W on two ranks",
                "Left: W is cut by columns, each rank has all of X and makes three finished columns of Y, which an all-gather "
                "joins. Right: W is cut by rows and X by columns, each rank makes a term of every number of Y, and an "
                f"all-reduce adds them: {terms[0][0]} + {terms[0][6]} = {y[0][0]}.", 404)
    p.legend(56)
    p.text(195, 56, "both hold it: grey", 12, kind="soft")

    p.text(20, 88, "by columns of W", 13, bold=True)
    p.text(132, 112, "W", 12, bold=True)
    p.matrix(150, 98, w, lambda i, j: j // 3)
    p.text(20, 210, "X", 12, bold=True)
    p.matrix(38, 216, x, lambda i, j: None)
    p.matrix(150, 216, finished, lambda i, j: j // 3)
    p.text(306, 236, "Y", 12, bold=True)
    p.text(20, 318, f"Rank 0 has {y[0][0]}: finished.", 12)
    p.text(20, 338, "What each lacks are the other's", 12)
    p.text(20, 358, "columns.", 12)
    p.text(20, 382, "all-gather: the pieces are joined", 12, bold=True)

    p.line((340, 78), (340, 385), dashed=True)
    p.text(360, 88, "by rows of W", 13, bold=True)
    p.text(472, 112, "W", 12, bold=True)
    p.matrix(490, 98, w, lambda i, j: i // 2)
    p.text(360, 210, "X", 12, bold=True)
    p.matrix(378, 216, x, lambda i, j: j // 2)
    p.matrix(490, 216, [row[:6] for row in terms], lambda i, j: 0)
    p.text(648, 256, "+", 14, bold=True)
    p.matrix(490, 300, [row[6:] for row in terms], lambda i, j: 1)
    p.text(648, 340, "= Y", 14, bold=True)
    p.text(360, 318, f"{terms[0][0]} + {terms[0][6]} = {y[0][0]}", 12)
    p.text(360, 338, "Neither is", 12)
    p.text(360, 358, "the answer.", 12)
    p.text(360, 388, "all-reduce: the terms are added", 12, bold=True)
    return p
