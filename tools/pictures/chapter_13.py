"""13: the grid of two axes, and who owns which rows of a weight; bytes of both axes from the program."""
from said import below, lines, value
from svg import Picture

DP, TP, ROWS = 2, 2, 8


def picture():
    said = below(lines(13), "one step, one rank", 6)
    sent = {axis: sum(int(value([line], r"│ +\d+ +(\S+)").replace(",", "")) for line in said if line.startswith(axis + " "))
            for axis in ("dp", "tp")}
    p = Picture("Two axes: tensor parallelism inside, FSDP across",
                "Left: ranks 0 and 1 are one tp group and read the same samples, ranks 2 and 3 the other; 0 and 2, 1 and 3 are the dp groups. "
                "Right: the rows of a weight of 8 rows. tp cuts first: rows 0 to 3 belong to tp 0. FSDP cuts that piece over dp, so rank 0 "
                "owns rows 0 and 1, rank 2 rows 2 and 3, and the two gather all four to compute.", 392)
    p.text(20, 62, "the grid", 13, bold=True)
    for tp in range(TP):
        p.text(136 + tp * 130, 92, f"tp {tp}", 12, "middle")
    for dp in range(DP):
        y = 110 + dp * 122
        p.box(82, y - 6, 240, 72, "line")
        p.text(22, y + 34, f"dp {dp}", 12)
        for tp in range(TP):
            p.box(90 + tp * 130, y, 94, 60, f"r{dp * TP + tp}", f"rank {dp * TP + tp}", 14, bold=True)
        p.text(366, y + 34, " ".join(str(n) for n in range(dp, 8, DP)), 12, "middle")
    p.text(366, 92, "samples", 12, "middle")
    for tp in range(TP):
        x = 84 + tp * 130
        p.line((x, 98), (x + 106, 98), (x + 106, 310), (x, 310), (x, 98), dashed=True)
    p.text(82, 328, "— a tp group   - - a dp group", 11, kind="soft")
    p.text(20, 352, f"tp, along a row: activations, {sent['tp']:,} bytes a step", 12)
    p.text(20, 374, f"dp, along a column: weights, {sent['dp']:,} bytes a step", 12)
    p.text(440, 62, "a weight of 8 rows, ColwiseParallel", 13, bold=True)
    for x, words in ((480, "row"), (545, "tp cuts"), (632, "FSDP cuts"), (708, "owner")):
        p.text(x, 92, words, 11, "middle", kind="soft")
    half, quarter = ROWS // TP, ROWS // TP // DP
    for row in range(ROWS):
        tp, dp = row // half, row % half // quarter
        y = 102 + row * 26 + (8 if tp else 0)
        p.text(480, y + 17, str(row), 12, "middle")
        p.box(594, y, 76, 24, f"r{dp * TP + tp}", f"dp {dp}", 11, 1)
        p.text(708, y + 17, f"rank {dp * TP + tp}", 12, "middle")
    for tp in range(TP):
        y = 102 + tp * half * 26 + (8 if tp else 0)
        p.split_box(508, y, 74, half * 26 - 2, (tp, TP + tp))
        p.text(545, y + 46, f"tp {tp}:", 11, "middle")
        p.text(545, y + 62, f"ranks {tp},{TP + tp}", 11, "middle")
    p.text(440, 352, "Before a layer ranks 0 and 2 gather", 12)
    p.text(440, 374, "rows 0 1 2 3, ranks 1 and 3 rows 4 to 7.", 12)
    return p
