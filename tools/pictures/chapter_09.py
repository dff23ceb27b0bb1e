"""09: one training step of the whole Llama, with the sizes and losses that the program says."""
import math

from said import lines, value
from svg import Picture


def picture():
    said = lines(9)
    vocabulary, hidden, layers = map(int, value(said, r"vocabulary (\d+), hidden (\d+), .* (\d+) layers"))
    batch, tokens, steps = map(int, value(said, r"^batch (\d+) × (\d+) tokens, (\d+) steps"))
    before, after = value(said, r"before step 1: (\S+)"), value(said, rf"after step {steps}: (\S+)")
    x = f"[{batch},{tokens},{hidden}]"
    p = Picture("One step of training, on one rank",
                f"Text becomes ids of shape {batch} by {tokens}; embedding, {layers} layers, norm and head make logits; the loss compares "
                "each with the next id. Backward goes the same way back, gradients are clipped, AdamW moves the weights, and the "
                "next batch comes.", 372)
    p.text(20, 54, "→ forward, with shapes   ← backward, gradients of the same shapes", 12, kind="soft")
    stages = (("ids", f"[{batch},{tokens}]", 78), ("embed_\ntokens", x, 92), (f"layers.0\n.. {layers - 1}", x, 104),
              ("norm", x, 70), ("lm_head", f"[{batch},{tokens},{vocabulary}]", 92), ("loss", "one number", 84))
    left = 20
    places = []
    for at, (name, shape, width) in enumerate(stages):
        p.box(left, 84, width, 66, "r2" if 0 < at < 5 else "plain", name, 12, bold=True)
        p.text(left + width / 2, 170, shape, 11, "middle", kind="soft")
        places.append((left, left + width))
        left += width + 40
    for at, ((_, start), (end, _)) in enumerate(zip(places, places[1:])):
        p.arrow((start, 106), (end, 106))
        if at > 0:
            p.arrow((end, 130), (start, 130))
    p.text(20, 216, "the label of a token is the next token", 12, bold=True)
    for at, word in enumerate("A rank has a part".split()):
        p.box(20 + at * 62, 226, 58, 24, "r0" if at < 4 else "plain", word, 11)
        p.box(20 + at * 62, 254, 58, 24, "r1" if at > 0 else "plain", word, 11)
        if 0 < at:
            p.line((20 + at * 62 - 6, 248), (20 + at * 62 + 8, 256))
    p.text(336, 242, "input", 12)
    p.text(336, 270, "label", 12)
    p.text(430, 216, "and then, once a step", 12, bold=True)
    for at, (name, more) in enumerate((("clip", "norm ≤ 1"), ("AdamW", "rate n-1"), ("next", "batch n"))):
        p.box(430 + at * 106, 226, 82, 52, "call", f"{name}\n{more}", 11.5)
        if at:
            p.arrow((430 + at * 106 - 24, 252), (430 + at * 106, 252))
    # Held-out losses on a scale: what knows nothing has ln V.
    low, high, x0, x1, y = 3.5, 7.0, 150, 720, 330

    def place(loss):
        return x0 + (loss - low) / (high - low) * (x1 - x0)

    p.text(20, y + 4, "held-out loss", 12, bold=True)
    p.line((x0, y), (x1, y))
    for loss, words, above in ((float(before), f"before: {before}", True), (float(after), f"after {steps} steps: {after}", True),
                               (math.log(vocabulary), f"ln {vocabulary} = {math.log(vocabulary):.3f}", False)):
        p.box(place(loss) - 3, y - 7, 6, 14, "s0" if above else "s1", round_=1)
        p.text(place(loss) + (24 if above else -24), y - 13 if above else y + 22, words, 12, "middle")
    return p
