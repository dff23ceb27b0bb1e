"""What a training left: its losses, in words and as a curve."""
import contextlib
import json
import math

from course_base import short


def read_metrics(path):
    """(steps, validations), each a list of (step, loss). A line cut short is passed over; a loss that is no number is nan."""
    points = {"step": {}, "validation": {}}        # a run that was killed and resumed takes some steps twice: the later counts
    with contextlib.suppress(OSError):
        for line in path.read_text(encoding="utf-8").splitlines():
            with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError):
                row = json.loads(line)
                loss = row.get("loss")
                points[row["kind"]][int(row["step"])] = math.nan if loss is None else float(loss)
    return sorted(points["step"].items()), sorted(points["validation"].items())


def report(metrics, save, newest, svg):
    steps, validations = read_metrics(metrics)
    print()
    if validations:
        print(f"held-out loss  {validations[0][1]:.4f} before, {validations[-1][1]:.4f} after {validations[-1][0]} steps")
    print(f"checkpoint     {short(newest) if newest else 'none in ' + short(save)}")
    print(f"metrics        {short(metrics) if metrics.exists() else 'none: ' + short(metrics) + ' was not written'}")
    if steps or validations:
        svg.write_text(loss_svg(steps, validations), encoding="utf-8")
        print(f"loss curve     {short(svg)}")


def ticks(low, high, count=6):
    """Round numbers that cover low..high, about `count` of them."""
    raw = (high - low) / count or 1
    size = 10 ** math.floor(math.log10(raw))
    step = next(m * size for m in (1, 2, 5, 10) if m * size >= raw * 0.999)
    return [round(i * step, 10) for i in range(math.floor(low / step), max(math.ceil(high / step), math.floor(low / step) + 1) + 1)]


STYLE = """
text { font: 14px sans-serif; fill: #1a1a1a } .paper { fill: #fff } .grid { stroke: #ddd } .axis { stroke: #1a1a1a; fill: none }
.train { stroke: #0072b2; fill: none; stroke-width: 1.5 } circle { fill: #b34700 }
@media (prefers-color-scheme: dark) {
text { fill: #e8e8e8 } .paper { fill: #16181d } .grid { stroke: #3a3d44 } .axis { stroke: #e8e8e8 }
.train { stroke: #56b4e9 } circle { fill: #f0a030 } }
"""


def loss_svg(steps, validations):
    """The loss curve: training as a line, broken where the loss is not finite; held-out as points."""
    width, height, left, right, top, bottom = 760, 420, 64, 24, 48, 52
    everything = steps + validations
    losses = [loss for _, loss in everything if math.isfinite(loss)] or [0.0, 1.0]
    xs = ticks(min(s for s, _ in everything), max(s for s, _ in everything))
    ys = ticks(min(losses), max(losses))

    def place(step, loss):
        x = left + (step - xs[0]) / (xs[-1] - xs[0]) * (width - left - right)
        y = height - bottom - (loss - ys[0]) / (ys[-1] - ys[0]) * (height - top - bottom)
        return f"{x:.1f} {y:.1f}"

    line, pen = "", "M"
    for step, loss in steps:
        line += pen + place(step, loss) if math.isfinite(loss) else ""
        pen = "L" if math.isfinite(loss) else "M"
    held = [(*place(s, v).split(), v) for s, v in validations if math.isfinite(v)]
    bad = sum(not math.isfinite(v) for _, v in everything)
    story = f"Training loss over {len(steps)} steps" + (f", from {steps[0][1]:.2f} to {steps[-1][1]:.2f}." if steps else ".")
    story += f" Held-out loss {validations[0][1]:.2f} before, {validations[-1][1]:.2f} after." if validations else ""
    story += f" Left out, for they are not finite: {bad}." if bad else ""
    draw = []
    for x in xs:
        at = place(x, ys[0]).split()[0]
        draw.append(f'<path class="grid" d="M{at} {top}V{height - bottom}"/>'
                    f'<text x="{at}" y="{height - bottom + 20}" text-anchor="middle">{x:g}</text>')
    for y in ys:
        at = place(xs[0], y).split()[1]
        draw.append(f'<path class="grid" d="M{left} {at}H{width - right}"/>'
                    f'<text x="{left - 8}" y="{at}" dy="5" text-anchor="end">{y:g}</text>')
    circles = "".join(f'<circle cx="{x}" cy="{y}" r="5"/>' for x, y, _ in held)
    labels = "".join(f'<text x="{x}" y="{y}" dx="{dx}" dy="-10" text-anchor="{anchor}">{loss:.2f}</text>'
                     for (x, y, loss), dx, anchor in zip((held + held[-1:])[::max(1, len(held))], (8, -8), ("start", "end")))
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-labelledby="title desc">
<title id="title">Loss curve</title>
<desc id="desc">{story}</desc>
<style>{STYLE}</style>
<rect class="paper" width="{width}" height="{height}"/>
{chr(10).join(draw)}
<path class="axis" d="M{left} {top}V{height - bottom}H{width - right}"/>
<text x="{(left + width - right) / 2}" y="{height - 10}" text-anchor="middle">step</text>
<text transform="translate(18 {(top + height - bottom) / 2}) rotate(-90)" text-anchor="middle">loss</text>
<path class="train" d="{line}"/>
{circles}{labels}
<path class="train" d="M{left + 12} 24h28"/><text x="{left + 48}" y="29">training</text>
<circle cx="{left + 150}" cy="24" r="5"/><text x="{left + 164}" y="29">held-out text</text>
</svg>
"""
