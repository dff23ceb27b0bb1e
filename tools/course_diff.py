"""./course diff RUN RUN: the first step and tensor in which two runs differ.

A RUN is a metrics file, a folder of --dump-tensors, or a folder that holds metrics.jsonl or such a folder.
Exit code 0: equal within the tolerance; 1: they differ; 2: wrong usage, or nothing to compare.
"""
import argparse
import array
import json
import math
import re
import struct
import sys
from pathlib import Path

from course_base import Stop


# ---- reading ---------------------------------------------------------------------------------------------------------

def read_metrics(path):
    """{step: {name: [values]}} of a metrics file; a line cut short is passed over."""
    steps = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            row = json.loads(line)
            kind, step = row["kind"], row["step"]
        except (ValueError, KeyError, TypeError):
            continue
        def number(value):
            return [math.nan if value is None else float(value)]
        into = steps.setdefault(int(step), {})
        if kind == "step":
            into.update({key: number(row[key]) for key in ("loss", "grad_norm", "lr", "tokens") if key in row})
        elif kind == "validation":
            into["held-out loss"] = number(row.get("loss"))
        elif kind == "gradients":
            into.update({f"|grad.{name}|": number(value) for name, value in row["norms"].items()})
    return {step: values for step, values in steps.items() if values}


def read_safetensors(path):
    """{name: (shape, values)} of F32 and F64 tensors."""
    data = path.read_bytes()
    try:
        size, = struct.unpack_from("<Q", data)
        header = json.loads(data[8:8 + size])
        tensors = {}
        for name, info in header.items():
            if name == "__metadata__":
                continue
            code = {"F32": "f", "F64": "d"}[info["dtype"]]
            begin, end = info["data_offsets"]
            part = data[8 + size + begin:8 + size + end]
            if len(part) != end - begin or len(part) != math.prod(info["shape"]) * (4 if code == "f" else 8):
                raise ValueError(name)
            values = array.array(code, part)
            if sys.byteorder == "big":
                values.byteswap()
            tensors[name] = (info["shape"], values)
        return tensors
    except (struct.error, ValueError, KeyError, TypeError) as error:
        raise Stop(f"{path}: is no safetensors file of a dump ({error!r})", 2) from None


def dumps_in(folder):
    found = {}
    for path in folder.glob("step-*.safetensors"):
        match = re.fullmatch(r"step-(\d+)\.safetensors", path.name)
        if match:
            found[int(match.group(1))] = path
    return found


def find_run(word):
    """('metrics', {step: {name: values}}) or ('dump', {step: path})."""
    path = Path(word)
    if path.is_file():
        found = read_metrics(path)
        if not found:
            raise Stop(f"{word}: holds no line of a step: it is no metrics file", 2)
        return "metrics", found
    if not path.is_dir():
        raise Stop(f"{word}: no such file or folder", 2)
    folders = [path] + sorted(p for p in path.iterdir() if p.is_dir())
    for folder in folders:
        if dumps_in(folder):
            return "dump", dumps_in(folder)
    if (path / "metrics.jsonl").is_file():
        return find_run(path / "metrics.jsonl")
    raise Stop(f"{word}: holds neither step-*.safetensors of --dump-tensors nor metrics.jsonl", 2)


# ---- comparing -------------------------------------------------------------------------------------------------------

def difference(a, b, rtol, atol):
    """(largest |a-b|, its place, whether any is beyond the tolerance). nan equals nan; nan and a number differ by nan.

    The tolerance is atol + rtol·(|b| + the root mean square of b): a number near 0 among large ones is not held to its own size.
    """
    finite = [y for y in b if math.isfinite(y)]
    rms = math.sqrt(sum(y * y for y in finite) / len(finite)) if finite else 0.0
    worst, place, beyond = 0.0, 0, False
    for i, (x, y) in enumerate(zip(a, b)):
        if x == y or (x != x and y != y):
            continue
        apart = abs(x - y)
        beyond = beyond or not apart <= atol + rtol * (abs(y) + rms)
        if worst == worst and (apart > worst or apart != apart):
            worst, place = apart, i
    return worst, place, beyond


def index_of(shape, place):
    index = []
    for size in reversed(shape):
        index.append(place % size)
        place //= size
    return "[" + ",".join(map(str, reversed(index))) + "]"


def compare(left, right, rtol, atol):
    """(rows, steps compared). A row: name, first step beyond the tolerance or None, largest difference of all steps, where."""
    (kind, a), (other, b) = left, right
    if kind != other:
        raise Stop(f"one is a {kind}, the other a {other}: they cannot be compared", 2)
    steps = sorted(set(a) & set(b))
    if not steps:
        raise Stop(f"no step in common: {span(a)} and {span(b)}", 2)
    rows = {}
    for step in steps:
        one, two = (({n: ([1], v) for n, v in r[step].items()} if kind == "metrics" else read_safetensors(r[step])) for r in (a, b))
        for name in sorted(set(one) | set(two)):
            row = rows.setdefault(name, {"first": None, "worst": 0.0, "where": ""})
            if name not in one or name not in two:
                if kind == "metrics":               # another validation, or gradients not watched
                    continue
                row.update(first=row["first"] or step, worst=math.nan, where=f"only in the {'first' if name in one else 'second'} run")
                continue
            (shape, x), (shape_two, y) = one[name], two[name]
            if shape != shape_two:
                row.update(first=row["first"] or step, worst=math.nan, where=f"shapes {shape} and {shape_two}")
                continue
            worst, place, beyond = difference(x, y, rtol, atol)
            if beyond and row["first"] is None:
                row["first"] = step
            if row["worst"] == row["worst"] and not worst <= row["worst"]:
                row["worst"] = worst
                at = index_of(shape, place) + " " if len(x) > 1 else ""
                row["where"] = f"step {step}, {at}{float(x[place]):.9g} and {float(y[place]):.9g}"
    return rows, steps


def span(run):
    return f"steps {min(run)} to {max(run)}"


def order(item):
    """The first to differ first; in one step, weights follow the gradients that made them."""
    name, row = item
    return row["first"] is None, row["first"] or 0, name.startswith("weight."), name.startswith("grad."), -row["worst"]


def report(left, right, rows, steps, rtol, atol, most=12):
    lines = [f"{len(steps)} steps in common, {steps[0]} to {steps[-1]}; tolerance {atol:g} + {rtol:g}·(|second| + its rms)"]
    for name, run in (("first", left[1]), ("second", right[1])):
        if set(run) - set(steps):
            lines.append(f"only in the {name} run: {len(set(run) - set(steps))} steps")
    differ = sorted((i for i in rows.items() if i[1]["first"] is not None), key=order)
    alike = sorted((i for i in rows.items() if i[1]["first"] is None), key=lambda i: -i[1]["worst"])
    shown = differ[:most] if differ else alike[:4]
    width = max(len(name) for name, _ in shown)
    lines += ["", f"{'':{width}}  first step  largest difference"]
    for name, row in shown:
        lines.append(f"{name:{width}}  {row['first'] or '–':>10}  {row['worst']:.3g}" + (f" ({row['where']})" if row["where"] else ""))
    if len(differ) > most:
        lines.append(f"and {len(differ) - most} more")
    if differ:
        lines.append(f"\nthey differ, first in step {differ[0][1]['first']}: {differ[0][0]}")
    else:
        lines.append(f"\nequal within the tolerance: {len(rows)} {'tensors' if left[0] == 'dump' else 'quantities'}")
    return "\n".join(lines), 1 if differ else 0


def tolerance(text):
    value = float(text)
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is no tolerance: 0 or more")
    return value


def main(arguments):
    parser = argparse.ArgumentParser(prog="./course diff", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("first")
    parser.add_argument("second")
    parser.add_argument("--rtol", type=tolerance, default=1e-3, help="relative to the second run's value and its tensor's root mean square (%(default)g)")
    parser.add_argument("--atol", type=tolerance, default=1e-8, help="absolute (%(default)g)")
    options = parser.parse_args(arguments)
    try:
        left, right = find_run(options.first), find_run(options.second)
        rows, steps = compare(left, right, options.rtol, options.atol)
    except OSError as error:
        raise Stop(str(error), 2) from None
    text, code = report(left, right, rows, steps, options.rtol, options.atol)
    print(text)
    return code
