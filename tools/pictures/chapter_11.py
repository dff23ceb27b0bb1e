"""11: the loss of one token with its logits on two ranks: three numbers are reduced. Computed here; bytes from the program."""
import math

from said import lines, value
from svg import Picture

LOGITS, TARGET = ((1, 2), (3, 0)), 2


def picture():
    said = lines(11)
    gathered = value(said, r"^logits gathered │ +\S+ +\d+ +(\S+)")
    parallel = value(said, r"^loss parallel +│ +\S+ +\d+ +(\S+)")
    tokens, vocabulary = value(said, r"^loss of (\d+) tokens, vocabulary (\d+)")
    largest = [max(part) for part in LOGITS]
    top = max(largest)
    sums = [sum(math.exp(logit - top) for logit in part) for part in LOGITS]
    width = len(LOGITS[0])
    mine = [part[TARGET - rank * width] if 0 <= TARGET - rank * width < width else 0 for rank, part in enumerate(LOGITS)]
    loss = math.log(sum(sums)) + top - sum(mine)
    p = Picture("Loss on parts of the vocabulary",
                "One token with four logits, two on each rank. Three all-reduces of one number each give both ranks the largest logit, "
                f"the sum of exponentials and the target's logit, and so the loss, {loss:.2f}. The gradient of a rank's own columns "
                "needs nothing more.", 400)
    p.legend(56)
    p.text(250, 56, f"one token; its target is column {TARGET}", 12, kind="soft")
    for j in range(4):
        p.text(252 + j * 70, 84, f"column {j}", 11, "middle")
    p.text(20, 112, "logits", 12.5, bold=True)
    for j in range(4):
        p.box(220 + j * 70, 92, 64, 30, f"r{j // width}", str(LOGITS[j // width][j % width]), 13, bold=j == TARGET)
    rows = (("largest logit", "max", [str(x) for x in largest], str(top)),
            (f"Σ exp(logit - {top})", "sum", [f"{x:.2f}" for x in sums], f"{sum(sums):.2f}"),
            ("the target's logit", "sum", [str(x) for x in mine], str(sum(mine))))
    for at, (name, op, parts, whole) in enumerate(rows):
        y = 140 + at * 42
        p.text(20, y + 20, name, 12.5, bold=True)
        for rank, part in enumerate(parts):
            p.box(220 + rank * 140, y, 134, 30, f"r{rank}", part + (" (not mine)" if at == 2 and TARGET // width != rank else ""), 12)
        p.arrow((496, y + 15), (524, y + 15))
        p.box(524, y, 130, 30, "call", f"all-reduce {op}", 11.5)
        p.arrow((654, y + 15), (682, y + 15))
        p.box(682, y, 58, 30, "plain", whole, 12, bold=True)
    p.text(20, 284, "loss", 12.5, bold=True)
    p.text(220, 284, f"log {sum(sums):.2f} + {top} - {sum(mine)} = {loss:.2f}, the same on both ranks", 12)
    p.text(20, 318, "gradient", 12.5, bold=True)
    for j in range(4):
        g = math.exp(LOGITS[j // width][j % width] - top) / sum(sums) - (j == TARGET)
        p.box(220 + j * 70, 298, 64, 30, f"r{j // width}", f"{g:.2f}", 12)
    p.text(510, 318, "nothing to send", 12)
    p.text(20, 360, f"{tokens} tokens of", 12)
    p.text(20, 378, f"{vocabulary} columns", 12)
    full, part = (int(x.replace(",", "")) for x in (gathered, parallel))
    p.box(220, 346, 330, 14, "r3", round_=1)
    p.text(560, 358, f"gathered: {gathered} B", 11.5)
    p.box(220, 368, 330 * part / full, 14, "r3", round_=1)
    p.text(560, 380, f"parallel: {parallel} B", 11.5)
    return p
