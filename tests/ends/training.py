"""A training that goes on until somebody ends it."""
import json
import os
import sys
from pathlib import Path

from run import BUILD, MPIRUN, ROOT, Run

SCRIPT = ("import importlib.machinery as m, importlib.util as u, sys; sys.dont_write_bytecode = True\n"
          f"l = m.SourceFileLoader('course', {str(ROOT / 'course')!r}); c = u.module_from_spec(u.spec_from_loader('course', l))\n"
          "l.exec_module(c); c.set_up = lambda **_: None\n"
          "sys.exit(c.main(sys.argv[1:]))")


def flags(folder, **more):
    """Of a model that no mesh shares evenly; the tests' CMakeLists.txt writes its config.json."""
    own = {"model": BUILD / "tests" / "uneven_model", "batch": 24, "seq": 15, "steps": 10**6,
           "text": ROOT / "chapters/03_device_mesh/README.md", "tokenizer": ROOT / "tests/golden/tokenizer/tokenizer.json",
           "metrics": Path(folder) / "metrics.jsonl", **more}
    return [w for name, value in own.items() for w in ("--" + name.replace("_", "-"), value)]


class Training(Run):
    def __init__(self, folder, command):
        self.metrics = Path(folder) / "metrics.jsonl"
        super().__init__(command)

    def steps(self):
        """Of the steps in the metrics, their numbers."""
        lines = self.metrics.read_text().splitlines() if self.metrics.exists() else []
        return [json.loads(line)["step"] for line in lines if '"kind":"step"' in line and line.endswith("}")]

    def wait_until_step(self, step):
        self.wait_until(lambda: self.steps()[-1:] >= [step], f"step {step}")

    def signal_rank(self, rank, number):
        os.kill(self.ranks()[rank], number)


class Launched(Training):
    """Under the launcher. Its own exit code says little once it was told to stop: MPICH's ends with 0 or 255 now and then,
    whatever its ranks say. So each rank's is noted by a shell around it, which lives on when they are told."""
    NOTE = 'trap : INT TERM; "$@"; code=$?; echo $code > "$0/code-$PMI_RANK$OMPI_COMM_WORLD_RANK"; exit $code'

    def __init__(self, folder, ranks, command):
        self.codes, self.count = Path(folder), ranks
        for old in self.codes.glob("code-*"):
            old.unlink()
        super().__init__(folder, [MPIRUN, "-n", ranks, "sh", "-c", self.NOTE, folder, *command])

    def end(self):
        """What all ranks ended with, where they agree; that of a rank which did not end by itself is missing."""
        launcher = super().end()
        codes = [path.read_text().strip() for path in self.codes.glob("code-*")]
        return int(codes[0]) if len(codes) == self.count and len(set(codes)) == 1 else launcher


def training(folder, program="13_two_dimensional", ranks=4, **more):
    mesh = {"dp": 2, "tp": 2} if program.startswith("13") else {}
    command = [BUILD / "bin" / program, *flags(folder, **mesh, **more), "--quiet"]
    return Launched(folder, ranks, command) if ranks > 1 else Training(folder, command)


def course_run(folder, **more):
    """`./course run`, which does not set up."""
    return Training(folder, [sys.executable, "-c", SCRIPT, "run", "13", "-n", "4", *flags(folder, dp=2, tp=2, **more), "--quiet"])
