"""What the tests of the exercises' tools share: marked sources, a folder a test, and the tools to import."""
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools" / "exercises"), str(ROOT / "tools")]
sys.dont_write_bytecode = True

MARKED = """#include "sum.hpp"
int sum(int a, int b) {
  // exercise sum {
  int all = a;
  all += b;
  return all;
  // } exercise
}
int twice(int a) {
  // exercise sum {
  return 2 * a;
  // } exercise
}

// Exercise 01 sum
// Task: Add
// two numbers.
// Hint: a first.
// Hint: then b.
// Why: Addition.
// Wrong only_a: b is forgotten.
//   - all += b;
// Wrong minus: Taken away.
//   - all += b;
//   - return all;
//   + all -= b;
//   + return all;
// Wrong thrice: Three times.
//   - return 2 * a;
//   + return 3 * a;
"""

EXHIBIT = """int answer() {
  // exercise six {
  return 6 * 7;
  // } exercise
}

// Exhibit 03 six
// Task: it should be 42.
// Why: six times seven.
// Fault not_added: it is added.
//   - return 6 * 7;
//   + return 6 + 7;
// Seen 2: on two ranks
//   | rank 0: last none
"""


class InAFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)

    def write(self, text, name="chapters/01_sums/sum.cpp"):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path


class Stop(Exception):
    def __init__(self, words, code=1):
        super().__init__(words)
        self.code = code
