"""./course predict [NN]: questions on what chapter NN's program will send, call or hold; then it runs, and says so itself.

The questions of a chapter are its predict.toml:

    run = "-n 4 --seq 6"                    ranks and flags of the program; a question may have its own
    [[question]]
    ask = "..."                             with every size that the answer needs
    unit = "bytes"
    table = "sent by each rank"             the printed table, by its first heading; may be left out where there is one such row
    row = "GeLU (erf), column-row, forward"
    column = "bytes: measured"
    over = "parameters"                     another row: what is asked for is how many times that
    choices = ["all-reduce", ...]           a word in place of a number
    why = "..."

No answer is written down anywhere: each is read from the table that the program prints of what its recorder measured.
"""
import ast
import math
import operator
import re
import shlex
import sys
import tomllib

import source

LIMIT = 120                     # seconds of one program
CLOSE = 0.01                    # a number this near is right: nobody asks for the last byte
UNITS = {"kib": 2**10, "mib": 2**20, "gib": 2**30}
OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}


def questions(course, number):
    """[{ask, run, ...}] of a chapter, none where it has no questions. Throws Stop."""
    path = course.ROOT / "chapters" / course.chapters()[number] / "predict.toml"
    if not path.exists():
        return []
    try:
        page = tomllib.loads(path.read_text(encoding="utf-8"))
        asked = [{"run": page["run"], "unit": "", **question} for question in page["question"]]
        for question in asked:
            for key in ("ask", "row", "column", "why"):
                question[key] = " ".join(question[key].split())
    except (KeyError, tomllib.TOMLDecodeError) as error:
        what = error if isinstance(error, ValueError) else f"a question without {error}"
        raise course.Stop(f"{course.short(path)}: {what}") from None
    return asked


# ---- what the program printed ----------------------------------------------------------------------------------------

def cells(line):
    """["sent by each rank", "calls: measured", "formula", ...] of a line of a table."""
    return [cell for part in line.split("│") for cell in re.split(r"\s{2,}", part.strip())]


def tables(text):
    """[(headings, [cells of a row])] of the tables drawn in a program's output."""
    lines, found = text.splitlines(), []
    for at, line in enumerate(lines):
        if re.fullmatch(r"─+┼[─┼]+", line.strip()) and at > 0:
            rows = []
            for row in lines[at + 1:]:
                if "│" not in row:
                    break
                rows.append(cells(row))
            found.append((cells(lines[at - 1]), rows))
    return found


def cell(text, question, row):
    """The words in one place of one table. Throws LookupError."""
    for headings, rows in tables(text):
        if question.get("table", headings[0]) != headings[0] or question["column"] not in headings:
            continue
        for found in rows:
            if found[0] == row and len(found) > headings.index(question["column"]):
                return found[headings.index(question["column"])]
    raise LookupError(f"the program prints no '{row}' with '{question['column']}'")


def measured(text, question):
    """The number or word that the run says. Throws LookupError."""
    words = cell(text, question, question["row"])
    if "choices" in question:
        word = "nothing" if words == "-" else re.sub(r" ×\d+$", "", words)
        if word not in question["choices"]:
            raise LookupError(f"'{question['row']}' is {word}, which is none of the choices")
        return word
    value = number(words)
    if value is None:
        raise LookupError(f"'{question['row']}' has '{words}', which is no number")
    return value / number(cell(text, question, question["over"])) if "over" in question else value


def number(words):
    """Of "1,152", "8.00 KiB", "60 + 12" or "2*3/4*768"; None where it is none."""
    plain = words.lower().replace(",", "").replace("×", "*").strip()
    unit = re.search(r"(?<=[\d\s])([kmg]ib|bytes|b)$", plain)
    try:
        value = float(evaluated(ast.parse(plain[:unit.start()].strip() if unit else plain, mode="eval").body))
        return value * UNITS.get(unit[1] if unit else "", 1) if math.isfinite(value) else None
    except (ArithmeticError, SyntaxError, TypeError, ValueError, RecursionError, MemoryError):
        return None


def evaluated(tree):
    if isinstance(tree, ast.Constant) and type(tree.value) in (int, float):
        return tree.value
    if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.USub):
        return -evaluated(tree.operand)
    if isinstance(tree, ast.BinOp) and type(tree.op) in OPERATORS:
        return OPERATORS[type(tree.op)](evaluated(tree.left), evaluated(tree.right))
    raise ValueError("no arithmetic")


def output(course, number_of_chapter, run):
    """What the program prints on these ranks with these flags. Throws Stop."""
    ranks, flags = course.take_ranks(shlex.split(run))
    program = course.build_folder() / "bin" / course.chapters()[number_of_chapter]
    code, text = course.capture([course.launcher(), "-n", str(ranks or 2), program, *flags], LIMIT)
    if code:
        raise course.Stop(f"the program ended with {code}: {course.short(program)} {run}\n{course.tail(text, 5)}")
    return text


# ---- the questions ---------------------------------------------------------------------------------------------------

def ask(question, place):
    """What the learner says: a number, one of the choices, or None for no idea."""
    print(f"\n{place}. " + source.wrapped(question["ask"], "   ").strip())
    choices = question.get("choices", [])
    for index, choice in enumerate(choices, 1):
        print(f"     {index}  {choice}")
    while True:
        said = input("   " + (f"1 to {len(choices)}: " if choices else f"{question['unit']}: ")).strip()
        if not said:
            return None
        if said in choices:
            return said
        if choices and said.isdecimal() and 1 <= int(said) <= len(choices):
            return choices[int(said) - 1]
        value = None if choices else number(said)
        if value is not None:
            return value
        print("   " + ("the number of a choice" if choices else "a number, or a sum like 2 * 3/4 * 100") + "; Enter alone: no idea")


def right(said, true):
    if said is None or isinstance(true, str):
        return said == true
    return abs(said - true) <= CLOSE * abs(true)


def shown(value, unit):
    if isinstance(value, str):
        return value
    return f"{value:,.10g} {unit}".strip()


def predict(learner, words):
    course = learner.course
    if not words:
        return listed(learner)
    if len(words) > 1:
        raise course.Stop(f"predict takes one chapter, not {len(words)}: {' '.join(words)}", 2)
    chapter = course.find_chapter(words[0])
    asked = questions(course, chapter)
    if not asked:
        raise course.Stop(f"chapter {chapter:02} has no questions; ./course predict lists those that have", 2)
    if not sys.stdin.isatty():
        raise course.Stop("predict asks questions, and nobody can answer here: run it in a terminal", 2)
    course.build([course.chapters()[chapter]])
    print(f"{len(asked)} questions, before chapter {chapter:02} runs. Work them out; a sum like 2 * 3/4 * 100 will do.")
    try:
        answers = [ask(question, place) for place, question in enumerate(asked, 1)]
    except EOFError:
        raise course.Stop("no answer; nothing is noted") from None
    texts = {}
    for run in dict.fromkeys(question["run"] for question in asked):
        print(f"\n$ ./course run {chapter:02} {run}")
        texts[run] = output(course, chapter, run)
    print()
    results = []
    for place, (question, said) in enumerate(zip(asked, answers), 1):
        true = truth(course, chapter, texts, question)
        results.append(right(said, true))
        yours = "no answer" if said is None else f"you said {shown(said, question['unit'])}"
        print(f"{place}. {'right' if results[-1] else 'not so'}: {shown(true, question['unit'])} measured, {yours}")
        print(source.wrapped(question["why"], "   ") + "\n")
    with learner.change("predictions") as predictions:
        predictions[f"{chapter:02}"] = {"at": learner.now(), "right": sum(results), "of": len(results), "answers": answers}
    print(f"{sum(results)} of {len(results)} right")
    return 0 if all(results) else 1


def truth(course, chapter, texts, question):
    try:
        return measured(texts[question["run"]], question)
    except LookupError as error:
        raise course.Stop(f"chapters/{course.chapters()[chapter]}/predict.toml: {error.args[0]}") from None


def listed(learner):
    for chapter, name in learner.course.chapters().items():
        asked = questions(learner.course, chapter)
        said = learner.state.get("predictions", {}).get(f"{chapter:02}")
        if asked:
            print(f"{name:28} {len(asked)} questions" + (f", {said['right']} of {said['of']} right" if said else ""))
    print("\n./course predict 05 asks those of chapter 05")
    return 0


def progress(learner):
    """Lines of ./course progress."""
    said = learner.state.get("predictions", {})
    if said:
        yield "predicted: " + ", ".join(f"{chapter} {entry['right']} of {entry['of']}" for chapter, entry in sorted(said.items()))


# ---- the proof -------------------------------------------------------------------------------------------------------

def of_chapter(course, chapter):
    """Every question has its answer in what the program prints. Lines of what is not so."""
    texts = {}
    for place, question in enumerate(questions(course, chapter), 1):
        try:
            if question["run"] not in texts:
                texts[question["run"]] = output(course, chapter, question["run"])
            truth(course, chapter, texts, question)
        except course.Stop as stop:
            yield f"chapter {chapter:02}, question {place}: {stop}"
