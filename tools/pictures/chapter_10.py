"""10: one step under the plan `sequence`, call by call; the number of calls must be the one that the program counts."""
from said import lines, value
from svg import Picture

LAYERS = 2


def forward():
    """What a step does: ("AG" | "RS", what for) is a call over tp, anything else work on both ranks."""
    events = ["embed", ("RS", "x")]
    for _ in range(LAYERS):
        events += [("AG", "x"), "attn", ("RS", "y"), ("AG", "x"), "MLP", ("RS", "y")]
    return events + [("AG", "x"), "head", ("AG", "logits"), "loss"]


def backward():
    events = ["loss", "head", ("RS", "dx")]
    for _ in range(LAYERS):
        events += [("AG", "dy"), "MLP", ("RS", "dx"), ("AG", "dy"), "attn", ("RS", "dx")]
    return events + [("AG", "dx"), "embed"]


def strip(p, y, events):
    calls = sum(isinstance(event, tuple) for event in events)
    width = (720 - 22 * calls) / (len(events) - calls)
    x = 20
    for event in events:
        if isinstance(event, tuple):
            p.box(x + 2, y - 4, 18, 80, "call", "\n".join(event[0]), 11, bold=True)
            x += 22
        else:
            for rank in range(2):
                p.box(x + 1, y + rank * 38, width - 2, 34, f"r{rank}", event, 11)
            x += width


def picture():
    said = lines(10)
    p = Picture("A step under the plan sequence, on two ranks",
                "Time goes to the right. Both ranks do the same work on their parts; between works stand collectives: AG is an "
                "all-gather, RS a reduce-scatter. After backward one all-reduce sums the norms' gradients and one adds up the "
                "gradient's norm; then each rank's AdamW moves its own parts.", 372)
    p.legend(56)
    p.text(250, 56, "AG all-gather   RS reduce-scatter", 12, kind="soft")
    events = forward() + backward()
    for kind, name in (("AG", "all-gather"), ("RS", "reduce-scatter")):
        counted = int(value(said, rf"^tp {name} +│ +(\d+) "))
        drawn = sum(event[0] == kind for event in events if isinstance(event, tuple))
        if counted != drawn:
            raise ValueError(f"{drawn} {kind} in the picture, the program counts {counted}")
    p.text(20, 86, "forward", 13, bold=True)
    strip(p, 98, forward())
    p.text(20, 200, "backward", 13, bold=True)
    strip(p, 212, backward())
    p.text(20, 316, "once a step", 13, bold=True)
    sent = value(said, r"^tp all-reduce +│ +\d+ +(\S+)")
    for x, width, kind, words in ((20, 250, "call", f"all-reduce: norms' gradients,\n{sent} bytes in one call"),
                                  (284, 190, "call", "all-reduce: |g|²,\none number"),
                                  (488, 122, "r0", "rank 0: AdamW\non its parts"), (618, 122, "r1", "rank 1: AdamW\non its parts")):
        p.box(x, 324, width, 38, kind, words, 11)
    return p
