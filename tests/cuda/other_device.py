"""A checkpoint written on one device resumes on the other: the weights are the same bits, the losses agree to rounding.

    other_device.py MPIRUN PROGRAM flags...
"""

import json
import math
import pathlib
import subprocess
import sys
import tempfile

RANKS = "2"
SAVED, LAST = 2, 4


def run(device, flags):
    command = [sys.argv[1], "-n", RANKS, *sys.argv[2:], "--device", device, "--steps", str(LAST), *map(str, flags)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert result.returncode == 0, f"{command}: exit code {result.returncode}\n{result.stdout}{result.stderr}"


def weights(folder):
    """{(file, name): bytes} of a checkpoint's safetensors, without the moments. The format is in safetensors.hpp."""
    found = {}
    for path in sorted(folder.glob("*.safetensors")):
        data = path.read_bytes()
        size = int.from_bytes(data[:8], "little")
        for name, entry in json.loads(data[8:8 + size]).items():
            if name != "__metadata__" and not name.startswith("exp_avg"):
                begin, end = entry["data_offsets"]
                found[path.name, name] = data[8 + size + begin:8 + size + end]
    assert found, f"{folder}: no weights"
    return found


def losses(path):
    lines = map(json.loads, path.read_text().splitlines())
    return {line["step"]: line["loss"] for line in lines if line["kind"] == "step"}


def check(writes, resumes, at):
    run(writes, ["--save", at / "a", "--save-every", SAVED, "--metrics", at / "a.jsonl"])
    saved = at / "a" / f"step-{SAVED:08}"
    # At a rate of 0 a step changes no weight: what was loaded is what is saved again.
    run(resumes, ["--resume", saved, "--lr", 0, "--stop-after", SAVED + 1, "--save", at / "b"])
    run(resumes, ["--resume", saved, "--metrics", at / "c.jsonl"])

    before, after = weights(saved), weights(at / "b" / f"step-{SAVED + 1:08}")
    different = [key for key in before if before[key] != after.get(key)]
    assert not different, f"written on {writes}, loaded on {resumes}: other bits in {different}"
    here, there = losses(at / "a.jsonl"), losses(at / "c.jsonl")
    for step in range(SAVED + 1, LAST + 1):
        assert math.isclose(here[step], there[step], rel_tol=1e-4), f"step {step}: {here[step]} on {writes}, {there[step]} on {resumes}"
    assert any(here[step] != there[step] for step in there), "the same bits on both devices: was there only one?"


for pair in (("cpu", "cuda"), ("cuda", "cpu")):
    with tempfile.TemporaryDirectory() as folder:
        check(*pair, pathlib.Path(folder))
