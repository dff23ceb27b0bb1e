"""Chapter 13 on a 2x2 mesh: NCCL, staging and CPU ranks give the same losses and gradient norms, to rounding.

same_losses.py MPIRUN PROGRAM MODEL
"""
import json
import os
import subprocess
import sys
import tempfile

mpirun, program, model = sys.argv[1:]
flags = ["--model", model, "--dp", "2", "--tp", "2", "--batch", "4", "--seq", "15", "--steps", "2", "--quiet", "--loss-parallel",
         "--text", "chapters/03_device_mesh/README.md", "--tokenizer", "tests/golden/tokenizer/tokenizer.json"]


def steps(*more):
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "metrics.jsonl")
        run = subprocess.run([mpirun, "-n", "4", program, *flags, "--metrics", file, *more], text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        assert run.returncode == 0, run.stdout
        assert run.stdout.rstrip().endswith("OK"), run.stdout
        with open(file) as lines:
            return [line for line in map(json.loads, lines) if line["kind"] == "step"]


runs = {"cpu": steps("--device", "cpu"), "staged": steps("--device", "cuda", "--nccl", "off"),
        "nccl": steps("--device", "cuda")}
for name, run in runs.items():
    print(name, [(step["loss"], step["grad_norm"]) for step in run])
    assert len(run) == 2
    for step, expected in zip(run, runs["cpu"]):
        for key in ("loss", "grad_norm"):
            assert abs(step[key] - expected[key]) <= 1e-5 * expected[key], (name, key, step[key], expected[key])
        assert step["sent_bytes"] == expected["sent_bytes"], (name, step["sent_bytes"], expected["sent_bytes"])
