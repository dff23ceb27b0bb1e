"""Executes every notebook and compares it with what is stored, as ./course notebook --check does with the programs that are built here.

Ends with 77 (skipped, to ctest) where its packages are not installed and cannot be.
"""
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "notebooks")]
import course  # noqa: E402
import course_notebook  # noqa: E402


def call(command, environment):
    return subprocess.call([str(word) for word in command], stdin=subprocess.DEVNULL, env=environment)


def main(words):
    try:
        course_notebook.prepare(course.script().pip(), lambda line: print(line, flush=True))
    except course_notebook.NoPackages as why:
        print(f"skipped: {why}")
        return 77
    return course_notebook.main(course_notebook.parse(["--check", *words]), call)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
