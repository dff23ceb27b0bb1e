#!/usr/bin/env python3
"""Draws the chapters' pictures, chapters/NN_name/picture.svg, with Python's standard library alone.

    python3 tools/pictures/draw.py             every chapter
    python3 tools/pictures/draw.py 03 12       these
    python3 tools/pictures/draw.py --to DIR    into DIR/NN.svg; with --dark in the colours of a dark page, to look at

Numbers come from the expected output in the chapter's README, which a test compares with the program, or are computed in
chapter_NN.py. The same input gives the same bytes; a test redraws and compares.
"""
import importlib
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.dont_write_bytecode = True
import svg  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]


def chapters():
    return sorted((ROOT / "chapters").glob("[0-9][0-9]_*"))


def picture(number):
    return importlib.import_module(f"chapter_{number:02}").picture()


def draw(number):
    """The picture of a chapter, as text."""
    return picture(number).finish()


def darkened(text):
    """As a page in dark mode shows it."""
    return text.replace("@media(prefers-color-scheme:dark){", "").replace("}}</style>", "}</style>")


def main(words):
    to = Path(words[words.index("--to") + 1]) if "--to" in words[:-1] else None
    code = 0
    chosen = [word for word in words if word.isdigit()]
    for chapter in chapters():
        number = chapter.name[:2]
        if chosen and number not in chosen and str(int(number)) not in chosen:
            continue
        try:
            text = draw(int(number))
        except ValueError as error:
            print(f"picture of {number}: {error}", file=sys.stderr)
            code = 1
            continue
        path = to / f"{number}.svg" if to else chapter / "picture.svg"
        if "--dark" in words:
            text = darkened(text)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print(path.relative_to(ROOT) if ROOT in path.parents else path)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
