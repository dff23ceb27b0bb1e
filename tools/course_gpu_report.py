"""What ./course gpu-check writes: gpu-report.json, which is everything, and gpu-report.md, for reading."""
import json
import time

PASSED, FAILED, SKIPPED = "passed", "FAILED", "skipped"


class Report:
    """What is known so far, in two files. `json` is everything, `md` is for reading."""

    def __init__(self, folder, machine):
        self.folder, self.machine, self.tests, self.figures, self.start = folder, machine, [], [], time.monotonic()
        folder.mkdir(parents=True, exist_ok=True)

    def test(self, group, name, result, seconds=0.0, why=""):
        self.tests.append({"group": group, "name": name, "result": result, "seconds": round(seconds, 2), "why": why})

    def figure(self, group, **values):
        self.figures.append({"group": group, **values})

    def count(self, result):
        return sum(test["result"] == result for test in self.tests)

    def summary(self):
        return f"{self.count(PASSED)} passed, {self.count(FAILED)} failed, {self.count(SKIPPED)} skipped"

    def write(self, complete=False):
        whole = {**self.machine, "complete": complete, "seconds": round(time.monotonic() - self.start), "tests": self.tests,
                 "figures": self.figures}
        for name, text in (("json", json.dumps(whole, indent=1) + "\n"), ("md", self.markdown(complete))):
            aside = self.folder / f".gpu-report.{name}"
            aside.write_text(text, encoding="utf-8")
            aside.replace(self.folder / f"gpu-report.{name}")

    def markdown(self, complete):
        m = self.machine
        lines = ["# What a GPU said", ""]
        if m["emulated"]:
            lines += ["**Emulated**: no GPU has seen any of this, and the figures say nothing.", "", f"{m['date']}, {m['cores']} cores."]
        else:
            lines += [f"{m['date']}: {m['card']}, driver {m['driver']} (for CUDA {m['driver_cuda']}), toolkit {m['toolkit']}, "
                      f"{m['cores']} cores."]
        lines += ["", f"Tests: {self.summary()}." + ("" if complete else " **The run was cut off: this is what there was.**"), ""]
        bad = [test for test in self.tests if test["result"] != PASSED]
        lines += table(["not passed", "", "why"], [[t["name"], t["result"], t["why"]] for t in bad]) if bad else []
        for group in dict.fromkeys(figure["group"] for figure in self.figures):
            rows = [{k: v for k, v in f.items() if k != "group"} for f in self.figures if f["group"] == group]
            heads = list(dict.fromkeys(key for row in rows for key in row))
            lines += [f"## {group}", ""] + table(heads, [[shown(row.get(head)) for head in heads] for row in rows])
        lines += ["## Every test", ""] + table(["group", "test", "result", "seconds"],
                                               [[t["group"], t["name"], t["result"], f"{t['seconds']:.1f}"] for t in self.tests])
        return "\n".join(lines).rstrip() + "\n"


def shown(value):
    return "–" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def table(heads, rows):
    clean = [[str(cell).replace("|", "\\|").replace("\n", " ") for cell in row] for row in rows]
    return ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)] + ["| " + " | ".join(row) + " |" for row in clean] + [""]
