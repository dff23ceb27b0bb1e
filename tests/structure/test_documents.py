"""The documents agree with the course: links lead somewhere, each term of the glossary stands in the chapter that it names, the
teaching pages name every exercise and their timetables add up, one version everywhere."""
import re
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.dont_write_bytecode = True
import markdown_files as markdown  # noqa: E402

ROOT = markdown.ROOT
TITLE = re.compile(r"^// Exercise (\d\d) (\w+)$", re.M)
TERM = re.compile(r"^- \*\*(.+?)\*\* \(\[(\d\d)\]\(chapters/(\w+)/README\.md(?:#[\w-]+)?\)\): \S")
SPAN_OF_TIME = re.compile(r"^\| (\d+):(\d\d)–(\d+):(\d\d) \|", re.M)


def read(name):
    return (ROOT / name).read_text(encoding="utf-8")


# ---- what is asked of each document: a line for each fault -----------------------------------------------------------------

def faults_of_terms(text, chapter_page):
    """`chapter_page`: the text of a chapter's README by the name of its folder, or None."""
    terms = [line for line in text.splitlines() if line.startswith("- ")]
    names = []
    for line in terms:
        found = TERM.match(line)
        if not found:
            yield f"not '- **term** ([NN](chapters/NN_name/README.md)): ...': {line[:60]}"
            continue
        name, number, folder = found.groups()
        names.append(name.lower())
        page = chapter_page(folder)
        if page is None or not folder.startswith(number + "_"):
            yield f"{name}: {number} is not the chapter {folder}"
        elif not any(re.search(rf"(?<!\w){re.escape(word)}(s|es)?(?!\w)", page, re.I) for word in name.split(", ")):
            yield f"{name}: {folder} does not say it"
    for before, after in zip(names, names[1:]):
        if before >= after:
            yield f"{after}: stands behind {before}"


def exercises(root=ROOT):
    """{(number, name)} of the exercises that are marked in the chapters' sources, and of the museum's programs."""
    marked = {title for path in root.glob("chapters/*/*.cpp") for title in TITLE.findall(path.read_text(encoding="utf-8"))}
    return marked, {path.name for path in root.glob("museum/[0-9][0-9]_*") if path.is_dir()}


def faults_of_teaching(text, marked, museum):
    told = set(re.findall(r"^### (\d\d) (\w+)$", text, re.M))
    for number, name in sorted(marked - told):
        yield f"exercise {number} {name} has no heading '### {number} {name}'"
    for number, name in sorted(told - marked):
        yield f"there is no exercise {number} {name}"
    for name in sorted(museum):
        if f"`{name}`" not in text:
            yield f"the museum's {name} is not named"


def faults_of_timetable(text):
    """Under each heading the spans of a day follow on each other and begin at 0:00; the heading's own total, "(3 h 30)", is their end."""
    for part in re.split(r"^(?=## )", text, flags=re.M)[1:]:
        title, at = part.splitlines()[0], None
        for found in SPAN_OF_TIME.finditer(part):
            begin, end = (60 * int(found[i]) + int(found[i + 1]) for i in (1, 3))
            if begin != (at or 0) or end <= begin:
                yield f"{title}: {found[0]} does not follow on what is before it"
            at = end
        total = re.search(r"\((\d+) h(?: (\d\d))?\)", title)
        if total and at != 60 * int(total[1]) + int(total[2] or 0):
            yield f"{title}: the table ends after {at} minutes"
        if at is not None and not total:
            yield f"{title}: says no total"


class Documents(unittest.TestCase):
    maxDiff = None

    def test_every_link_leads_somewhere(self):
        paths = markdown.files()
        self.assertGreater(len(paths), 25)
        self.assertEqual([f"{path.relative_to(ROOT)}: {fault}" for path in paths for fault in markdown.broken(path)], [])

    def test_glossary(self):
        def page(folder):
            path = ROOT / "chapters" / folder / "README.md"
            return path.read_text(encoding="utf-8") if path.exists() else None
        text = read("GLOSSARY.md")
        self.assertEqual(list(faults_of_terms(text, page)), [])
        self.assertGreater(text.count("\n- **"), 50)

    def test_teaching_names_every_exercise(self):
        self.assertEqual(list(faults_of_teaching(read("teaching/exercises.md"), *exercises())), [])

    def test_timetables_add_up(self):
        text = read("teaching/timetable.md")
        self.assertGreater(len(SPAN_OF_TIME.findall(text)), 30)
        self.assertEqual(list(faults_of_timetable(text)), [])

    def test_one_version(self):
        version = re.search(r"^project\(shard_by_shard VERSION (\d+\.\d+\.\d+)", read("CMakeLists.txt"), re.M)[1]
        self.assertEqual(re.search(r"^## (\S+)", read("CHANGELOG.md"), re.M)[1], version)


class Seen(unittest.TestCase):
    """Each rule, on the fault that it is for."""

    def test_links(self):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            (root / "build-x").mkdir()
            (root / "build-x" / "made.md").write_text("[a](gone.md)")
            (root / "b.md").write_text("# What `it` is: [all](x.md), of 2\n## Twice\n## Twice\n```\n# no heading\n```\n<a id=\"here\"></a>\n")
            a = root / "a.md"
            self.assertEqual([path.name for path in markdown.files(root)], ["b.md"])
            for link in ("b.md", "b.md#what-it-is-all-of-2", "b.md#twice-1", "b.md#here", "#own", "https://x.example/gone", "../%s/b.md" % root.name):
                a.write_text(f"# Own\n[words]({link})\n")
                self.assertEqual(list(markdown.broken(a, root)), [], link)
            for link in ("c.md", "b.md#thrice", "b.md#no-heading", "b.md#twice-2", "#other", "../../etc", ""):
                a.write_text(f"# Own\n[words]({link})\n")
                self.assertEqual(len(list(markdown.broken(a, root))), 1, link)
            a.write_text("`[f](x)` and\n```\n[g](y)\n```\n")
            self.assertEqual(list(markdown.broken(a, root)), [])

    def test_terms(self):
        pages = {"02_collectives": "A **collective** is a call."}
        right = "- **collective** ([02](chapters/02_collectives/README.md#idea)): a call.\n"
        self.assertEqual(list(faults_of_terms(right, pages.get)), [])
        for wrong in (right.replace("02_coll", "03_coll"), right.replace("[02]", "[03]"), right.replace("collective**", "ring**"),
                      right + right, "- **collective**: a call.\n"):
            self.assertEqual(len(list(faults_of_terms(wrong, pages.get))), 1, wrong)

    def test_teaching(self):
        text = "### 01 split\n\n| `01_checkpoint` |\n"
        self.assertEqual(list(faults_of_teaching(text, {("01", "split")}, {"01_checkpoint"})), [])
        self.assertEqual(len(list(faults_of_teaching(text, {("01", "split"), ("02", "ring")}, set()))), 1)
        self.assertEqual(len(list(faults_of_teaching(text, {("02", "split")}, {"02_epoch"}))), 3)

    def test_timetable(self):
        text = "## A (1 h 30)\n| 0:00–0:30 | a |\n| 0:30–1:30 | b |\n"
        self.assertEqual(list(faults_of_timetable(text)), [])
        for wrong in (text.replace("0:30 |", "0:20 |"), text.replace("1 h 30", "2 h"), text.replace(" (1 h 30)", "")):
            self.assertEqual(len(list(faults_of_timetable(wrong))), 1, wrong)


if __name__ == "__main__":
    unittest.main()
