"""Executes notebooks without a browser, and stores what they give or compares it with what is stored. Runs with the Python of .notebook/.

The rule of comparison. A cell's text is the same, to the letter; of a picture, the words in it. In a cell with the tag
`varies` (times, and numbers that depend on the processor's rounding) numbers may differ, and so may a picture's words.
A cell that raises is a fault in any case, and so are a picture that is missing and one too many.
"""
import json
import re
import sys
from pathlib import Path

NUMBER = re.compile(r"[-+]?\d[\d,]*(\.\d+)?(e[-+]?\d+)?")
COLOUR = re.compile(r"\x1b\[[\d;]*m")
CELL_SECONDS = 300


def text_of(output):
    """What an output says in plain text; a picture says nothing."""
    if output["output_type"] == "stream":
        return "".join(output["text"])
    if output["output_type"] == "error":
        return f"{output['ename']}: {output['evalue']}\n"
    return "" if picture_of(output) else "".join(output["data"].get("text/plain", "")) + "\n"


def picture_of(output):
    """The words of a picture, in their order; None if the output is no picture."""
    data = output.get("data", {})
    if "image/svg+xml" in data:
        return re.findall(r"<text[^>]*>([^<]*)</text>", "".join(data["image/svg+xml"]))
    return [] if any(kind.startswith("image/") for kind in data) else None


def masked(text):
    return re.sub(r"\s+", " ", NUMBER.sub("#", text)).strip()


def difference(stored, made):
    """In what the outputs of a code cell differ, as a line; '' if they agree. Both are cells, of equal source."""
    varies = "varies" in made["metadata"].get("tags", [])
    texts = ["".join(map(text_of, cell["outputs"])) for cell in (stored, made)]
    before, after = [masked(text) for text in texts] if varies else texts
    if before != after:
        lines = [text.splitlines() for text in texts]
        at = next((i for i, (a, b) in enumerate(zip(*lines)) if (masked(a) != masked(b) if varies else a != b)), min(map(len, lines)))
        said = [repr(text[at]) if at < len(text) else "nothing" for text in lines]
        return f"line {at + 1} is stored as {said[0]}, and now is {said[1]}"
    pictures = [[p for p in map(picture_of, cell["outputs"]) if p is not None] for cell in (stored, made)]
    if len(pictures[0]) != len(pictures[1]):
        return f"{len(pictures[0])} pictures are stored, and now there are {len(pictures[1])}"
    for number, (old, new) in enumerate(zip(*pictures), 1):
        if not varies and old != new:
            words = next(((a, b) for a, b in zip(old, new) if a != b), (f"{len(old)} words", f"{len(new)} words"))
            return f"picture {number} is stored with {words[0]!r}, and now has {words[1]!r}"
    return ""


def stale(stored, made):
    """A line for each code cell whose stored output is no longer what the notebook gives."""
    pairs = [(number, *cells) for number, cells in enumerate(zip(stored["cells"], made["cells"]), 1) if cells[0]["cell_type"] == "code"]
    found = ((number, difference(before, after)) for number, before, after in pairs)
    return [f"cell {number}: {what}" for number, what in found if what]


def tidy(notebook):
    """Takes out what differs from run to run and says nothing: times of cells, the version of Python, streams in pieces."""
    notebook["metadata"] = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}, "language_info": {"name": "python"}}
    for cell in notebook["cells"]:
        cell["metadata"].pop("execution", None)
        outputs = []
        for output in cell.get("outputs", []):
            if outputs and output["output_type"] == "stream" == outputs[-1]["output_type"] and output["name"] == outputs[-1]["name"]:
                outputs[-1]["text"] += output["text"]
            else:
                outputs.append(output)
        if cell["cell_type"] == "code":
            cell["outputs"] = outputs
    return notebook


def execute(path):
    """The notebook with the outputs of a run in a kernel of its own; CellExecutionError or CellTimeoutError if a cell fails."""
    import nbclient
    import nbformat
    notebook = nbformat.read(path, as_version=4)
    nbclient.NotebookClient(notebook, timeout=CELL_SECONDS, kernel_name="python3", resources={"metadata": {"path": str(path.parent)}},
                            extra_arguments=["--IPKernelApp.log_level=50"]).execute()
    return tidy(notebook)


def main(words):
    import nbformat
    from nbclient.exceptions import CellExecutionError, CellTimeoutError
    store, paths, faults = words[0] == "--store", [Path(word) for word in words[1:]], 0
    for path in paths:
        try:
            made = execute(path)
        except (CellExecutionError, CellTimeoutError) as error:
            print(f"{path.name}: a cell fails\n{COLOUR.sub('', str(error))}", flush=True)
            faults += 1
            continue
        except Exception as error:                      # the kernel was told to end, or killed: nbclient has many words for it
            print(f"{path.name}: its kernel ended too early ({type(error).__name__} {error})".replace(" )", ")"), file=sys.stderr)
            return 1
        if store:
            path.write_text(nbformat.writes(made) + "\n", encoding="utf-8")
            print(f"{path.name}: stored, {path.stat().st_size // 1024} KiB", flush=True)
            continue
        wrong = stale(json.loads(path.read_text(encoding="utf-8")), json.loads(nbformat.writes(made)))
        faults += bool(wrong)
        print(f"{path.name}: " + ("\n  ".join(["what is stored is not what it gives; ./course notebook --execute stores it anew", *wrong])
                                  if wrong else f"{len(made['cells'])} cells, as stored"), flush=True)
    return 1 if faults or not paths else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
