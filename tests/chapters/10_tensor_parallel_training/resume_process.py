"""Case B10 with a new process: ten steps, against five, a checkpoint, another process, five more.

    resume_process.py MPIRUN PROGRAM flags...
"""

import json
import pathlib
import subprocess
import sys
import tempfile

RANKS = "2"


def run(flags):
    result = subprocess.run([sys.argv[1], "-n", RANKS, *sys.argv[2:], *flags], capture_output=True, text=True, timeout=100)
    assert result.returncode == 0, f"{flags}: exit code {result.returncode}\n{result.stdout}{result.stderr}"


def steps_of(path):
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return {line["step"]: {key: line[key] for key in ("loss", "grad_norm", "lr", "tokens")}
            for line in lines if line["kind"] == "step"}


def same(what, a, b):
    assert a == b, f"{what}: {a} without a stop, {b} resumed"


def main():
    case = json.loads(pathlib.Path("tests/cases/cases.json").read_text())["B10"]
    given, right = case["input"], case["right"]
    flags = ["--steps", "20", "--warmup", given["warmup_steps"], "--lr", given["peak"], "--seed", "42",
             "--accumulate", given["accumulation"]]
    flags = [str(flag) for flag in flags]
    stop = given["resume_after"]
    with tempfile.TemporaryDirectory() as folder:
        at = pathlib.Path(folder)
        run(flags + ["--stop-after", "10", "--save", f"{at}/a", "--metrics", f"{at}/a.jsonl"])
        run(flags + ["--stop-after", str(stop), "--save", f"{at}/b", "--metrics", f"{at}/b1.jsonl"])
        # The schedule is the checkpoint's: --steps, --warmup and --lr are not said again.
        run(["--seed", "42", "--accumulate", str(given["accumulation"]), "--stop-after", "10", "--resume", f"{at}/b",
             "--save", f"{at}/b", "--metrics", f"{at}/b2.jsonl"])

        state = json.loads((at / "b" / f"step-{stop:08}" / "index.json").read_text())["state"]
        same("Adam's t of the next step", right["t"], state["step"] + 1)
        same("first micro-batch", right["first_micro_batch"], state["next_batch"] * given["accumulation"])

        whole, resumed = steps_of(at / "a.jsonl"), steps_of(at / "b2.jsonl")
        same("steps", sorted(range(stop + 1, 11)), sorted(resumed))
        same("rate of step 6", right["lr_from_0.1"], round(resumed[stop + 1]["lr"], 12))
        for step in resumed:
            same(f"step {step}", whole[step], resumed[step])
        same("steps before the stop", {n: whole[n] for n in range(1, stop + 1)}, steps_of(at / "b1.jsonl"))

        files = sorted(path.name for path in (at / "a/step-00000010").glob("*.safetensors"))
        same("files", int(RANKS), len(files))
        for name in files:  # weights and both moments
            same(name, True, (at / "a/step-00000010" / name).read_bytes() == (at / "b/step-00000010" / name).read_bytes())


main()
