"""The Markdown files of the course, as a reader on GitHub has them: links, headings and what is no prose."""
import re
import urllib.parse
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NOT_OURS = re.compile(r"^(\.git|build[^/]*|data|runs|work|bundle|\.[a-z]+|node_modules|__pycache__)$")
FENCE = re.compile(r"^ *(```|~~~).*?^ *\1[^\n]*$", re.M | re.S)
SPAN = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)", re.S)
LINK = re.compile(r"\]\(([^()\s]*(?:\([^()\s]*\)[^()\s]*)*)(?: \"[^\"]*\")?\)|^ {0,3}\[[^\]]+\]: +(\S+)", re.M)


def files(root=ROOT):
    """Every Markdown file of ours: what a build, a run or a learner makes is left out."""
    def below(folder):
        for path in sorted(folder.iterdir()):
            if path.is_dir() and not path.is_symlink() and not NOT_OURS.match(path.name):
                yield from below(path)
            elif path.suffix == ".md":
                yield path
    return list(below(root))


def prose(text):
    """The text with code left out, line for line."""
    def blank(found):
        return "\n" * found[0].count("\n")
    return SPAN.sub(blank, FENCE.sub(blank, text))


def anchors(text):
    """What a link may name behind #: the headings, as GitHub spells them, and ids that are written out."""
    found = re.findall(r"<a (?:id|name)=\"([^\"]+)\"", text)
    seen = {}
    for heading in re.findall(r"^#{1,6} +(.*?)(?: +#+)?$", FENCE.sub("", text), re.M):
        words = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", words.strip().lower()).replace(" ", "-")
        seen[slug] = seen.get(slug, -1) + 1
        found.append(f"{slug}-{seen[slug]}" if seen[slug] else slug)
    return set(found)


def broken(path, root=ROOT):
    """A line for each relative link of a file that leads nowhere, or out of the course."""
    text = path.read_text(encoding="utf-8")
    for found in LINK.finditer(prose(text)):
        link = found[1] or found[2] or ""
        if re.match(r"[a-z]+:", link):
            continue
        name, _, heading = urllib.parse.unquote(link).partition("#")
        target = (path.parent / name).resolve() if name else path.resolve()
        if root.resolve() not in [target, *target.parents]:
            yield f"{link}: leaves the course"
        elif not target.exists():
            yield f"{link}: there is no such file"
        elif heading and target.suffix == ".md" and heading not in anchors(target.read_text(encoding="utf-8")):
            yield f"{link}: {target.name} has no heading of this name"
        elif not link:
            yield "(): a link to nothing"
