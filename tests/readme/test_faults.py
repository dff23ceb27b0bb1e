"""What "Common faults" quotes in its left column are words that the sources can say: numbers, shapes and names apart."""
import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
QUOTE = re.compile(r'`([^`]+)`|"([^"]+)"')
# What a message fills in: numbers, shapes, names in quotes or with an underscore, an axis; and the dots of a shortened message.
VARIABLE = re.compile(r"\[[^\]]*\]|'[^']*'|…|\.\.\.|-?\d[\d.,]*|\w+_\w+,?|\b[dt]p\b|[·:=]")


def quotes(readme):
    """Each message in the left column of the table of faults."""
    table = re.search(r"^## Common faults\n(.*?)(?=^## |\Z)", readme, re.M | re.S)[1]
    for row in re.findall(r"^\| (.*?) \| ", table, re.M)[1:]:
        for quote in QUOTE.finditer(row):
            words = quote[1] or quote[2]
            if " " in words.strip():             # a single word is a name or a flag
                yield words


def parts(message):
    """The stretches of two words or more between what a message fills in."""
    found = [" ".join(part.split()) for part in VARIABLE.split(message)]
    return [part for part in found if len(part.split()) > 1]


def spoken():
    """The string literals of the sources, those that stand side by side joined."""
    text = []
    for folder in ("common", "chapters"):
        for path in sorted((ROOT / folder).rglob("*.[ch]pp")):
            source = re.sub(r'"\s*\n\s*"', "", path.read_text(encoding="utf-8"))
            text += [literal.replace('\\"', '"') for literal in re.findall(r'"((?:[^"\\\n]|\\.)*)"', source)]
    return "\n".join(" ".join(literal.split()) for literal in text)


def unsaid(message, text):
    """The parts of a message that no source says. Up to two words in front and one behind may be filled in ("a Linear")."""
    def said(part):
        words = part.split()
        return any(" ".join(words[begin:end]) in text for begin in range(3) for end in (len(words), len(words) - 1)
                   if end - begin > 1 or (begin, end) == (0, len(words)))
    return [part for part in parts(message) if not said(part)]


class Faults(unittest.TestCase):
    def test_what_is_quoted_is_said(self):
        text, count = spoken(), 0
        for path in sorted((ROOT / "chapters").glob("[0-9][0-9]_*/README.md")):
            for message in quotes(path.read_text(encoding="utf-8")):
                count += 1
                with self.subTest(f"{path.parent.name}: {message}"):
                    self.assertEqual(unsaid(message, text), [])
        self.assertGreater(count, 25)

    def test_it_sees_other_words(self):
        text = "cannot add\nx has\nfeatures, the weight here takes\nis styled twice"
        self.assertEqual(unsaid("x has 4 features, the weight here takes 2", text), [])
        self.assertEqual(unsaid("a Linear is styled twice", text), [])
        self.assertEqual(unsaid("x has 4 columns of this weight, takes 2", text), ["columns of this weight, takes"])
        self.assertEqual(unsaid("cannot sum [5,4]", text), ["cannot sum"])
        readme = '## Common faults\n| what | means |\n|---|---|\n| `is said` and "that too" by `name` | `not this one` |\n'
        self.assertEqual(list(quotes(readme)), ["is said", "that too"])


if __name__ == "__main__":
    unittest.main()
