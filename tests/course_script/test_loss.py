"""Tests of tools/course_loss.py: what is read of a run's metrics, and the curve."""
import json
import math
import re
import sys
import unittest
import xml.etree.ElementTree as xml
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from test_course import METRICS, InAFolder  # noqa: E402
import course_loss as loss  # noqa: E402

SVG = "{http://www.w3.org/2000/svg}"


class Metrics(InAFolder):
    def test_text_files_have_a_nan(self):
        self.assertTrue(math.isnan(loss.read_metrics(self.written(METRICS))[0][1][1]))

    def test_a_step_taken_twice_counts_once(self):
        steps = loss.read_metrics(self.written([*METRICS, {"kind": "step", "step": 3, "loss": 6.0}]))[0]
        self.assertEqual([step for step, _ in steps], [1, 2, 3, 4])
        self.assertEqual(steps[2], (3, 6.0))

    def written(self, rows):
        path = self.root / "metrics.jsonl"
        path.write_text("\n".join(map(json.dumps, rows)))
        return path


class Curve(unittest.TestCase):
    def drawn(self, steps, validations):
        return xml.fromstring(loss.loss_svg(steps, validations))

    def test_the_points_lie_where_they_should(self):
        picture = self.drawn([(1, 8.0), (2, 6.0), (3, 4.0)], [(0, 8.0), (3, 4.0)])
        line = [p for p in picture.iter(SVG + "path") if p.get("class") == "train"][0].get("d")
        (x1, y1), (x2, y2), (x3, y3) = [tuple(map(float, p.split())) for p in re.split("[ML]", line)[1:]]
        self.assertAlmostEqual(x2 - x1, x3 - x2, delta=0.2)
        self.assertAlmostEqual(y2 - y1, y3 - y2, delta=0.2)
        self.assertLess(x1, x2)
        self.assertLess(y1, y2)                             # a smaller loss lies lower: y grows downwards
        last = list(picture.iter(SVG + "circle"))[1]
        self.assertAlmostEqual(float(last.get("cx")), x3, delta=0.1)
        self.assertAlmostEqual(float(last.get("cy")), y3, delta=0.1)

    def test_it_says_in_words_what_it_shows(self):
        picture = self.drawn([(1, 8.0), (2, 4.0)], [(0, 8.5), (2, 4.5)])
        self.assertEqual(picture.find(SVG + "title").text, "Loss curve")
        for number in ("8.00", "4.00", "8.50", "4.50", "2 steps"):
            self.assertIn(number, picture.find(SVG + "desc").text)
        self.assertIn("(prefers-color-scheme: dark)", picture.find(SVG + "style").text)

    def test_losses_that_are_not_finite_break_the_line_only(self):
        for bad in (math.nan, math.inf, -math.inf):
            text = loss.loss_svg([(1, 8.0), (2, bad), (3, 6.0), (4, 5.0)], [(0, bad), (4, 5.0)])
            picture = xml.fromstring(text)
            numbers = " ".join(v for e in picture.iter() for k, v in e.items() if k in ("d", "x", "y", "cx", "cy"))
            self.assertNotRegex(numbers, "nan|inf")
            line = [p for p in picture.iter(SVG + "path") if p.get("class") == "train"][0].get("d")
            self.assertEqual(re.sub("[^ML]", "", line), "MML")

    def test_little_to_draw(self):
        for steps, validations in (([(1, 5.0)], []), ([], [(0, 5.0)]), ([(1, math.nan)], [(0, math.nan)]), ([(3, 2.0), (4, 2.0)], []),
                                   ([(s, 1e9) for s in range(1, 9)], [(0, 1e-9)])):
            picture = self.drawn(steps, validations)
            self.assertGreater(len(list(picture.iter(SVG + "text"))), 4)

    def test_ticks_are_round_and_cover(self):
        for low, high in ((0, 200), (1, 20), (3.07, 8.41), (5, 5), (0.001, 0.0042), (-3, 7), (0, 1)):
            found = loss.ticks(low, high)
            self.assertTrue(found[0] <= low and found[-1] >= high and 2 <= len(found) <= 9, (low, high, found))


if __name__ == "__main__":
    unittest.main()
