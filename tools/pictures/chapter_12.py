"""12: the parameters that one rank holds while a step runs: FSDP on 4 ranks, the article's model, by the rules of fully_shard.hpp."""
from said import lines, value
from svg import Picture

V, E, I, LAYERS, H, K, RANKS = 50000, 768, 3072, 12, 12, 3, 4
D = E // H
LAYER = E * (2 * H * D + 2 * K * D + 3 * I + 2)
ROOT = E * (2 * V + 1)
MIB = 4 / 2**20


def events():
    """[(name, MiB held above the own part, collective)], in order. While a layer computes, the next one's buffer is there."""
    root, layer = ROOT * MIB, LAYER * MIB
    there_and_next = lambda last: root + layer * (1 if last else 2)  # noqa: E731
    steps = [("root", root, "AG")]
    for n in range(LAYERS):
        steps += [(f"{n}", there_and_next(n == LAYERS - 1), "AG"), ("", there_and_next(n == LAYERS - 1) - layer, "")]
    for n in reversed(range(LAYERS)):
        steps += [(f"{n}", there_and_next(n == 0), "AG"), ("", there_and_next(n == 0) - layer, "RS")]
    return steps + [("", 0, "RS")]


def same_rule_as_the_program():
    """2L + 1 all-gathers and L + 1 reduce-scatters is what the program counts for `tiny`, which has 2 layers."""
    for name, calls in (("all-gather", 2 * 2 + 1), ("reduce-scatter", 2 + 1)):
        if int(value(lines(12), rf"^dp {name} +│ +(\d+) ")) != calls:
            raise ValueError(f"the program no longer makes {calls} {name} calls with 2 layers")


def picture():
    same_rule_as_the_program()
    whole = (LAYERS * LAYER + ROOT) * MIB
    own, root, layer = whole / RANKS, ROOT * MIB, LAYER * MIB
    p = Picture("FSDP: what a rank holds of the parameters, while a step runs",
                f"The article's model, {LAYERS} layers on {RANKS} ranks. A rank owns {own:.0f} MiB at all times. The root, {root:.0f} MiB, is gathered "
                f"at the start and kept until its backward is done; each layer, {layer:.0f} MiB, is gathered while the one before it "
                f"computes, used and forgotten, forward and again backward. Plain data parallelism holds {whole:.0f} MiB all the time.", 400)
    p.text(20, 54, f"the article's model: {LAYERS} layers of {layer:.1f} MiB, a root of {root:.0f} MiB (embedding, last norm, head), {RANKS} ranks",
           12, kind="soft")
    left, right, bottom, top, most = 110, 735, 330, 92, 720

    def height(mib):
        return bottom - mib / most * (bottom - top)

    steps = events()
    width = (right - left) / (len(steps) + 1)
    for mib in (0, 200, 400, 600):
        p.text(left - 8, height(mib) + 4, f"{mib}", 11, "end")
        p.line((left - 4, height(mib)), (left, height(mib)))
    p.text(20, height(700) + 4, "MiB", 11)
    p.box(left, height(own), right - left, bottom - height(own), "r0", round_=0)
    p.box(left + width, height(own + root), (len(steps) - 1) * width, height(own) - height(own + root), "r1", round_=0)
    p.text(left + width + 10, height(own) + 24, f"own part: {own:.0f} MiB", 11.5)
    p.text(left + width + 10, height(own + root) + 30, f"the root, gathered: {root:.0f} MiB", 11.5)
    for at, (name, held, call) in enumerate(steps):
        x = left + (at + 1) * width
        if held > root:
            p.box(x, height(own + held), width, height(own + root) - height(own + held), "r2", round_=0)
    p.line((left, height(whole)), (right, height(whole)), dashed=True)
    p.text(right, height(whole) - 7, f"plain data parallelism: {whole:.0f} MiB, always", 11.5, "end")
    middle = left + (1 + 2 * LAYERS) * width + width
    p.text(left + 8, height(own + root + 2 * layer) - 8, f"a layer, the next on its way: {layer:.0f} MiB each", 11.5)
    p.line((middle, 84 + 30), (middle, bottom + 8), dashed=True)
    p.text((left + middle) / 2, bottom + 20, f"forward: {LAYERS + 1} all-gathers", 12, "middle", bold=True)
    p.text((middle + right) / 2, bottom + 20, f"backward: {LAYERS} all-gathers, {LAYERS + 1} reduce-scatters", 11.5, "middle", bold=True)
    p.text(20, bottom + 52, f"At the most {own + root + 2 * layer:.0f} MiB. AdamW's two moments are never gathered: {2 * own:.0f} MiB a rank, where plain "
           f"has {2 * whole:.0f}.", 11.5)
    return p
