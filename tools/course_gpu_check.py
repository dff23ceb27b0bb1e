"""./course gpu-check: everything that a GPU has to prove, on this machine, in one report.

  ./course gpu-check                 builds for the cards that are here, in build-gpu/; runs the GPU's tests and benchmark;
                                     writes benchmarks/gpu-report.md and .json
  ./course gpu-check --emulate       the same on the emulated GPU: few tests, small sizes, figures that say nothing;
                                     the report stays in build-emulate/
  ./course gpu-check --torch PATH/TO/python   a Python that has torch with CUDA; without this: .peer/bin/python,
                                     this Python, python3
  ./course gpu-check --out FOLDER    the report goes there
  ./course gpu-check --tests | --figures      the tests alone, the benchmark alone

A test that fails stops nothing. The report is written anew after each group of tests and each figure, so a run that is cut
off leaves what it has. Exit code: 0 all passed, 1 something failed, 2 no GPU here or wrong flags.
"""
import argparse
import contextlib
import datetime
import json
import os
import tempfile
import time
import xml.etree.ElementTree as xml
from pathlib import Path

import bench
import course_gpu as gpu
from course_base import ROOT, Stop, capture, dotted, telling, version
from course_gpu_report import FAILED, PASSED, SKIPPED, Report

PEER = ROOT / "benchmarks" / "peer"
# (group, ctest's flags): what computes on the device. What is refused before, and pages of text, are tested elsewhere.
NEVER = "refuses|expected_output|no_checkpoint|^any_rank"
GROUPS = [("what only a GPU has", ["-R", r"^(cuda|nccl)\.[0-9]$"]),
          ("tensors, kernels, collectives", ["-R", r"^(backend|tensor|comm|slice)(\.unchecked|\.golden)?\.[1-4]$"])]
GROUPS += [(f"chapter {number:02}", ["-L", f"^chapter{number:02}$"]) for number in range(1, 14)]
EMULATED_GROUPS = [("what only a GPU has", ["-R", r"^(cuda\.[12]|nccl\.2)$"]), ("tensors, kernels, collectives", ["-R", r"^(tensor\.1|comm\.2)$"]),
                   ("chapter 04", ["-R", r"^04_sharded_linear(\.golden|\.run)?\.[12]$"])]
EMULATED_TARGETS = ["test_cuda", "test_nccl", "test_tensor", "test_comm", "test_04_sharded_linear", "04_sharded_linear", "02_collectives",
                    "13_two_dimensional", "gpu_kernels"]
TIMEOUT = 300                                           # seconds of one program; tests have limits of their own
STEPS = 10


def parse(arguments):
    parser = argparse.ArgumentParser(prog="./course gpu-check", usage="./course gpu-check [flags]", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False)
    parser.add_argument("--emulate", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--torch", help=argparse.SUPPRESS)
    parser.add_argument("--out", help=argparse.SUPPRESS)
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--tests", action="store_true", help=argparse.SUPPRESS)
    only.add_argument("--figures", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


# ---- the machine -----------------------------------------------------------------------------------------------------

def find_device(options):
    """Fills options.machine, and options.peer, (a Python whose torch sees the GPU, its words) or (None, why there is none). Ends with
    one line and exit code 2 where there is nothing to check."""
    options.machine = {"date": datetime.datetime.now().isoformat(timespec="minutes"), "emulated": options.emulate, "cores": os.cpu_count()}
    if not options.emulate:
        cards, why = gpu.cards()
        nvcc = gpu.nvcc()
        if not cards or not nvcc:
            why = why or "no CUDA toolkit: nvcc is not found"
            raise Stop(f"gpu-check: no GPU to check: {why}; ./course gpu-check --emulate runs on the emulated GPU", 2)
        own, cuda = gpu.driver_version()
        options.machine.update(cards=cards, card=gpu.words(cards), driver=own or "unknown", driver_cuda=cuda,
                               toolkit=dotted(version(nvcc, "V")) or "unknown", nccl=nccl_of_torch(options.torch))
    python, torch = bench.find_torch(options.torch, gpu=True)
    options.peer = (None, "") if options.emulate else (python, "PyTorch " + torch if python else torch)


def definitions(options):
    """What CMake is told of the cards; of the emulated one ./course itself tells it."""
    if options.emulate:
        return []
    kinds = sorted({card["capability"].replace(".", "") for card in options.machine["cards"]})
    nccl = options.machine["nccl"]
    cards = "-DCMAKE_CUDA_ARCHITECTURES=" + ";".join(kind + "-real" for kind in kinds)
    return ["-DCOURSE_CUDA=on", cards] + (["-DNCCL_ROOT=" + nccl] if nccl else [])


def nccl_of_torch(named):
    """The folder of the NCCL that came with a Python's torch, or "". CMake takes the system's own where it finds none there."""
    for python in [named] if named else bench.PYTHONS:
        code, out, _ = capture([python, "-c", "import nvidia.nccl; print(list(nvidia.nccl.__path__)[0])"], TIMEOUT, apart=True)
        if code == 0 and (Path(out.strip()) / "include" / "nccl.h").is_file():
            return out.strip()
    return ""


# ---- the tests -------------------------------------------------------------------------------------------------------

def read_junit(path):
    """[(name, result, seconds, why)] of what ctest wrote."""
    found = []
    with contextlib.suppress(OSError, xml.ParseError):
        for case in xml.parse(path).getroot().iter("testcase"):
            output = case.findtext("system-out") or ""
            skipped, failure = case.find("skipped"), case.find("failure")
            status = case.get("status")
            if skipped is not None or status in ("disabled", "notrun") and failure is None:
                result, why = SKIPPED, telling(output) or (skipped.get("message") if skipped is not None else "not run")
            else:
                result = PASSED if status == "run" and failure is None else FAILED
                why = "" if result == PASSED else telling(output) or (failure.get("message") if failure is not None else "")
            found.append((case.get("name"), result, float(case.get("time") or 0), why))
    return found


def run_tests(report, groups, build, jobs, say):
    for group, flags in groups:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "junit.xml"
            code, said = capture(["ctest", "--test-dir", build, *flags, "-E", NEVER, "-LE", "^slow$", "-j", jobs, "--output-junit", path])
            found = read_junit(path)
        for name, result, seconds, why in found:
            report.test(group, name, result, seconds, why)
        if not found:
            report.test(group, group, FAILED, 0, f"ctest ran nothing (exit code {code}): {telling(said)}")
        report.write()
        bad = [name for name, result, _, _ in found if result == FAILED]
        say(f"{group}: {sum(r == PASSED for _, r, _, _ in found)} of {len(found)} passed" + (f"; failed: {', '.join(bad)}" if bad else ""))


def first_words(report, build, launcher, say):
    """That --device cuda works at all, on each number of ranks: without it every other test would take the processor."""
    for ranks in (1, 2, 4):
        start = time.monotonic()
        code, _, err = capture([launcher, "-n", ranks, build / "bin" / "02_collectives", "--device", "cuda", "--count", 7,
                                "--largest", 16384], TIMEOUT, apart=True)
        report.test("--device cuda", f"02_collectives on {ranks} ranks", FAILED if code else PASSED, time.monotonic() - start,
                    telling(err) if code else "")
    report.write()
    say(f"--device cuda: {report.summary()}")


# ---- the figures -----------------------------------------------------------------------------------------------------

def timed(report, what, code, why):
    """A program that fails where it should give a figure is a fault like any other; what it refuses is skipped."""
    report.test("benchmark", what, SKIPPED if code == 2 else FAILED if code or why else PASSED, 0, why)


def step_figures(report, emulate, build, launcher, torch, say):
    """A training step on one rank beside PyTorch's, then what it costs that ranks share one GPU."""
    sizes = ["--preset", "article", "--batch", 16, "--seq", 512, "--steps", STEPS]
    if emulate:
        sizes = ["--preset", "tiny", "--batch", 4, "--seq", 16, "--steps", 1]
    program, group = build / "bin" / "13_two_dimensional", "A training step, one rank"
    alone = {}
    for dtype in ("f32", "mixed"):
        ours, why, code = bench.last_json([launcher, "-n", 1, program, "--bench", "--device", "cuda", "--dtype", dtype, *sizes], TIMEOUT)
        timed(report, f"a step in {dtype}", code, why)
        row = {"dtype": dtype, "tokens/s": float(ours["tokens_per_s"]) if ours else None, "ms": float(ours["step_ms"]) if ours else None}
        beside = torch[1]
        if torch[0]:
            peer, beside, _ = bench.last_json([torch[0], PEER / "torch_llama.py", "--device", "cuda", "--dtype", dtype, "--preset", "article",
                                               "--batch", 16, "--steps", STEPS], TIMEOUT)
            row[torch[1] + " tokens/s"] = float(peer["tokens_per_s"]) if peer else None
            row["ours / PyTorch"] = ours["tokens_per_s"] / peer["tokens_per_s"] if ours and peer else None
        alone[dtype] = ours
        report.figure(group, **row, note=why or beside)
        report.write()
        say(f"a step in {dtype}: " + (f"{ours['tokens_per_s']:.0f} tokens/s" if ours else f"skipped: {why}"))
    for ranks in (2, 4):
        ours, why, code = bench.last_json([launcher, "-n", ranks, program, "--bench", "--device", "cuda", "--dtype", "f32", "--tp", ranks, *sizes],
                                          TIMEOUT)
        timed(report, f"a step on {ranks} ranks", code, why)
        one = alone["f32"]
        report.figure("Ranks that share the GPUs here: what sharing costs, no speed-up", ranks=ranks, mesh=f"1 × {ranks}",
                      **{"tokens/s": float(ours["tokens_per_s"]) if ours else None,
                         "of one rank": ours["tokens_per_s"] / one["tokens_per_s"] if ours and one else None}, note=why)
        report.write()
        say(f"{ranks} ranks: " + (f"{ours['tokens_per_s']:.0f} tokens/s" if ours else f"skipped: {why}"))


def attention_of_torch(torch, dtype):
    """({kernel: microseconds}, "") of PyTorch's attention, or ({}, why there are none)."""
    if not torch[0]:
        return {}, torch[1]
    code, out, err = capture([torch[0], PEER / "torch_attention.py", "--dtype", dtype], TIMEOUT, apart=True)
    with contextlib.suppress(ValueError, KeyError):
        if code == 0:
            return {line["name"]: line["us"] for line in map(json.loads, out.splitlines())}, ""
    return {}, telling(err or out) or f"no word, exit code {code}"


def kernel_figures(report, emulate, build, launcher, torch, say):
    for dtype in ("f32", "bf16"):
        peers, no_peer = attention_of_torch(torch, dtype)
        code, out, err = capture([launcher, "-n", 1, build / "bin" / "gpu_kernels", "--device", "cuda", "--dtype", dtype,
                                  *["--small"] * emulate], TIMEOUT, apart=True)
        lines = []
        with contextlib.suppress(ValueError):
            lines = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
        for line in lines:
            name, note = line["name"], line.get("refused", "")
            if "of_copy" in line:
                report.figure("Kernels that move memory", kernel=name, dtype=dtype, us=line["us"],
                              **{"GB/s": line["gb_per_s"], "of a copy": line["of_copy"]})
            elif name.startswith("matmul") and not note:
                report.figure("Matrix products", product=name, shape=line["shape"], dtype=dtype, us=line["us"],
                              **{"TFLOP/s": line["tflop_per_s"], "of cuBLAS alone": line.get("of_cublas")})
            elif not note:
                beside = peers.get(name)
                report.figure("Attention", kernel=name, shape=line["shape"], dtype=dtype, us=line["us"],
                              **{"PyTorch's SDPA, us": beside, "PyTorch / ours": beside / line["us"] if beside else None}, note=no_peer)
            else:
                timed(report, f"{name} in {dtype}", 2 if "bf16" in note else 1, note)
        timed(report, f"gpu_kernels in {dtype}", code, telling(err or out) if code else "")
        report.write()
        say(f"kernels in {dtype}: {len(lines)} lines" + (f", ended with code {code}" if code else ""))


# ---- all of it -------------------------------------------------------------------------------------------------------

def main(options, build, launcher, make):
    """`make(targets)` builds. The build is the first thing that the report tells of."""
    def say(line):
        print(f"gpu-check: {line}", flush=True)

    folder = Path(options.out).resolve() if options.out else build if options.emulate else ROOT / "benchmarks"
    report = Report(folder, options.machine)
    say(options.machine.get("card", "the emulated GPU"))
    start = time.monotonic()
    try:
        make(EMULATED_TARGETS if options.emulate else ())
        report.test("build", "build", PASSED, time.monotonic() - start)
    except Stop as wrong:
        report.test("build", "build", FAILED, time.monotonic() - start, str(wrong))
        report.write(complete=True)
        raise
    report.write()
    first_words(report, build, launcher, say)
    if not options.figures:
        jobs = 1 if options.emulate else max(1, min(4, (os.cpu_count() or 1) // 4))
        run_tests(report, EMULATED_GROUPS if options.emulate else GROUPS, build, jobs, say)
    if not options.tests:
        step_figures(report, options.emulate, build, launcher, options.peer, say)
        kernel_figures(report, options.emulate, build, launcher, options.peer, say)
    report.write(complete=True)
    say(f"{report.summary()}; the report: {folder / 'gpu-report.md'}")
    return 1 if report.count(FAILED) else 0
