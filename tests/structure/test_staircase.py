"""The staircase: a chapter includes chapters below it and common/, never one above; common/ includes no chapter; every
include of our own carries the full path from the top, so that the dependence shows."""
import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)


def faults(name, text):
    """What is wrong with the includes of one source."""
    own = re.match(r"chapters/(\d\d)_", name)
    for path in INCLUDE.findall(text):
        other = re.match(r"chapters/(\d\d)_", path)
        if not (ROOT / path).is_file():
            yield f'{name} includes "{path}": no such file from the top'
        elif other and name.startswith("common/"):
            yield f'{name} includes "{path}": common/ knows no chapter'
        elif other and own and other[1] > own[1]:
            yield f'{name} includes "{path}": a later chapter'
        elif other and name.startswith("museum/"):
            yield f'{name} includes "{path}": a broken program stands on common/ alone'
        elif path.startswith("tests/") and not name.startswith("tests/"):
            yield f'{name} includes "{path}": a test'


class Staircase(unittest.TestCase):
    def sources(self):
        for folder in ("common", "chapters", "museum", "tests"):
            for path in sorted((ROOT / folder).rglob("*.[ch]pp")):
                yield str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")

    def test_every_include(self):
        sources = list(self.sources())
        self.assertGreater(len(sources), 100)
        self.assertEqual([fault for name, text in sources for fault in faults(name, text)], [])

    def test_it_sees_the_faults(self):
        for name, include in (("common/tensor.cpp", "chapters/04_sharded_linear/linear.hpp"),
                              ("chapters/03_device_mesh/dtensor.hpp", "chapters/04_sharded_linear/linear.hpp"),
                              ("museum/06_loss/loss.cpp", "chapters/01_column_row_split/split.hpp"),
                              ("chapters/04_sharded_linear/linear.cpp", "linear.hpp"),
                              ("chapters/04_sharded_linear/linear.cpp", "tests/support/ranks.hpp")):
            self.assertEqual(len(list(faults(name, f'#include "{include}"\n'))), 1, include)


if __name__ == "__main__":
    unittest.main()
