"""A compiler's words about a learner's file, made short: for each of the first errors the learner's own line first, what is wrong,
and the one note that says what the course declares. Paths count from the course's folder."""
import contextlib
import re

FIRST = 3                       # errors that are shown
WIDTH = 400                     # of a message: a type can fill pages
SAID = re.compile(r"^(?P<path>[^\s:][^:]*):(?P<line>\d+):(?:(?P<column>\d+):)? (?P<kind>fatal error|error|note|warning): (?P<text>.*)$")
FROM = re.compile(r"^(?:In file included from |\s+from )?(?P<path>[^\s:][^:]*):(?P<line>\d+):(?:\d+:)?\s+(?:recursively )?required (?:from|by)")
NOTE = re.compile(r"candidate: |declared here|\s*initializing argument|'.*' (?:previously )?declared here|previous ")
OURS = re.compile("chapters/|common/|museum/|work/")
CODE = re.compile(r"^\s*(\d+)? \| ")


def short(output, root, file):
    """`file`: the learner's, as a path from the folder `root`."""
    lines = [plain(line, root) for line in output.splitlines()]
    found = linker(lines) or errors(lines, root, file)
    if found:
        return "\n".join(found)
    return "\n".join([line for line in lines if line.strip() and not machinery(line)][-12:])


def blames(output, file):
    """Whether it is the learner's file that does not build: a full disk or CMake names none of its lines, nor a name it lacks."""
    return bool(re.search(rf"{re.escape(file)}:\d+\b(?!.* warning: )", output) or linker(output.splitlines()))


def plain(line, root):
    line = line.replace(str(root) + "/", "")
    line = re.sub(r"(?:\.\./)+((?:chapters|common|museum|tests|work)/)", r"\1", line)
    line = line.replace("std::__cxx11::basic_string<char>", "std::string").replace("‘", "'").replace("’", "'")
    line = re.sub(r", std::allocator<[^<>]*(?:<[^<>]*>)?[^<>]*> ?>", ">", line)
    return line


def machinery(line):
    return re.match(r"\[\d+/\d+\]|\[ *\d+%\]|FAILED:|ninja:|g?make|\S*(c\+\+|g\+\+|ccache)\b|collect2:|compilation terminated", line)


def linker(lines):
    """What is not defined, or is twice."""
    text = "\n".join(lines)
    missing = dict.fromkeys(re.findall(r"undefined reference to `(?:course::)?([^(']+)", text))
    twice = dict.fromkeys(re.findall(r"multiple definition of `([^']+)'", text))
    said = []
    if missing:
        said.append(f"{', '.join(missing)}: declared, and not in your file as it is declared. Leave the names, the parameters and what is "
                    "returned as the file had them at the start")
    if twice:
        said.append(f"{', '.join(twice)}: defined in your file and in the course; yours must have another name")
    return said


def errors(lines, root, file):
    said, shown, left, through = [], set(), 0, None
    for number, line in enumerate(lines):
        if (by := FROM.match(line)) and by["path"] == file:
            through = through or by["line"]
        found = SAID.match(line)
        if found and "error" in found["kind"]:
            path, at = (file, through) if through and found["path"] != file else (found["path"], found["line"])
            inside, through, left = path != found["path"], None, 0
            if len(shown) == FIRST or (inside and at in shown):
                continue
            shown.add(at)
            left = 1
            said.append(f"{path}:{at}: {cut(found['text'])}")
            said += written(root / path, int(at)) if inside else code_after(lines, number)
            if inside:
                said.append(f"  (found in {found['path']}:{found['line']}, which this line uses)")
        elif found and found["kind"] == "note" and left and NOTE.match(found["text"]) and OURS.match(found["path"]):
            said.append(f"  {found['path']}:{found['line']}: {cut(found['text'].strip())}")
            left = 0
    return said


def cut(text):
    return text if len(text) <= WIDTH else text[:WIDTH] + " ..."


def code_after(lines, number):
    """The line of code and the mark under it."""
    found = []
    for line in lines[number + 1:number + 3]:
        if not CODE.match(line):
            break
        found.append(line[:160])
    return found


def written(path, number):
    """A line of code as the compiler shows one."""
    with contextlib.suppress(OSError, IndexError):
        return [f"{number:5} | {path.read_text(encoding='utf-8', errors='replace').splitlines()[number - 1]}"[:160]]
    return []
