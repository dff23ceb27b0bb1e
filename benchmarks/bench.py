"""./course bench: a training step of ours and of PyTorch, in turn, as ratios.

  ./course bench                              preset small on every mesh, three rounds
  ./course bench --mesh 2x2 --mesh 1x4        these meshes, DPxTP
  ./course bench --preset tiny --rounds 5 --steps 20
  ./course bench --loss-parallel              with chapter 11's loss, in both
  ./course bench --torch PATH/TO/python       a Python that has torch; without this: .peer/bin/python, this Python, python3
  ./course bench --report                     writes benchmarks/report.md as well

A round times ours, then the peer, each the median of so many steps after three untimed ones. The ratio is formed in each round;
what is shown is the median ratio and the smallest and largest of all rounds. Without a torch only ours is timed.
"""
import argparse
import contextlib
import datetime
import json
import os
import platform
import statistics
import sys
from pathlib import Path

from course_base import Stop, capture, telling

HERE = Path(__file__).resolve().parent
PEER = HERE / "peer" / "torch_llama.py"
REPORT = HERE / "report.md"
PYTHONS = [HERE.parent / ".peer" / "bin" / "python", sys.executable, "python3"]        # where torch is looked for
MESHES = ["1x1", "1x2", "1x4", "2x1", "2x2"]
LIMITS = {"1x1": 1.1, "1x2": 0.6, "1x4": 0.5, "2x1": 1.0, "2x2": 0.6}  # what `small` must keep (issues "1 of 4" and "2 of 4")
TIMEOUT = 900                                                          # seconds for one program


def mesh(word):
    dp, _, tp = word.partition("x")
    if not (dp.isdigit() and tp.isdigit() and int(dp) and int(tp)):
        raise argparse.ArgumentTypeError(f"'{word}' is no mesh: DPxTP, as 2x2")
    return word


def positive(word):
    if not word.isdigit() or int(word) == 0:
        raise argparse.ArgumentTypeError(f"'{word}' is no number above 0")
    return int(word)


def parse(arguments):
    parser = argparse.ArgumentParser(prog="./course bench", usage="./course bench [flags]", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter, add_help=True, allow_abbrev=False)
    parser.add_argument("--preset", default="small", choices=["tiny", "small", "medium", "article"], help=argparse.SUPPRESS)
    parser.add_argument("--mesh", action="append", type=mesh, help=argparse.SUPPRESS)
    parser.add_argument("--plan", default="sequence", choices=["basic", "sequence", "article"], help=argparse.SUPPRESS)
    parser.add_argument("--loss-parallel", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--batch", type=positive, help=argparse.SUPPRESS)
    parser.add_argument("--rounds", default=3, type=positive, help=argparse.SUPPRESS)
    parser.add_argument("--steps", default=8, type=positive, help=argparse.SUPPRESS)
    parser.add_argument("--torch", help=argparse.SUPPRESS)
    parser.add_argument("--report", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def find_torch(named, gpu=False):
    """(python, version of its torch), or (None, why there is none). `gpu`: it must see one. A Python that was named must have a torch."""
    why = "no torch here"
    for python in [named] if named else PYTHONS:
        code, out, _ = capture([python, "-c", "import torch; print(torch.__version__, torch.cuda.is_available())"], 120, apart=True)
        version, _, sees = out.strip().partition(" ")
        if code == 0 and (sees == "True" or not gpu):
            return str(python), version
        if code == 0:
            why = f"torch {version} sees no GPU"
        elif named:
            raise Stop(f"--torch {named}: that Python cannot import torch", 2)
    return None, why


def last_json(command, timeout=TIMEOUT):
    """(the object on a program's last line of output, "", 0), or (None, why there is none, exit code)."""
    code, out, err = capture(command, timeout, apart=True)
    with contextlib.suppress(IndexError, ValueError):
        if code == 0:
            return json.loads(out.strip().splitlines()[-1]), "", 0
    return None, telling(err or out) or f"no word, exit code {code}", code


def step_ms(command):
    found, why, code = last_json(command)
    if not found:
        raise Stop(f"{' '.join(map(str, command))}\nended with code {code}: {why}")
    return found["step_ms"]


def flags_of(options, dp, tp):
    flags = ["--device", "cpu", "--preset", options.preset, "--plan", options.plan, "--steps", options.steps]
    flags += ["--dp", dp, "--tp", tp] + ["--loss-parallel"] * options.loss_parallel
    return flags + (["--batch", options.batch] if options.batch else [])


def ours(options, launcher, programs, dp, tp):
    return [launcher, "-n", dp * tp, programs / "13_two_dimensional", "--bench", *flags_of(options, dp, tp)]


def peers(options, python, dp, tp):
    return [python, "-m", "torch.distributed.run", "--nproc-per-node", dp * tp, PEER, *flags_of(options, dp, tp)] if dp * tp > 1 else [
        python, PEER, *flags_of(options, dp, tp)]


def machine():
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def listed(values):
    return ", ".join(f"{v:.0f}" for v in values)


def row(word, our_ms, peer_ms, limit):
    """A line of the table: every round's milliseconds, the median ratio and its spread."""
    if not peer_ms:
        return f"| {word} | {listed(our_ms)} | – | – | – | – |"
    ratios = [a / b for a, b in zip(our_ms, peer_ms)]
    spread = f"{min(ratios):.2f} – {max(ratios):.2f}"
    return f"| {word} | {listed(our_ms)} | {listed(peer_ms)} | {statistics.median(ratios):.2f} | {spread} | {limit} |"


def main(options, peer, launcher, programs):
    """`peer`: what find_torch found."""
    python, torch = peer
    plain = options.preset == "small" and options.plan == "sequence" and not options.batch
    heading = [
        "# A training step beside PyTorch's",
        f"{datetime.date.today().isoformat()}, {len(os.sched_getaffinity(0))} cores of {machine()}; "
        + (f"PyTorch {torch} with gloo" if python else f"{torch}: only ours is timed"),
        f"Preset `{options.preset}`, plan `{options.plan}`{', loss parallel' if options.loss_parallel else ''}, f32, "
        f"{options.rounds} rounds in turn, each the median of {options.steps} steps. Milliseconds a step; ratio ours / PyTorch.",
        "",
        "| dp × tp | ours, ms | PyTorch, ms | ratio | spread | asked for |",
        "|---|---|---|---|---|---|",
    ]
    if not python:
        print("course: no torch found; python3 -m venv .peer && .peer/bin/pip install torch==2.13.0 gives the peer (5 GB)",
              file=sys.stderr)
    print("\n".join(heading), flush=True)
    rows = []
    for word in options.mesh or MESHES:
        dp, tp = map(int, word.split("x"))
        our_ms, peer_ms = [], []
        for _ in range(options.rounds):
            our_ms.append(step_ms(ours(options, launcher, programs, dp, tp)))
            if python:
                peer_ms.append(step_ms(peers(options, python, dp, tp)))
        limit = f"≤ {LIMITS[word]}" if plain and word in LIMITS else "–"
        rows.append(row(word.replace("x", " × "), our_ms, peer_ms, limit))
        print(rows[-1], flush=True)
    if options.report:
        REPORT.write_text("\n".join(heading + rows) + "\n", encoding="utf-8")
        print(f"written to {REPORT.relative_to(HERE.parent)}")
    return 0
