"""What stands in a chapter's README and is drawn, not typed. Each part stands between two comments that markdown hides:

    <!-- drawn: minutes -->        under the title: 150 words a minute (output apart) and a minute for each command under
                                   "Run it"; 20 lines a minute of the chapter's own C++; ten minutes an exercise; each
                                   rounded up to 5
    <!-- drawn: files -->          under "What changed": the chapter's own files with their lines and the first sentence of
                                   the header's comment, and what it includes from the chapters below
    <!-- drawn: picture -->        under "Picture": picture.svg, which tools/pictures draws, with its description
    <!-- /drawn -->                the end of each
"""
import math
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PART = re.compile(r"<!-- drawn: (\w+) -->\n.*?<!-- /drawn -->", re.S)
INCLUDE = re.compile(r'^\s*#\s*include\s+"chapters/((\d\d)_\w+)/(\w+)\.hpp"', re.M)


def section(text, title):
    found = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", text, re.M | re.S)
    return found[1] if found else ""


def without_exercise(source):
    """The source without the markers of its exercise and the entries at its end."""
    return re.sub(r"^ *// (?:exercise \w+ \{|\} exercise)\n|\n// Exercise \d\d \w+\n.*\Z", "", source, flags=re.M | re.S)


def sources_of(chapter):
    return {path.name: without_exercise(path.read_text(encoding="utf-8")) for path in sorted(chapter.glob("*.[ch]pp"))}


def minutes(text, lines):
    prose = re.sub(r"^```.*?^```", "", PART.sub("", text), flags=re.M | re.S)
    words = len(re.findall(r"\w[\w'-]*", prose))
    commands = len(re.findall(r"^(?:mpirun|build/bin/|\./course)", section(text, "Run it"), re.M))
    exercises = len(re.findall(r"^(?:\d+\. |- `\w+`: )", section(text, "Exercises"), re.M))
    page, code, do = (5 * math.ceil(n / 5) for n in (words / 150 + commands, lines / 20, 10 * exercises))
    return f"Minutes: about {page} for this page and its runs, {code} to read the code, {do} for the exercises."


def description(source):
    """The first sentence of the comment that a source begins with, as a cell of a table."""
    comment = re.match(r"(?:// .*\n)*", source)[0]
    words = " ".join(line[3:].strip() for line in comment.splitlines())
    sentence = re.match(r".*?\.(?=\s[A-Z]|$)|.*", re.sub(r"^\d\d(?: \w+)?: ", "", words))[0]
    return (sentence[:1].upper() + sentence[1:]).replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")


def what_changed(chapter):
    """The drawn part of the chapter in this folder."""
    sources = sources_of(chapter)
    stems = sorted({name.rpartition(".")[0] for name in sources} - {"main"}) + ["main"]
    rows, total = [], 0
    for stem in stems:
        files = [name for name in (stem + ".hpp", stem + ".cpp") if name in sources]
        lines = [sources[name].count("\n") for name in files]
        total += sum(lines)
        links = ", ".join(f"[{name if at == 0 else '.cpp'}]({name})" for at, name in enumerate(files))
        rows.append(f"| {links} | {' + '.join(map(str, lines))} | {description(sources[files[0]])} |")
    below = {}
    for source in sources.values():
        for folder, number, stem in INCLUDE.findall(source):
            if folder != chapter.name:
                below.setdefault((number, folder), set()).add(stem)
    uses = " · ".join(f"[{number}](../{folder}/README.md) " +
                      ", ".join(f"[{stem}](../{folder}/{stem}.hpp)" for stem in sorted(names))
                      for (number, folder), names in sorted(below.items()))
    head = f"The chapter's own files, {total:,} lines of C++:"
    return "\n".join([head, "", "| file | lines | what it is |", "|---|--:|---|", *rows, "",
                      f"It includes from below: {uses}." if uses else "It includes nothing from other chapters."])


def pictures():
    """tools/pictures/draw.py as a module."""
    folder = str(ROOT / "tools" / "pictures")
    if folder not in sys.path:
        sys.path.insert(0, folder)
    import draw
    return draw


def image(chapter):
    description = pictures().picture(int(chapter.name[:2])).description
    return f"![{description.replace('[', '(').replace(']', ')')}](picture.svg)"


def drawn(text, chapter):
    """The README's text with its drawn parts as they should be. ValueError when one of them has no place there."""
    lines = sum(source.count("\n") for source in sources_of(chapter).values())
    parts = {"minutes": lambda: minutes(text, lines), "files": lambda: what_changed(chapter), "picture": lambda: image(chapter)}
    missing = set(parts) - set(PART.findall(text))
    if missing:
        raise ValueError("no place for " + ", ".join(f"<!-- drawn: {name} --> ... <!-- /drawn -->" for name in sorted(missing)))
    return PART.sub(lambda found: f"<!-- drawn: {found[1]} -->\n{parts[found[1]]()}\n<!-- /drawn -->", text)
