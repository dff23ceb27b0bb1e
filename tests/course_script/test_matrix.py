"""./course matrix, and when two runs count as the same mistake."""
import contextlib
import io
import json
import types
import unittest

from exercise_texts import EXHIBIT, InAFolder, MARKED, Stop
import make
import matrix
import runs


class Same(unittest.TestCase):
    """When two runs count as the same mistake."""

    def fault(self, *values, ranks=2):
        return runs.Outcome(ranks, "fault", 1, {"what": "Y"}, [["Y", 0, list(values)]])

    def test_values(self):
        self.assertTrue(runs.same(self.fault(1.0, 2.0), self.fault(1.00001, 2.0)))
        self.assertFalse(runs.same(self.fault(1.0, 2.0), self.fault(1.1, 2.0)))
        self.assertFalse(runs.same(self.fault(1.0, 2.0), self.fault(1.0)))
        self.assertFalse(runs.same(self.fault(1.0), self.fault(1.0, ranks=3)))
        self.assertTrue(runs.same(self.fault("nan"), self.fault("nan")))
        self.assertFalse(runs.same(self.fault("nan"), self.fault(1.0)))

    def test_errors_but_for_places_and_sizes(self):
        a, b, c = (runs.Outcome(2, "died", words=w) for w in ("rank 0: x has 7 features (linear.cpp:15); last call 3",
                                                              "rank 1: x has 6 features (work.cpp:9); last call 2",
                                                              "rank 0: the cache holds 7 tokens"))
        self.assertTrue(runs.same(a, b))
        self.assertFalse(runs.same(a, c))

    def test_hangs_by_what_each_waits_for(self):
        def hang(pending):
            return runs.Outcome(2, "hang", words=f"rank 0: last call 1 (a.cpp:3), pending {pending} (b.cpp:4), waiting for 8.0 s\n")
        self.assertTrue(runs.same(hang("call 2 all-reduce"), hang("call 2 all-reduce")))
        self.assertFalse(runs.same(hang("call 2 all-reduce"), hang("call 2 all-gather")))


class Matrix(InAFolder):
    """The proof's last line and its exit code, with runs that end as told."""

    def prove(self, ends, words=()):
        """(exit code, stdout, stderr). `ends`: {version: how it ends, of a wrong answer what it is taken for}, where it is not as it must be."""
        self.write(MARKED)

        def run(course, e, version, ranks, seed=1):
            how = ends.get(version, "passed" if version == "solution" else "fault")
            return runs.Outcome(ranks, how, 1, {"what": "sum: not written yet" if version == "stub" else "Y", "with": ""})

        def judge(course, e, version):
            taken = ends.get(version, version)
            if taken == "passed":
                return runs.Verdict([runs.Outcome(1, "passed", 1)])
            mistake = next((w for w in e.wrong if "wrong_" + w.name == taken), None)
            return runs.Verdict([run(course, e, "stub", 1)], mistake=mistake)
        course = types.SimpleNamespace(ROOT=self.root, Stop=Stop, configure=lambda: None, build=lambda targets: None,
                                       build_folder=lambda: self.root / "build", cores=lambda: 2,
                                       chapters=dict)
        before = runs.run, runs.judge
        runs.run, runs.judge = run, judge
        try:
            with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
                code = matrix.main(course, list(words))
            return code, out.getvalue(), err.getvalue()
        finally:
            runs.run, runs.judge = before

    def test_all_as_they_must_be(self):
        self.assertEqual(self.prove({}), (0, "1 exercises, 3 wrong answers: all as they must be\n", ""))

    def test_it_names_what_is_not(self):
        faults = {
            "the solution fails on 1 ranks": {"solution": "fault"},
            "the stub on 2 ranks does not fail": {"stub": "died"},
            "wrong answer minus passes": {"wrong_minus": "passed"},
            "wrong answer minus is taken for only_a": {"wrong_minus": "wrong_only_a"},
            "wrong answer minus is taken for nothing known": {"wrong_minus": "unknown"},
        }
        for words, ends in faults.items():
            with self.subTest(words):
                code, out, err = self.prove(ends)
                self.assertEqual(code, 1)
                self.assertIn(words, out)
                self.assertIn("not as they must be", err)

    def test_an_unknown_name(self):
        with self.assertRaises(Stop) as caught:
            self.prove({}, ["sum", "product", "03"])
        self.assertIn("no exercise 'product', '03'; they are sum", str(caught.exception))

    def test_the_names_that_the_other_commands_know(self):
        self.write(MARKED)
        self.write(EXHIBIT, "museum/03_six/six.cpp")
        self.write(MARKED.replace("sum", "zero"), "chapters/01_sums/zero.cpp")
        self.write(MARKED.replace("sum", "more").replace("Exercise 01", "Exercise 02"), "chapters/02_more/more.cpp")
        exercises = make.everything(self.root)
        for words, names in ((["1"], "sum zero"), (["01_sums", "more"], "sum zero more"), (["museum/3"], "six"),
                             (["museum/03"], "six"), (["six"], "six"), (["museum", "02"], "more six"), ([], "sum zero more six"),
                             (["predict"], "")):
            self.assertEqual(sorted(e.name for e in matrix.named(exercises, words)[0]), sorted(names.split()), words)

    def test_help(self):
        code, out, _ = self.prove({}, ["--help"])
        self.assertEqual(code, 0)
        self.assertIn("./course matrix [", out)

    def test_what_may_be_chance_is_run_anew(self):
        folder = self.root / "build" / "tests" / "exercises" / "sum"
        folder.mkdir(parents=True)
        for rank, how in enumerate(("passed", "fault", "hang", "died", "endless"), 1):
            (folder / f"wrong_minus.on_{rank}.json").write_text(json.dumps({"ranks": rank, "how": how}))
        (folder / "wrong_minus.on_6.json").write_text("{")
        self.prove({})
        self.assertEqual(sorted(p.name for p in folder.iterdir()), ["wrong_minus.on_1.json", "wrong_minus.on_2.json"])


if __name__ == "__main__":
    unittest.main()
