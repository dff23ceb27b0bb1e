"""./course run with the learner's own code."""
import hashlib
import json
import types
import unittest
from pathlib import Path

from exercise_texts import InAFolder, MARKED, Stop
import own


class Own(InAFolder):
    """A chapter's program with the learner's objects, with a compiler and a linker that do as told."""

    def setUp(self):
        super().setUp()
        self.write(MARKED)
        self.write(MARKED.replace("sum", "zero"), "chapters/01_sums/zero.cpp")
        self.build, self.ran, self.said, self.broken = self.root / "build", [], [], ()
        entries = []
        for name in "sum", "zero":
            file = self.write("mine", f"work/01_sums/{name}.cpp")
            self.write("an object", f"build/{name}.o")
            entries.append({"directory": str(self.build), "file": str(self.build / f"tests/exercises/{name}/work.cpp"),
                            "command": f"c++ -o {name}.o -c work.cpp"})
            self.sha256 = hashlib.sha256(file.read_bytes()).hexdigest()
        self.write(json.dumps(entries), "build/compile_commands.json")
        entry = {"started": "2026", "passed": "2026", "sha256": self.sha256}
        self.write(json.dumps({"sum": entry, "zero": entry}), "work/state.json")
        self.write("the chapter's", "build/main.o")
        self.write("c++ main.o liball.a -o 01_sums", "build/chapters/CMakeFiles/01_sums.dir/link.txt")
        (self.build / "chapters" / "main.o").write_text("the chapter's")
        (self.build / "chapters" / "liball.a").write_text("a library")
        self.course = types.SimpleNamespace(ROOT=self.root, Stop=Stop, short=lambda p: str(Path(p).relative_to(self.root)),
                                            say=self.said.append, build_folder=lambda: self.build, jobs=lambda: 2, cores=lambda: 2,
                                            cache=lambda: {1: 1}, capture=self.capture)

    def capture(self, words):
        words = [str(w) for w in words]
        self.ran.append(words)
        if words[0] == "cmake":
            return int(any(f"exercise_{name}.work" in words for name in self.broken)), "error"
        made = Path(words[words.index("-o") + 1])
        if self.broken == "link":
            made.write_text("a half")
            return 1, "undefined reference"
        made.write_text("program")
        return 0, ""

    def program(self):
        self.ran.clear()
        self.said.clear()
        return own.program(self.course, 1, "01_sums")

    def linked(self):
        return [words for words in self.ran if words[0] == "c++"]

    def test_one_build_and_one_link(self):
        self.assertEqual(self.program().read_text(), "program")
        self.assertEqual([words[0] for words in self.ran], ["cmake", "c++"])
        self.assertEqual([w for w in self.linked()[0] if w.endswith((".o", ".a"))],
                         [str((self.build / p).resolve()) for p in ("chapters/main.o", "sum.o", "zero.o", "chapters/liball.a")])
        self.assertIn("with your own sum (01), zero (01)", self.said[-1])
        self.program()
        self.assertEqual(self.linked(), [])

    def test_what_does_not_build_is_left_out(self):
        self.broken = "sum",
        self.assertTrue(self.program())
        self.assertIn("note: work/01_sums/sum.cpp does not build; the course's own is used until ./course check sum passes",
                      self.said)
        self.assertIn("with your own zero (01)", self.said[-1])
        self.assertNotIn(str(self.build / "sum.o"), self.linked()[0])
        self.broken = "sum", "zero"
        self.assertIsNone(self.program())
        self.assertEqual(self.linked(), [])

    def test_a_link_that_fails_leaves_nothing_that_is_used_later(self):
        made = self.program()
        self.write("another object, with other words to link", "build/chapters/CMakeFiles/01_sums.dir/link.txt").write_text(
            "c++ -g main.o liball.a -o 01_sums")
        self.broken = "link"
        self.assertIsNone(self.program())
        self.assertEqual([p.name for p in made.parent.iterdir() if "half" in p.read_text()], [])
        self.broken = ()
        self.program()
        self.assertEqual(len(self.linked()), 1)

    def test_an_input_that_is_gone_is_linked_anew(self):
        self.program()
        (self.build / "zero.o").unlink()
        self.program()
        self.assertEqual(len(self.linked()), 1)


if __name__ == "__main__":
    unittest.main()
