"""When stored output counts as stale, and what is taken out before it is stored."""
import copy
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
sys.dont_write_bytecode = True
import notebook_run as rule  # noqa: E402


def said(text, name="stdout"):
    return {"output_type": "stream", "name": name, "text": text.splitlines(keepends=True)}


def drawn(*words):
    svg = "<svg>" + "".join(f'<text x="{i}">{word}</text>' for i, word in enumerate(words)) + "</svg>"
    return {"output_type": "display_data", "metadata": {}, "data": {"image/svg+xml": [svg], "text/plain": ["<IPython.core.display.SVG object>"]}}


def cell(*outputs, tags=()):
    return {"cell_type": "code", "metadata": {"tags": list(tags)}, "source": [], "outputs": list(outputs)}


class Stale(unittest.TestCase):
    def differs(self, before, after, tags=()):
        return rule.difference(cell(*before, tags=tags), cell(*after, tags=tags))

    def test_the_same_is_not_stale(self):
        outputs = [said("36 bytes\n"), drawn("rank 0", "36")]
        for tags in ((), ("varies",)):
            self.assertEqual(self.differs(outputs, copy.deepcopy(outputs), tags), "")

    def test_a_letter_of_the_text(self):
        self.assertEqual(self.differs([said("a\n36 bytes\n")], [said("a\n37 bytes\n")]), "line 2 is stored as '36 bytes', and now is '37 bytes'")
        self.assertIn("now is nothing", self.differs([said("a\nb\n")], [said("a\n")]))
        self.assertIn("stored as nothing", self.differs([], [said("a\n")]))

    def test_a_warning_on_stderr(self):
        self.assertIn("Warning", self.differs([said("a\n")], [said("a\n"), said("UserWarning: b\n", "stderr")]))

    def test_the_value_of_a_last_line(self):
        value = [{"output_type": "execute_result", "metadata": {}, "execution_count": 1, "data": {"text/plain": [word]}} for word in ("3", "4")]
        self.assertIn("now is '4'", self.differs(value[:1], value[1:]))

    def test_where_numbers_vary_words_do_not(self):
        before = [said("α 0.99 µs   step   9.1 ms\n")]
        self.assertEqual(self.differs(before, [said("α 12.5 µs   step 113.1 ms\n")], ("varies",)), "")
        self.assertEqual(self.differs([said("1e-09 apart\n")], [said("-3.2e-10 apart\n")], ("varies",)), "")
        self.assertIn("line 1", self.differs(before, [said("α 0.99 µs   phase 9.1 ms\n")], ("varies",)))

    def test_pictures(self):
        self.assertIn("1 pictures are stored, and now there are 0", self.differs([drawn("a")], []))
        self.assertIn("1 pictures are stored, and now there are 2", self.differs([drawn("a")], [drawn("a"), drawn("b")], ("varies",)))
        self.assertIn("stored with '36', and now has '37'", self.differs([drawn("rank 0", "36")], [drawn("rank 0", "37")]))
        self.assertIn("1 words", self.differs([drawn("a")], [drawn("a", "b")]))
        self.assertEqual(self.differs([drawn("10", "20")], [drawn("100", "200", "300")], ("varies",)), "")

    def test_it_names_the_cell(self):
        notebook = {"cells": [{"cell_type": "markdown"}, cell(said("a\n")), cell(said("b\n"))]}
        other = copy.deepcopy(notebook)
        other["cells"][2]["outputs"] = [said("c\n")]
        self.assertEqual(rule.stale(notebook, notebook), [])
        self.assertEqual(rule.stale(notebook, other), ["cell 3: line 1 is stored as 'b', and now is 'c'"])


class Tidy(unittest.TestCase):
    def test_pieces_of_a_stream_and_times(self):
        made = {"metadata": {"language_info": {"version": "3.11.7"}},
                "cells": [cell({"output_type": "stream", "name": "stdout", "text": "a\n"}, {"output_type": "stream", "name": "stdout", "text": "b\n"},
                               drawn("x"), {"output_type": "stream", "name": "stderr", "text": "c\n"})]}
        made["cells"][0]["metadata"]["execution"] = {"iopub.execute_input": "2026-11-28"}
        tidy = rule.tidy(made)
        self.assertNotIn("execution", tidy["cells"][0]["metadata"])
        self.assertNotIn("version", tidy["metadata"]["language_info"])
        self.assertEqual([o.get("text") for o in tidy["cells"][0]["outputs"]], ["a\nb\n", None, "c\n"])


if __name__ == "__main__":
    unittest.main()
