"""What is stored: a notebook that a reader and a reviewer can use on any machine."""
import json
import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MOST = 200 * 1024
CHAPTERS = {"01_split": [1], "02_collectives": [2], "03_mesh_and_placements": [3], "04_memory_and_bytes": [4, 5, 6, 7, 8],
            "05_training": [9, 10, 11, 12, 13], "06_the_same_in_pytorch": []}


def text_of(value):
    """Every string in a value of JSON, in one."""
    if isinstance(value, dict):
        return "\n".join(map(text_of, value.values()))
    return "".join(map(text_of, value)) if isinstance(value, list) else str(value)


def faults(name, notebook, folder=ROOT / "notebooks"):
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    prose = "\n".join("".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "markdown")
    for path in re.findall(r"(?<![\w./:])/(?:tmp|home|root|work|usr|opt|Users)/[\w./-]*", text_of(notebook["cells"])):
        yield f"{name} names a path of one machine: {path}"
    if not code or any(cell["execution_count"] is None for cell in code):
        yield f"{name}: a cell was never executed: ./course notebook --execute"
    if any(output["output_type"] == "error" for cell in code for output in cell["outputs"]):
        yield f"{name}: an error is stored"
    if not any("image/svg+xml" in output.get("data", {}) for cell in code for output in cell["outputs"]):
        yield f"{name}: no picture is stored"
    if "Predict" not in prose or not any(re.search(r"^\w+ = None$", "".join(cell["source"]), re.M) for cell in code):
        yield f"{name}: has no cell to predict in"
    if "## What to notice" not in prose:
        yield f"{name}: does not say what to notice"
    for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", prose):
        if not (folder / link).exists():
            yield f"{name}: the link {link} leads nowhere"


class Stored(unittest.TestCase):
    def notebooks(self):
        return {path.stem: path for path in sorted((ROOT / "notebooks").glob("*.ipynb"))}

    def test_all_are_there(self):
        self.assertEqual(list(self.notebooks()), list(CHAPTERS))

    def test_each(self):
        found = [fault for name, path in self.notebooks().items() for fault in faults(name, json.loads(path.read_text(encoding="utf-8")))]
        self.assertEqual(found, [])

    def test_small_enough_to_review(self):
        self.assertEqual([name for name, path in self.notebooks().items() if path.stat().st_size > MOST], [])

    def test_the_chapters_point_to_them(self):
        for name, numbers in CHAPTERS.items():
            for number in numbers:
                readme = next((ROOT / "chapters").glob(f"{number:02}_*")) / "README.md"
                self.assertIn(f"(../../notebooks/{name}.ipynb)", readme.read_text(encoding="utf-8"), readme)

    def test_it_sees_the_faults(self):
        right = json.loads(self.notebooks()["01_split"].read_text(encoding="utf-8"))
        cells = right["cells"]
        first_code = next(i for i, cell in enumerate(cells) if cell["cell_type"] == "code")
        spoilt = {"a path of one machine": lambda c: c[first_code]["source"].append('\nopen("/home/me/x")'),
                  "never executed": lambda c: c[first_code].update(execution_count=None),
                  "an error is stored": lambda c: c[first_code]["outputs"].append({"output_type": "error"}),
                  "no picture": lambda c: [cell.update(outputs=[]) for cell in c if cell["cell_type"] == "code"],
                  "leads nowhere": lambda c: c[0]["source"].append("[x](../nosuch.md)"),
                  "to predict in": lambda c: [cell.update(source=[]) for cell in c if "= None" in "".join(cell["source"])],
                  "what to notice": lambda c: [cell.update(source=[]) for cell in c if "What to notice" in "".join(cell["source"])]}
        self.assertEqual(list(faults("right", right)), [])
        for words, spoil in spoilt.items():
            copy = json.loads(json.dumps(right))
            spoil(copy["cells"])
            self.assertTrue(any(words in fault for fault in faults("wrong", copy)), words)


if __name__ == "__main__":
    unittest.main()
