"""./course notebook: opens the notebooks in Jupyter, or executes them.

The packages (notebooks/requirements.txt) go into an environment of their own, .notebook/, and nowhere else.
"""
import argparse
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENT = ROOT / ".notebook"
PYTHON = ENVIRONMENT / "bin" / "python"
REQUIREMENTS = ROOT / "notebooks" / "requirements.txt"


class NoPackages(Exception):
    """The packages cannot be had here; one line says why."""


def notebooks():
    return sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb"))


def parse(arguments):
    parser = argparse.ArgumentParser(prog="./course notebook", description="Opens the notebooks in Jupyter. What it needs goes into .notebook/.")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--execute", action="store_true", help="execute them here, without a browser, and store what they said and drew")
    what.add_argument("--check", action="store_true", help="execute them, store nothing, and say where what is stored is no longer so")
    parser.add_argument("which", nargs="*", metavar="NN", help="a notebook by its number; all, if none is named")
    options = parser.parse_args(arguments)
    options.paths = [chosen(word, parser) for word in options.which] or notebooks()
    return options


def chosen(word, parser):
    for path in notebooks():
        if word in (path.stem, path.name) or (word.isdigit() and int(word) == int(path.name[:2])):
            return path
    parser.error(f"there is no notebook '{word}'; they are " + ", ".join(path.stem for path in notebooks()))


def prepare(pip, say):
    """Makes .notebook/, or brings it up to date with the requirements; NoPackages if that cannot be."""
    wanted, done = REQUIREMENTS.read_text(encoding="utf-8"), ENVIRONMENT / "installed.txt"
    if PYTHON.exists() and done.exists() and done.read_text(encoding="utf-8") == wanted:
        return
    if not pip:
        raise NoPackages("pip is missing (./course doctor)")
    say("installing Jupyter and matplotlib in .notebook/ (400 MB)")
    for command in ([sys.executable, "-m", "venv", "--clear", "--without-pip", str(ENVIRONMENT)],
                    [*pip, "--python", str(PYTHON), "install", "-q", "--disable-pip-version-check", "-r", str(REQUIREMENTS)],
                    [str(PYTHON), "-c", "import matplotlib.font_manager"]):           # it makes a list of the fonts, once
        made = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors="replace", env=environment())
        if made.returncode:
            raise NoPackages("the packages of notebooks/requirements.txt cannot be installed: " + (made.stdout.strip().splitlines() or ["?"])[-1])
    done.write_text(wanted, encoding="utf-8")


def environment():
    """What Jupyter and matplotlib keep for themselves stays in .notebook/; settings of the user's own do not change a picture."""
    folders = {"MPLCONFIGDIR": "matplotlib", "IPYTHONDIR": "ipython", "JUPYTER_CONFIG_DIR": "config", "JUPYTER_RUNTIME_DIR": "runtime"}
    own = {name: str(ENVIRONMENT / folder) for name, folder in folders.items()}
    return {**os.environ, **own, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONWARNINGS": "ignore", "PYDEVD_DISABLE_FILE_VALIDATION": "1"}


def main(options, call):
    """`call` runs a command with our own input and output, and gives its exit code."""
    paths = [str(path) for path in options.paths]
    if options.execute or options.check:
        return call([PYTHON, ROOT / "tools" / "notebook_run.py", "--store" if options.execute else "--check", *paths], environment())
    cache = {"MPLCONFIGDIR": environment()["MPLCONFIGDIR"]}
    call([PYTHON, "-m", "jupyter", "trust", *paths], cache)                    # or their stored pictures are not shown
    as_root = ["--allow-root"] if os.geteuid() == 0 else []
    first = str(options.paths[0].relative_to(REQUIREMENTS.parent)) if options.which else ""
    return call([PYTHON, "-m", "jupyter", "lab", "-y", *as_root, f"--LabApp.default_url=/lab/tree/{first}", f"--ServerApp.root_dir={REQUIREMENTS.parent}"], cache)
