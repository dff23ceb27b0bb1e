"""The build's own command lines of a target, for who compiles or links one more version of it. They run in build_folder()."""
import json
import shlex
import subprocess
from pathlib import Path

from course_base import Stop


class Unknown(Stop):
    """The build knows no such target."""


def compiling(course, source):
    """(arguments with neither source nor output, path of the object that the build makes of it)."""
    try:
        entries = json.loads((course.build_folder() / "compile_commands.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise Unknown("compile_commands.json is missing in the build folder") from None
    for entry in entries:
        if entry["file"] == str(source):
            words = shlex.split(entry["command"])
            words = words[1:] if Path(words[0]).name in ("ccache", "sccache") else words
            made = words[words.index("-o") + 1]
            return [w for w in words if w not in ("-o", made, "-c", entry["file"])], Path(entry["directory"]) / made
    raise Unknown(f"the build does not compile {source}")


def linking(course, target):
    """The arguments that make an executable, -o and its path among them."""
    build = course.build_folder()
    if (build / "build.ninja").exists():
        done = subprocess.run(["ninja", "-C", str(build), "-t", "commands", target], capture_output=True, text=True)
        lines = [line for line in done.stdout.splitlines() if " -o " in line and " -c " not in line]
    else:
        lines = [line for path in build.glob(f"**/CMakeFiles/{target}.dir/link.txt") for line in from_its_folder(build, path)]
    if not lines:
        raise Unknown(f"the build does not link {target}")
    return [w for w in shlex.split(lines[-1]) if w not in (":", "&&") and Path(w).name not in ("ccache", "sccache")]


def from_its_folder(build, path):
    """make links from the folder of the target's CMakeLists.txt: its paths, as from the build folder."""
    folder = path.parents[2]
    words = shlex.split(path.read_text(encoding="utf-8"))
    yield shlex.join(str((folder / w).resolve()) if w[0] not in "-/" and (folder / w).exists() else w for w in words)


def object_of(words, name):
    """Where in a link line the object that is made of a file of this name stands."""
    return next(i for i, w in enumerate(words) if w.endswith(f"/{name}.o"))
