"""What a README draws from the sources is what they say. update.py --no-run mends what differs."""
import sys
import tempfile
import unittest
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
