"""The pictures of the notebooks. Each function draws one kind and shows it, as SVG, with a sentence for who cannot see it.

Colours are Okabe and Ito's, told apart by colour-blind readers too; what a colour says is also said by a word or a hatch.
"""
import html
import io
import re

import matplotlib
from IPython.display import SVG, display

matplotlib.use("agg")
from matplotlib import pyplot as plt  # noqa: E402
from matplotlib.patches import Patch, Rectangle  # noqa: E402

COLOURS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#999999"]
DASHES = ["-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1))]
MARKERS = "osD^v"
CLASSES = ["parameters", "gradients", "optimizer", "activations", "buffers"]
plt.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "course", "font.sans-serif": ["DejaVu Sans"], "font.size": 10,
                     "axes.spines.top": False, "axes.spines.right": False,
                     "axes.grid": True, "grid.color": "#dddddd", "axes.axisbelow": True, "figure.dpi": 72, "legend.frameon": False})


def show(figure, says):
    """Shows a figure with a white ground; the same picture is the same text on every day and machine."""
    text = io.StringIO()
    figure.savefig(text, format="svg", bbox_inches="tight", metadata={"Date": None})
    plt.close(figure)
    said = html.escape(says)
    svg = re.sub(r"(<svg[^>]*)>", rf'\1 style="max-width: 100%; height: auto" role="img" aria-label="{said}"><title>{said}</title>', lean(text.getvalue()), count=1)
    display(SVG(svg))


def lean(svg):
    """The picture in a third of the letters, for a notebook is read as a difference too: without comments, wrappers and digits nobody sees."""
    svg = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->| transform=\"rotate\(-0[^\"]*\"", "", svg[svg.index("<svg"):], flags=re.S)
    svg = re.sub(r"<[^>]*>", lambda tag: re.sub(r"\d+\.\d{2,}", lambda digits: f"{float(digits[0]):.1f}", tag[0]), svg)
    svg = re.sub(r"<g id=\"(?:patch|text)_\d+\">\s*(<(?:path|text)[^>]*(?:/>|>[^<]*</text>))\s*</g>", r"\1", svg)
    return re.sub(r"\n\s*", "\n", svg)


def ink(colour):
    """Black or white, whichever is read on this colour."""
    r, g, b = matplotlib.colors.to_rgb(colour)
    return "black" if 0.299 * r + 0.587 * g + 0.114 * b > 0.5 else "white"


def tensors(parts, says, partial=()):
    """Matrices side by side, each number in the colour of the rank that holds it. parts: {title: rows of (word, ranks)}; a number that
    several ranks hold is cut in stripes. Titles in `partial` are terms still to be added: hatched."""
    sizes = [max(1, max((len(row) for row in rows), default=1)) for rows in parts.values()]
    tall = max(len(rows) for rows in parts.values())
    figure, panels = plt.subplots(1, len(parts), figsize=(0.42 * sum(sizes) + 0.35 * len(parts), 0.34 * tall + 0.7),
                                  gridspec_kw={"width_ratios": sizes, "wspace": 0.12}, squeeze=False)
    seen = set()
    for axes, (title, rows) in zip(panels[0], parts.items()):
        for y, row in enumerate(rows):
            for x, (word, ranks) in enumerate(row):
                seen.update(ranks)
                for i, rank in enumerate(ranks):
                    axes.add_patch(Rectangle((x + i / len(ranks), y), 1 / len(ranks), 1, facecolor=COLOURS[rank % len(COLOURS)], linewidth=0,
                                             hatch="///" if title in partial else None, edgecolor="white", clip_on=False))
                if word != "":
                    colour = COLOURS[ranks[0] % len(COLOURS)] if len(ranks) == 1 else "white"
                    box = {"facecolor": colour, "edgecolor": "none", "pad": 1} if title in partial or len(ranks) > 1 else None
                    axes.text(x + 0.5, y + 0.5, word, ha="center", va="center", fontsize=9, bbox=box, color=ink(colour))
        for x in range(1 + max((len(row) for row in rows), default=0)):
            axes.plot([x, x], [0, len(rows)], color="white", linewidth=1.5, clip_on=False)
        for y in range(1 + len(rows)):
            axes.plot([0, max((len(row) for row in rows), default=0)], [y, y], color="white", linewidth=1.5, clip_on=False)
        axes.set(xlim=(0, max(1, max(len(row) for row in rows))), ylim=(tall, 0))
        axes.set_title(title, fontsize=10)
        axes.axis("off")
    figure.legend(handles=[Patch(color=COLOURS[rank % len(COLOURS)], label=f"rank {rank}") for rank in sorted(seen)], loc="lower center",
                  ncol=len(seen), bbox_to_anchor=(0.5, -0.06 - 0.35 / tall))
    show(figure, says)


def stacked(rows, says, unit="bytes", order=None):
    """Bars, a row each, of parts on top of one another. rows: {label: {part: amount}}."""
    parts = order or list(dict.fromkeys(part for row in rows.values() for part in row))
    figure, axes = plt.subplots(figsize=(7, 0.38 * len(rows) + 0.9))
    left = [0] * len(rows)
    for i, part in enumerate(parts):
        amounts = [row.get(part, 0) for row in rows.values()]
        axes.barh(range(len(rows)), amounts, left=left, color=COLOURS[i % len(COLOURS)], label=part, edgecolor="white",
                  hatch=["", "//", "\\\\", "--", "||"][i % 5], height=0.7)
        left = [a + b for a, b in zip(left, amounts)]
    for y, total in enumerate(left):
        axes.annotate(f"{total:,.0f}", (total, y), (4, 0), textcoords="offset points", va="center", fontsize=9)
    axes.set_yticks(range(len(rows)), rows)
    axes.set(xlim=(0, 1.15 * max(left, default=1) or 1), xlabel=unit)
    axes.xaxis.set_major_formatter(lambda x, _: f"{x:,.0f}")
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)
    if len(parts) > 1:
        axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
    show(figure, says)


def lines(series, says, x, y, log="", ticks=None):
    """Curves. series: {label: (xs, ys)}; each has its own dash, and a marker where its points are few. log: the axes that are logarithmic."""
    figure, axes = plt.subplots(figsize=(7, 3))
    for i, (label, (xs, ys)) in enumerate(series.items()):
        axes.plot(xs, ys, color=COLOURS[i % len(COLOURS)], linestyle=DASHES[i % len(DASHES)], label=label, linewidth=max(1.2, 3 - 0.5 * i),
                  marker=MARKERS[i % len(MARKERS)] if len(xs) < 20 else None, markersize=4)
    axes.set(xscale="log" if "x" in log else "linear", yscale="log" if "y" in log else "linear")
    axes.minorticks_off()
    if ticks is not None:
        axes.set_xticks(ticks)
    axes.set(xlabel=x, ylabel=y)
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
    show(figure, says)


def joined(spans, gap):
    """Sorted spans, those less than `gap` apart made one."""
    made = []
    for begin, end in sorted(spans):
        if made and begin - made[-1][1] < gap:
            made[-1][1] = max(made[-1][1], end)
        else:
            made.append([begin, end])
    return made


def timeline(events, ranks, says, begin, end):
    """What each rank did from `begin` to `end` (microseconds of the trace): high bars are kernels, low ones collectives that it waits in;
    the thin line below is collectives that run behind its kernels (FSDP's). `says` is the title too."""
    figure, axes = plt.subplots(figsize=(9, 0.55 * ranks + 1.1))
    inside = [event for event in events if begin <= event["ts"] < end]

    def bars(chosen, at, height, colour):
        spans = joined([(event["ts"], event["ts"] + event["dur"]) for event in chosen], (end - begin) / 400)
        axes.broken_barh([((a - begin) / 1e3, (b - a) / 1e3) for a, b in spans], (at, height), color=colour, linewidth=0)

    for rank in range(ranks):
        own = [event for event in inside if event["tid"] == rank]
        behind = [event for event in inside if event["tid"] != rank and event["tid"] % ranks == rank]
        bars([event for event in own if event["cat"] in ("collective", "wait")], rank - 0.25, 0.25, COLOURS[1])
        bars([event for event in own if event["cat"] == "kernel"], rank - 0.4, 0.55, COLOURS[0])
        bars([event for event in behind if event["cat"] == "collective"], rank + 0.22, 0.14, COLOURS[2])
    axes.set_yticks(range(ranks), [f"rank {rank}" for rank in range(ranks)])
    axes.set(xlabel="ms", xlim=(0, (end - begin) / 1e3), ylim=(ranks - 0.5, -0.5), title=says)
    axes.grid(axis="y", visible=False)
    axes.legend(handles=[Patch(color=COLOURS[0], label="computes"), Patch(color=COLOURS[1], label="waits in a collective"),
                         Patch(color=COLOURS[2], label="collective behind kernels")], loc="upper left", bbox_to_anchor=(1, 1))
    show(figure, says)
