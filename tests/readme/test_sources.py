"""What a README draws from the sources is what they say, and a picture is what its program draws. update.py --no-run mends what differs."""
import re
import sys
import tempfile
import unittest
import xml.etree.ElementTree as xml
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.dont_write_bytecode = True
import from_sources  # noqa: E402

READMES = sorted((from_sources.ROOT / "chapters").glob("[0-9][0-9]_*/README.md"))


class FromSources(unittest.TestCase):
    maxDiff = None

    def test_every_readme(self):
        self.assertGreater(len(READMES), 12)
        for path in READMES:
            with self.subTest(path.parent.name):
                text = path.read_text(encoding="utf-8")
                self.assertEqual(text, from_sources.drawn(text, path.parent), "python3 tests/readme/update.py --no-run rewrites it")

    def test_every_picture(self):
        for path in READMES:
            with self.subTest(path.parent.name):
                drawn = from_sources.pictures().draw(int(path.parent.name[:2]))
                self.assertTrue((path.parent / "picture.svg").read_text(encoding="utf-8") == drawn,
                                "picture.svg is not what is drawn: python3 tests/readme/update.py --no-run rewrites it")
                svg = xml.fromstring(drawn)
                self.assertEqual(svg.get("role"), "img")
                names = [child.tag.partition("}")[2] for child in svg][:3]
                self.assertEqual(names, ["title", "desc", "style"])
                self.assertTrue(svg[0].text and len(svg[1].text) > 80)
                self.assertIn("@media(prefers-color-scheme:dark)", svg[2].text)

    def test_every_link_leads_to_a_file(self):
        for path in [from_sources.ROOT / "README.md", *READMES]:
            links = re.findall(r"\]\(([^)#\s]+)\)", path.read_text(encoding="utf-8"))
            self.assertGreater(len(links), 3)
            gone = [link for link in links if "://" not in link and not (path.parent / link).exists()]
            self.assertEqual(gone, [], f"{path}: links to what is not there")

    def test_a_text_that_does_not_fit_is_refused(self):
        from_sources.pictures()
        from svg import Picture
        picture = Picture("A title", "And a description", 100)
        picture.box(20, 40, 50, 20, words="rank 0")
        for wrong in (lambda: picture.box(80, 40, 30, 20, words="rank 0"),          # wider than its box
                      lambda: picture.box(120, 40, 50, 8, words="rank"),            # higher
                      lambda: picture.text(750, 80, "rank"),                        # beyond the card
                      lambda: picture.text(40, 52, "on it")):                       # on another text
            with self.assertRaises(ValueError):
                wrong()

    def test_it_sees_what_changes(self):
        with tempfile.TemporaryDirectory() as folder:
            chapter = Path(folder) / "02_cut"
            chapter.mkdir()
            (chapter / "main.cpp").write_text("// 02 cut: what is cut,\n// in two. And more.\n#include <x>\nint main() {}\n")
            (chapter / "cut.hpp").write_text('// Cuts <a|b>. Twice.\n#include "chapters/01_whole/whole.hpp"\n')
            (chapter / "cut.cpp").write_text('#include "chapters/02_cut/cut.hpp"\n#include "common/chunk.hpp"\n\n')
            drawn = from_sources.what_changed(chapter)
            self.assertIn("own files, 9 lines", drawn)
            self.assertIn("| [cut.hpp](cut.hpp), [.cpp](cut.cpp) | 2 + 3 | Cuts &lt;a\\|b>. |", drawn)
            self.assertIn("| [main.cpp](main.cpp) | 4 | What is cut, in two. |", drawn)
            self.assertTrue(drawn.endswith("below: [01](../01_whole/README.md) [whole](../01_whole/whole.hpp)."), drawn)
            (chapter / "new.hpp").write_text("// New.\n")
            self.assertIn("[new.hpp](new.hpp) | 1 | New. |", from_sources.what_changed(chapter))

    def test_minutes(self):
        text = "# T\n## Run it\n```\nmpirun a\nmpirun b\n```\n## Exercises\n1. a\n2. b\n" + "word " * 590
        self.assertEqual(from_sources.minutes(text, 410),
                         "Minutes: about 10 for this page and its runs, 25 to read the code, 20 for the exercises.")

    def test_a_readme_without_a_place_is_refused(self):
        with self.assertRaises(ValueError):
            from_sources.drawn("# T\n<!-- drawn: minutes -->\n<!-- /drawn -->\n", READMES[0].parent)


if __name__ == "__main__":
    unittest.main()
