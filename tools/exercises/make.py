"""What the build asks of the marked sources.

  make.py list ROOT               a line an exercise or exhibit: its name, the number of its chapter, its source, its wrong answers
  make.py write ROOT NAME FOLDER  FOLDER/stub.cpp, solution.cpp and wrong_X.cpp of one exercise; what has not changed stays
"""
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))       # CMake runs this by itself
import source  # noqa: E402


def exercises(root):
    """{name: exercise} in the order of the chapters. Throws source.Fault."""
    return marked(Path(root) / "chapters")


def exhibits(root):
    """Those of museum/."""
    return marked(Path(root) / "museum")


def everything(root):
    all_of, more = exercises(root), exhibits(root)
    for name in all_of.keys() & more.keys():
        raise source.Fault(f"{more[name].path}: exercise {name} is in {all_of[name].path} too")
    return {**all_of, **more}


def marked(folder):
    found = {}
    for path in sorted(folder.glob("[0-9][0-9]_*/*.cpp")):
        exercise = source.exercise_in(path)
        if exercise and exercise.name in found:
            raise source.Fault(f"{path}: exercise {exercise.name} is in {found[exercise.name].path} too")
        if exercise:
            found[exercise.name] = exercise
    return dict(sorted(found.items(), key=lambda item: item[1].number))


def write(exercise, folder):
    texts = {"stub": source.stub(exercise), "solution": source.solution(exercise)}
    texts.update({"wrong_" + wrong.name: source.answer(exercise, wrong) for wrong in exercise.wrong})
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        file = folder / (name + ".cpp")
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            file.write_text(text, encoding="utf-8")


def main(arguments):
    try:
        if arguments[0] == "list":
            for e in everything(arguments[1]).values():
                print(e.name, e.number, e.path.relative_to(arguments[1]), *[w.name for w in e.wrong])
        else:
            write(everything(arguments[1])[arguments[2]], Path(arguments[3]))
    except source.Fault as fault:
        sys.exit(f"exercises: {fault}")


if __name__ == "__main__":
    main(sys.argv[1:])
