"""Each chapter's README says what the program says. expected_output.py has the rule, update.py mends what differs.

    python3 tests/readme/test_expected_output.py ExpectedOutput.test_05      one chapter; none named: all
"""
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.dont_write_bytecode = True
import expected_output  # noqa: E402


class ExpectedOutput(unittest.TestCase):
    maxDiff = None

    def check(self, path):
        text = path.read_text(encoding="utf-8")
        lines, blocks = text.split("\n"), expected_output.blocks(text)
        self.assertGreater(len(blocks), 0, f"{path}: no block of output under Expected output")
        with expected_output.Runner() as runner:
            for block in blocks:
                wrong = expected_output.differences(lines[block.start:block.end], runner.output(block.commands), block.commands)
                if wrong:
                    self.fail("\n".join([f"{path}, line {block.start + 1}: - as written, + as `{block.commands[-1]}` says", *wrong,
                                         f"python3 tests/readme/update.py {path.parent.name[:2]} rewrites it"]))


for readme in sorted((expected_output.ROOT / "chapters").glob("[0-9][0-9]_*/README.md")):
    setattr(ExpectedOutput, f"test_{readme.parent.name[:2]}", lambda self, path=readme: self.check(path))

if __name__ == "__main__":
    unittest.main()
