"""./course trace FILE: sums up what --trace FILE wrote, by kernel, collective and rank."""
import argparse
import json

from course_base import Stop


def read(path):
    """(events, other data). Every event is checked: numbers where numbers belong, dur not negative."""
    try:
        with open(path, encoding="utf-8") as file:
            whole = json.load(file)
    except OSError as error:
        raise Stop(f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise Stop(f"{path}: is no JSON: {error}") from None
    if not isinstance(whole, dict) or not isinstance(whole.get("traceEvents"), list):
        raise Stop(f"{path}: has no traceEvents: it is no trace")
    other = whole.get("otherData") or {}
    if not isinstance(other.get("ranks"), int) or other["ranks"] < 1:
        raise Stop(f"{path}: does not say its ranks: it is no trace of this course")
    events = []
    for number, event in enumerate(whole["traceEvents"]):
        if not isinstance(event, dict) or event.get("ph") not in ("X", "M"):
            raise Stop(f"{path}: event {number} is neither a complete event nor a name: {json.dumps(event)[:80]}")
        if event["ph"] == "M":
            continue
        numbers = [event.get(key) for key in ("ts", "dur", "tid")]
        if not all(isinstance(n, (int, float)) for n in numbers) or numbers[1] < 0:
            raise Stop(f"{path}: event {number} has no ts, no tid or no dur of 0 or more: {json.dumps(event)[:80]}")
        events.append(event)
    return events, other


def badly_nested(events):
    """The first two events of one track that overlap and do not nest, as a line, or ''."""
    tracks = {}
    for e in events:
        begin = round(e["ts"] * 1000)
        tracks.setdefault(e["tid"], []).append((begin, -(begin + round(e["dur"] * 1000)), e["name"]))
    for tid, spans in tracks.items():
        open_ends = []
        for begin, end, name in sorted(spans):
            while open_ends and open_ends[-1][0] <= begin:
                open_ends.pop()
            if open_ends and -end > open_ends[-1][0]:
                return f"track {tid}: {name} at {begin / 1000} us ends after {open_ends[-1][1]}"
            open_ends.append((-end, name))
    return ""


def union(spans):
    """Spans as sorted ones that do not touch."""
    merged = []
    for begin, end in sorted(spans):
        if merged and begin <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([begin, end])
    return merged


def length(spans):
    return sum(end - begin for begin, end in spans)


def shared(a, b):
    """How much of two unions is in both."""
    total, i, j = 0, 0, 0
    while i < len(a) and j < len(b):
        total += max(0, min(a[i][1], b[j][1]) - max(a[i][0], b[j][0]))
        if a[i][1] < b[j][1]:
            i += 1
        else:
            j += 1
    return total


def summary(events, ranks, everything=False):
    """A dict: what the tables show. Times in ms. Without `everything` only what began inside a step counts, where there are steps."""
    steps = {r: union((e["ts"], e["ts"] + e["dur"]) for e in events if e["tid"] == r and e.get("cat") == "phase" and e["name"] == "step")
             for r in range(ranks)}
    inside = not everything and all(steps.values())
    rows, by_rank = {}, []
    for r in range(ranks):
        mine = [e for e in events if e["tid"] % ranks == r]
        if inside:
            spans = steps[r]
            mine = among(mine, spans)
            whole = length(spans)
        else:
            whole = max((e["ts"] + e["dur"] for e in mine), default=0) - min((e["ts"] for e in mine), default=0)
        kernels = union((e["ts"], e["ts"] + e["dur"]) for e in mine if e.get("cat") == "kernel")
        comm = union((e["ts"], e["ts"] + e["dur"]) for e in mine if e.get("cat") == "collective")
        waited = 0
        for e in mine:
            if e.get("cat") not in ("kernel", "collective"):
                continue
            row = rows.setdefault((e["cat"], e["name"]), {"calls": [0] * ranks, "ms": [0.0] * ranks, "waited": [0.0] * ranks})
            row["calls"][r] += 1
            row["ms"][r] += e["dur"] / 1e3
            if e["cat"] == "collective":
                row["waited"][r] += e["args"]["waited_us"] / 1e3
                waited += e["args"]["waited_us"]
        by_rank.append({"ms": whole / 1e3, "kernels": length(kernels) / 1e3, "waited": waited / 1e3, "comm": length(comm) / 1e3,
                        "hidden": shared(kernels, comm) / length(comm) if comm else None})
    return {"rows": rows, "ranks": by_rank, "steps": max(len(s) for s in steps.values()) if inside else None}


def among(events, spans):
    """The events that begin inside sorted spans."""
    kept, at = [], 0
    for e in sorted(events, key=lambda e: e["ts"]):
        while at < len(spans) and spans[at][1] <= e["ts"]:
            at += 1
        if at < len(spans) and spans[at][0] <= e["ts"]:
            kept.append(e)
    return kept


def table(header, rows):
    widths = [max(len(str(line[c])) for line in [header] + rows) for c in range(len(header))]
    def line(cells):
        return "  ".join(str(c).ljust(w) if i == 0 else str(c).rjust(w) for i, (c, w) in enumerate(zip(cells, widths))).rstrip()
    return "\n".join([line(header), "  ".join("─" * w for w in widths)] + [line(r) for r in rows])


def show(path, everything=False):
    """The text of ./course trace."""
    events, other = read(path)
    problem = badly_nested(events)
    if problem:
        raise Stop(f"{path}: {problem}")
    ranks = other["ranks"]
    found = summary(events, ranks, everything)
    mean = sum(r["ms"] for r in found["ranks"]) / ranks or 1
    what = f"{found['steps']} steps" if found["steps"] else "the whole run"
    lines = [f"{path}: {len(events):,} events, {ranks} rank{'s' * (ranks > 1)}, {what} of {mean:.1f} ms", ""]
    if any(other.get("left_out") or []):
        lines.insert(1, "full: later events were left out, by rank: " + ", ".join(f"{n:,}" for n in other["left_out"]))
    shown = sorted(found["rows"].items(), key=lambda kv: -sum(kv[1]["ms"]))
    few = range(min(ranks, 8))
    rows = [[name, round(sum(row["calls"]) / ranks, 1), *(f"{row['ms'][r]:.2f}" for r in few),
             f"{100 * sum(row['ms']) / ranks / mean:.1f}%", f"{sum(row['waited']) / ranks:.2f}" if cat == "collective" else ""]
            for (cat, name), row in shown]
    lines.append(table(["ms", "calls", *(f"rank {r}" for r in few), "share", "waiting"], rows))
    lines += ["", table(["rank", "ms", "in kernels", "waiting", "other", "collectives", "behind kernels"],
                        [[r, f"{x['ms']:.1f}", f"{x['kernels']:.1f}", f"{x['waited']:.1f}",
                          f"{x['ms'] - x['kernels'] - x['waited']:.1f}", f"{x['comm']:.1f}",
                          "–" if x["hidden"] is None else f"{100 * x['hidden']:.1f}%"] for r, x in enumerate(found["ranks"])])]
    compute = [r["kernels"] for r in found["ranks"]]
    if ranks > 1 and sum(compute):
        lines.append(f"computing, longest rank over mean: {max(compute) * ranks / sum(compute):.3f}")
    return "\n".join(lines)


def main(arguments):
    parser = argparse.ArgumentParser(prog="./course trace", description=__doc__.split(": ", 1)[1])
    parser.add_argument("file", help="what --trace FILE wrote")
    parser.add_argument("--all", action="store_true", help="the whole run, not only its training steps")
    options = parser.parse_args(arguments)
    print(show(options.file, options.all))
    return 0
