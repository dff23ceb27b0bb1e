"""A small canvas for the chapters' pictures. It writes the same bytes for the same calls.

Readable on light and dark: the picture lies on a card of its own, whose colours follow prefers-color-scheme. Ranks have
the colours of Okabe and Ito, which the colour-blind tell apart, and no picture says by colour alone what no word says.
All text is monospaced, so its width is known here: finish() throws ValueError when a text leaves its box or the card, or
touches another text.
"""
from xml.sax.saxutils import escape

WIDTH = 760
RANKS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7")      # blue, orange, green, purple
CHARACTER = 0.602                                          # of the font's size: the width of a monospaced character

LIGHT = {".card": "fill:#ffffff;stroke:#c9ced6", ".ink": "fill:#1b1f24", ".soft": "fill:#57606a", ".line": "stroke:#57606a",
         ".head": "fill:#57606a", ".plain": "fill:#f1f3f5;stroke:#8b949e", ".call": "fill:#e3e6ea;stroke:#57606a"}
DARK = {".card": "fill:#15181c;stroke:#3a4149", ".ink": "fill:#e8eaed", ".soft": "fill:#a7b0ba", ".line": "stroke:#a7b0ba",
        ".head": "fill:#a7b0ba", ".plain": "fill:#22272e;stroke:#6b747e", ".call": "fill:#333a42;stroke:#a7b0ba"}


def style():
    ranks = "".join(f".r{r}{{fill:{colour};fill-opacity:.26;stroke:{colour}}}.s{r}{{fill:{colour};stroke:{colour}}}"
                    f".l{r}{{stroke:{colour}}}" for r, colour in enumerate(RANKS))
    light = "".join(f"{name}{{{rule}}}" for name, rule in LIGHT.items())
    dark = "".join(f"{name}{{{rule}}}" for name, rule in DARK.items()) + "".join(f".r{r}{{fill-opacity:.5}}" for r in range(4))
    return (f"text{{font-family:ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace}}.b{{font-weight:bold}}"
            f".line,.l0,.l1,.l2,.l3{{fill:none;stroke-width:1.4}}.thick{{stroke-width:3}}.thin{{stroke-width:.8}}{ranks}.bare{{stroke:none}}{light}@media(prefers-color-scheme:dark){{{dark}}}")


def number(x):
    return f"{x:.1f}".rstrip("0").rstrip(".")


class Picture:
    def __init__(self, title, description, height):
        self.title, self.description, self.height = title, description, height
        self.shapes, self.texts = [], []
        self.shapes.append(f'<rect class="card" x=".5" y=".5" width="{WIDTH - 1}" height="{height - 1}" rx="8"/>')
        self.text(20, 28, title, 15, bold=True)

    # x, y: the upper left corner of boxes; the start (or middle, or end) of a text's base line.
    def text(self, x, y, words, size=12, at="start", kind="ink", bold=False, within=None):
        width = len(words) * size * CHARACTER
        left = x - {"start": 0, "middle": width / 2, "end": width}[at]
        box = (left, y - 0.8 * size, left + width, y + 0.22 * size)
        limits = within or (8, 4, WIDTH - 8, self.height - 4)
        if box[0] < limits[0] - 0.1 or box[2] > limits[2] + 0.1 or box[1] < limits[1] - 0.1 or box[3] > limits[3] + 0.1:
            raise ValueError(f"'{words}' does not fit: {[round(v) for v in box]} in {[round(v) for v in limits]}")
        for other, theirs in self.texts:
            if box[0] < theirs[2] and theirs[0] < box[2] and box[1] < theirs[3] and theirs[1] < box[3]:
                raise ValueError(f"'{words}' lies on '{other}'")
        self.texts.append((words, box))
        anchor = "" if at == "start" else f' text-anchor="{at}"'
        self.shapes.append(f'<text class="{kind}{" b" if bold else ""}" x="{number(x)}" y="{number(y)}" '
                           f'font-size="{number(size)}"{anchor}>{escape(words)}</text>')

    def box(self, x, y, width, height, kind="plain", words="", size=12, round_=3, bold=False):
        """A box, with lines of words in its middle."""
        self.shapes.append(f'<rect class="{kind}" x="{number(x)}" y="{number(y)}" width="{number(width)}" '
                           f'height="{number(height)}" rx="{round_}"/>')
        lines = words.split("\n") if words else []
        for at, line in enumerate(lines):
            middle = y + height / 2 + 0.36 * size + (at - (len(lines) - 1) / 2) * 1.3 * size
            self.text(x + width / 2, middle, line, size, "middle", bold=bold, within=(x + 1, y, x + width - 1, y + height))

    def split_box(self, x, y, width, height, ranks, words="", size=12):
        """A box in a strip for each of these ranks."""
        for at, rank in enumerate(ranks if len(ranks) > 1 else ()):
            self.box(x + at * width / len(ranks), y, width / len(ranks), height, f"r{rank} bare", round_=0)
        self.box(x, y, width, height, f"r{ranks[0]}" if len(ranks) == 1 else "line thin", round_=1)
        if words:
            self.text(x + width / 2, y + height / 2 + 0.36 * size, words, size, "middle", within=(x, y, x + width, y + height))

    def matrix(self, x, y, rows, owner, cell=24, height=None, size=11):
        """Rows of words, each in a cell of owner(i, j)'s colour: a rank, a tuple of ranks, or None."""
        height = height or cell
        for i, row in enumerate(rows):
            for j, word in enumerate(row):
                who = owner(i, j)
                if isinstance(who, tuple):
                    self.split_box(x + j * cell, y + i * height, cell, height, who, word, size)
                else:
                    self.box(x + j * cell, y + i * height, cell, height, "plain" if who is None else f"r{who}", word, size, 1)

    def arrow(self, *points, kind="line"):
        """A line through the points, with a head at the last."""
        (x1, y1), (x, y) = points[-2:]
        length = max(((x - x1) ** 2 + (y - y1) ** 2) ** 0.5, 1e-9)
        dx, dy = (x - x1) / length, (y - y1) / length
        self.line(*points[:-1], (x - 5 * dx, y - 5 * dy), kind=kind)
        corners = [(x, y), (x - 8 * dx - 4 * dy, y - 8 * dy + 4 * dx), (x - 8 * dx + 4 * dy, y - 8 * dy - 4 * dx)]
        head = kind.replace("l", "s", 1) if kind != "line" else "head"
        self.shapes.append(f'<path class="{head}" d="M' + "L".join(f"{number(a)} {number(b)}" for a, b in corners) + 'Z"/>')

    def line(self, *points, kind="line", dashed=False):
        path = "L".join(f"{number(a)} {number(b)}" for a, b in points)
        self.shapes.append(f'<path class="{kind}" d="M{path}"' + (' stroke-dasharray="4 4"' if dashed else "") + "/>")

    def legend(self, y, ranks=2, x=20, words="rank {}"):
        for rank in range(ranks):
            self.box(x, y - 10, 14, 12, f"r{rank}")
            self.text(x + 20, y, words.format(rank), 12)
            x += 34 + len(words.format(rank)) * 12 * CHARACTER

    def finish(self):
        return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {self.height}" width="{WIDTH}" '
                          f'height="{self.height}" role="img" aria-labelledby="title desc">',
                          f'<title id="title">{escape(self.title)}</title>', f'<desc id="desc">{escape(self.description)}</desc>',
                          f"<style>{style()}</style>", *self.shapes, "</svg>", ""])
