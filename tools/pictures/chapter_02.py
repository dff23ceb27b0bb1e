"""02: the steps of a ring all-reduce on three ranks, computed by playing them."""
from svg import Picture

RANKS, LETTERS = 3, "abc"


def steps():
    """[(sums, sent)]: sums[rank][piece] is the set of ranks in it, sent[rank] the piece that goes out next, or None."""
    sums, result = [[{rank} for _ in range(RANKS)] for rank in range(RANKS)], []
    for step in range(2 * (RANKS - 1)):
        gather = step >= RANKS - 1
        sent = [(rank + (1 if gather else 0) - step % (RANKS - 1)) % RANKS for rank in range(RANKS)]
        result.append(([[set(piece) for piece in row] for row in sums], sent))
        moving = [set(sums[rank][sent[rank]]) for rank in range(RANKS)]
        for rank in range(RANKS):
            right = (rank + 1) % RANKS
            sums[right][sent[rank]] = moving[rank] | (set() if gather else sums[right][sent[rank]])
    return result + [([[set(piece) for piece in row] for row in sums], [None] * RANKS)]


def picture():
    p = Picture("A ring all-reduce on three ranks",
                "Three ranks in a circle, each with the pieces a, b and c. In each step a rank sends one piece to its right "
                "neighbour, which adds it: after two steps each rank has one finished piece, a reduce-scatter. Two more "
                "steps carry the finished pieces round, an all-gather.", 340)
    p.text(20, 54, "A cell says whose numbers are in the sum; the one in a frame goes out next, along the arrow.", 12,
           kind="soft")
    cell, gap, left = 40, 30, 20
    for at, (sums, sent) in enumerate(steps()):
        x = left + at * (3 * cell + gap)
        p.text(x + 1.5 * cell, 108, "start" if at == 0 else f"step {at}", 12, "middle", bold=True)
        for piece in range(RANKS):
            p.text(x + (piece + 0.5) * cell, 126, LETTERS[piece], 12, "middle")
        for rank in range(RANKS):
            y = 134 + rank * 58
            for piece in range(RANKS):
                who = tuple(sorted(sums[rank][piece]))
                p.split_box(x + piece * cell, y, cell, 32, who, "+".join(map(str, who)), 11)
            if sent[rank] is not None:
                to, piece = (rank + 1) % RANKS, sent[rank]
                p.box(x + piece * cell + 2, y + 2, cell - 4, 28, f"l{rank} thick")
                p.arrow((x + 3 * cell + 2, y + 16), (x + 3 * cell + gap - 2, 150 + to * 58), kind=f"l{rank}")
    width = 3 * cell
    for first, last, words in ((1, 2, "reduce-scatter: what comes is added"), (3, 4, "all-gather: what comes is kept")):
        x = left + first * (width + gap)
        p.box(x - gap + 4, 70, (last - first + 1) * (width + gap) - 6, 22, "call", words, 11)
    p.legend(320, 3)
    p.text(330, 320, "2·(3-1) = 4 messages of a third each", 12)
    return p
