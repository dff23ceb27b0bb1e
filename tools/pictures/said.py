"""What a chapter's program says, as its README has it under "Expected output"; a test compares that with a run."""
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "readme"))
import expected_output  # noqa: E402


def lines(number, block=0):
    text = next((ROOT / "chapters").glob(f"{number:02}_*/README.md")).read_text(encoding="utf-8")
    found = expected_output.blocks(text)[block]
    return text.split("\n")[found.start:found.end]


def below(said, heading, count):
    """The `count` lines under the line that is `heading`, or else the first that begins with it."""
    at = said.index(heading) if heading in said else next((at for at, line in enumerate(said) if line.startswith(heading)), None)
    if at is None:
        raise ValueError(f"the expected output has no line '{heading}'")
    return said[at + 1:at + 1 + count]


def matrix(said, heading, count):
    """The same as rows of words; bars, plus signs and words such as `rank 0` are left out."""
    return [re.findall(r"\d+", re.sub(r"rank \d+", "", line)) for line in below(said, heading, count)]


def value(said, pattern):
    """The groups of the first line that the pattern finds."""
    for line in said:
        found = re.search(pattern, line)
        if found:
            return found.groups() if len(found.groups()) > 1 else found[1]
    raise ValueError(f"the expected output has no line like '{pattern}'")
