"""The rule by which a README's block and a run are compared: what must be seen, and what must be let pass."""
import sys
import unittest
import unittest.mock
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.dont_write_bytecode = True
import expected_output  # noqa: E402
from expected_output import blocks, differences, renewed  # noqa: E402
from update import stale  # noqa: E402

RUN = """\
text: 1 file
tokenizer: data/tokenizers/e87fb39e5bf97299-512.json
held-out loss before step 1: 6.41088
step 1/9  loss 6.3940  4,929 tokens/s  left 0:00:09
step 5/9  loss 6.3001  5,000 tokens/s  left 0:00:04
step 9/9  loss 6.2000  5,324 tokens/s  left 0:00:00
held-out loss after step 9: 6.2254   (9 steps, 30415 tokens/s)

kernel      │ calls      ms  GFLOP/s  share
────────────┼──────────────────────────────
matmul      │    42   13.00     93.1   61 %
all-reduce  │     4    0.50            3 %

sent by each rank │ calls: measured  formula │ bytes: measured  formula
──────────────────┼──────────────────────────┼─────────────────────────
tp all-reduce     │               1        1 │           1,280    1,280

largest difference     of 1
───────────────────────────
slices              2.4e-07

slices [0:10,0:8] keep 1.50 MiB, angle 0.8415
A rank of words
and more
OK
""".split("\n")
COMMAND = ("mpirun -n 2 build/bin/10_tensor_parallel_training",)


def changed(*pairs):
    text = "\n".join(RUN)
    for old, new in pairs:
        assert old in text, old
        text = text.replace(old, new)
    return text.split("\n")


class Rule(unittest.TestCase):
    def seen(self, *pairs, expected=RUN):
        wrong = differences(expected, changed(*pairs), COMMAND)
        self.assertNotEqual(wrong, [], pairs)
        return wrong

    def passes(self, *pairs, expected=RUN, commands=COMMAND):
        self.assertEqual(differences(expected, changed(*pairs), commands), [], pairs)

    def test_a_run_agrees_with_itself(self):
        self.passes()

    def test_numbers_words_and_lines_are_seen(self):
        for pair in (("1,280    1,280", "1,280    1,281"), ("│               1        1", "│               2        1"),
                     ("6.41088", "6.42088"), ("1.50 MiB", "1.53 MiB"), ("0.8415", "0.8417"), ("2.4e-07", "2.4e-04"),
                     ("[0:10,", "[0:11,"), ("(9 steps", "(8 steps"), ("step 9/9  loss 6.2000", "step 9/9  loss 6.3000"),
                     ("slices [", "slice [")):
            self.assertEqual([line[0] for line in self.seen(pair)], ["-", "+"], pair)
        self.assertEqual(self.seen(("text: 1 file\n", "")), ["- text: 1 file"])
        self.assertEqual(self.seen(("OK", "a line more\nOK")), ["+ a line more"])
        self.assertEqual(self.seen(("\nOK", "")), ["- OK"])
        self.assertEqual(self.seen(("all-reduce  │     4", "all-reduce  │     5"))[0][0], "-")
        self.seen(("matmul      │    42   13.00     93.1   61 %\n", ""))
        self.seen(("sent by each rank │", "sent by each rank  │"))               # spaces, where no width is free

    def test_times_rounding_and_the_clock_pass(self):
        self.passes(("30415", "3"), ("13.00     93.1   61 %", "113.07      9.3   59 %"))
        self.passes(("2.4e-07", "2e-08"))
        self.passes(("     of 1\n───────────────────────────\nslices              2.4e-07", "  of 1\n────────\nslices   0"))
        self.passes(("6.41088", "6.41092"), ("1.50 MiB", "1.51 MiB"))
        self.passes(("step 5/9  loss 6.3001  5,000 tokens/s  left 0:00:04\n", ""))
        self.passes(("matmul      │    42   13.00     93.1   61 %\nall-reduce  │     4    0.50            3 %",
                     "all-reduce  │     4   99.50           63 %\nmatmul      │    42   13.00     93.1   31 %"))
        self.passes(("tokenizer: data/tokenizers/e87fb39e5bf97299-512.json",
                     "tokenizer: training 512 tokens on this text ...\ntokenizer: kept as data/tokenizers/0-512.json"))

    def test_another_device_holds_other_bytes(self):
        with unittest.mock.patch.object(expected_output, "OTHER_DEVICE", True):
            self.passes(("1.50 MiB", "1.13 MiB"))
            self.seen(("1,280    1,280", "1,280    1,281"))

    def test_short_kernels_go_by_the_clock(self):
        head = ["one step of 3 │ calls     ms  share │ rate", "──────────────┼─────────────────────┼─────────────"]
        rows = ["matmul        │    42  13.00  61.0% │ 93.1 GFLOP/s", "add           │    12   0.50   3.0% │ 1.25 GB/s",
                "3 short kernels │   9   0.10   0.5% │", "step          │    63  14.00 100.0% │ 9,000 tokens/s",
                "computing, longest rank over mean: 1.023"]
        other = [rows[0].replace("13.00", "15.00"), "rope          │     2   0.30   2.0% │ 2.25 GB/s",
                 "2 short kernels │  19   0.10   0.5% │", rows[3], rows[4].replace("1.023", "1.100")]
        self.assertEqual(differences(head + rows, head + other, COMMAND), [])
        self.assertEqual(differences(head + other, head + rows, COMMAND), [])
        self.assertEqual(len(differences(head + rows, head + [rows[0].replace("42", "43")] + rows[1:], COMMAND)), 2)
        without = rows[:2] + rows[3:]
        self.assertNotEqual(differences(head + without, head + without[1:], COMMAND), [])

    def test_generated_text_is_free_behind_its_first_words(self):
        words = (COMMAND[0] + ' --generate "A rank"',)
        made = changed(("A rank of words\nand more\n", "\nA rank of words\nand more\n\n"))
        other = changed(("A rank of words\nand more\n", "\nA rank or none\n\n"))
        self.assertEqual(differences(made, other, words), [])
        self.assertNotEqual(differences(made, changed(("A rank of words\nand more\n", "\nNo rank\n\n")), words), [])

    def test_left_out_lines(self):
        part = ["...", RUN[13], RUN[14], RUN[15], "..."]
        self.passes(expected=part)
        self.seen(("1,280    1,280", "1,280    1,281"), expected=part)
        self.seen(("tp all-reduce", "dp all-reduce"), expected=part)
        self.assertEqual(differences(["text: 1 file", "..."], RUN, COMMAND), [])
        self.assertNotEqual(differences(["text: 1 file"], RUN, COMMAND), [])

    def test_renewed(self):
        new = changed(("1,280    1,280", "1,380    1,380"))
        self.assertEqual(renewed(RUN, new), new[:-1])
        self.assertEqual(renewed(["...", RUN[15], "", "..."], new), ["...", new[15], "", "..."])
        with self.assertRaises(ValueError):
            renewed(["...", "a line that is gone"], new)

    def test_prose_that_is_stale(self):
        page = "A rank sends {} bytes, 0.75 of it; 12 calls.\n## Expected output\n`build/bin/01_x`\n```\n{} bytes, 12 calls, 6.41 s\n```\n"
        self.assertEqual(stale(page.format("1,280", "1,280"), page.format("1,280", "1,290")), ["line 1, 1,280"])
        self.assertEqual(stale(page.format("1,280", "1,280"), page.format("1,290", "1,290")), [])

    def test_commands_and_blocks(self):
        text = "\n".join(["## Run it", "```", "mpirun -n 9 build/bin/00_other", "```", "## Expected output", "From `mpirun -n 2",
                          "build/bin/01_x`:", "```", "1", "```", "and", "```", "...", "2", "```", "```", "build/bin/02_x --a",
                          "build/bin/02_x --b", "```", "```", "3", "```", "```cpp", "int x;", "```", "## What changed", "```", "4", "```"])
        first, second, both = ("mpirun -n 2 build/bin/01_x",), ("build/bin/02_x --a", "build/bin/02_x --b"), blocks(text)
        self.assertEqual([b.commands for b in both], [first, first, second])
        self.assertEqual([text.split("\n")[b.start:b.end] for b in both], [["1"], ["...", "2"], ["3"]])
        with self.assertRaises(ValueError):
            blocks("## Expected output\n```\n1\n```")


if __name__ == "__main__":
    unittest.main()
