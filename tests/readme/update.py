#!/usr/bin/env python3
"""Makes the chapters' READMEs and pictures agree with the programs and the sources. Build first; COURSE_BUILD names another build folder.

    python3 tests/readme/update.py             every chapter
    python3 tests/readme/update.py 05 12       these
    python3 tests/readme/update.py --all       also blocks that differ only in what may differ (times, rounding)
    python3 tests/readme/update.py --no-run    what is drawn from the sources alone

Expected output comes from running the commands stated above each block (expected_output.py says how a block is found). A
block whose text agrees with the run stays as it is. Prose is not touched; where it still has a number that a rewritten block
no longer says, that is printed.
"""
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.dont_write_bytecode = True
import expected_output  # noqa: E402
import from_sources  # noqa: E402

ROOT = expected_output.ROOT
LONG = re.compile(r"(?<![\w.,])\d{1,3}(?:,\d{3})+(?![\w,])|(?<![\w.,])\d+\.\d{2,}(?![\w.])")


def with_runs(name, text, every):
    """The README's text with the blocks that a run says otherwise replaced."""
    lines = text.split("\n")
    with expected_output.Runner() as runner:
        for block in reversed(expected_output.blocks(text)):
            said, written = runner.output(block.commands), lines[block.start:block.end]
            wrong = expected_output.differences(written, said, block.commands)
            if wrong or every:
                lines[block.start:block.end] = expected_output.renewed(written, said)
            if wrong:
                print(f"{name}: `{block.commands[-1]}`", *wrong, sep="\n  ")
    for line in stale(text, "\n".join(lines)):
        print(f"{name}: prose says what the run no longer does: {line}")
    return "\n".join(lines)


def stale(before, after):
    """The lines of prose with a number that has gone from every block of output. Short whole numbers are in everything."""
    def said(text):
        lines = text.split("\n")
        return {number for block in expected_output.blocks(text) for line in lines[block.start:block.end]
                for number in LONG.findall(line)}
    gone, lines = said(before) - said(after), after.split("\n")
    output = {at for block in expected_output.blocks(after) for at in range(block.start, block.end)}
    return [f"line {at + 1}, {number}" for at, line in enumerate(lines) if at not in output
            for number in LONG.findall(line) if number in gone]


def main(words):
    if set(words) & {"-h", "--help"}:
        print(__doc__)
        return 0
    every, run = "--all" in words, "--no-run" not in words
    unknown = [word for word in words if word.startswith("-") and word not in ("--all", "--no-run")]
    if unknown:
        print(f"update.py: not expected: {' '.join(unknown)}; --help says what there is", file=sys.stderr)
        return 2
    chosen = [word for word in words if not word.startswith("-")]
    code = 0
    for path in sorted((ROOT / "chapters").glob("[0-9][0-9]_*/README.md")):
        name = path.parent.name
        if chosen and not any(word in (name, name[:2]) for word in chosen):
            continue
        try:
            if run:
                rewrite(path, with_runs(name, path.read_text(encoding="utf-8"), every))
            # The picture takes its numbers from the expected output, so it comes after it.
            rewrite(path.parent / "picture.svg", from_sources.pictures().draw(int(name[:2])))
            rewrite(path, from_sources.drawn(path.read_text(encoding="utf-8"), path.parent))
        except (RuntimeError, ValueError) as error:
            print(f"{name}: {error}", file=sys.stderr)
            code = 1
    return code


def rewrite(path, text):
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")
        print(f"{path.relative_to(ROOT)} rewritten")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
