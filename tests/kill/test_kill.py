"""Kill -9 at random moments of a training that saves at every step. After each kill the next run goes on from what is on the
disk: the newest checkpoint loads, and every loss is, to the last bit, that of a run which nobody disturbed.

    COURSE_BUILD=build python3 -m unittest discover -s tests/kill
"""
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "wrong_use"))
from launch import BUILD, ENVIRONMENT, LIMIT, MPIRUN, ROOT, alive  # noqa: E402

PROGRAM = "13_two_dimensional"
RANKS, STEPS, KILLS, INSIDE, MOST = 2, 400, 20, 5, 60     # at least so many kills; of them inside a save; at most so many tries
SEED = 20

# Each rank notes its process id, then becomes the program.
NOTE = 'echo $$ > "$PIDS/${PMI_RANK:-${OMPI_COMM_WORLD_RANK:-$PMIX_RANK}}"; exec "$@"'
# The preset tiny, with room for the 700 tokens of the tokenizer.
MODEL = {"model_type": "llama", "vocab_size": 700, "hidden_size": 64, "intermediate_size": 192, "num_hidden_layers": 2,
         "num_attention_heads": 4, "num_key_value_heads": 4, "max_position_embeddings": 64, "rms_norm_eps": 1e-05,
         "rope_theta": 10000.0, "hidden_act": "silu", "tie_word_embeddings": False}
FLAGS = ["--model", "{f}/model", "--dp", str(RANKS), "--tp", "1", "--batch", "4", "--seq", "32", "--steps", str(STEPS), "--quiet",
         "--text", "chapters/03_device_mesh/README.md", "--tokenizer", "{f}/tokenizer.json"]


def losses(path):
    """{step: (loss, gradient norm)} as they were written: the text of a number is the number, to the last bit."""
    found = {}
    for line in path.read_text().splitlines() if path.exists() else []:
        row = json.loads(line) if line.endswith("}") else {}       # the last line may be cut: its run was killed
        if row.get("kind") == "step":
            found[row["step"]] = (row["loss"], row["grad_norm"])
    return found


def complete(saved):
    """The steps of the checkpoints that count as complete, in order."""
    return sorted(int(p.parent.name[5:]) for p in saved.glob("step-*/index.json"))


def wait_until(what, holds):
    end = time.monotonic() + LIMIT
    while not holds():
        if time.monotonic() > end:
            raise AssertionError(f"waited {LIMIT} s until {what}")
        time.sleep(0.0005)


class Run:
    """A training in the background, whose ranks can be killed."""

    def __init__(self, folder, name, *flags):
        self.pids, self.metrics, self.said = folder / f"{name}.pids", folder / f"{name}.jsonl", folder / f"{name}.err"
        self.pids.mkdir()
        flags = [w.format(f=folder) for w in FLAGS] + [str(f) for f in flags] + ["--metrics", str(self.metrics)]
        environment = {**os.environ, **ENVIRONMENT, "PIDS": str(self.pids), "NO_COLOR": "1", "GOMP_SPINCOUNT": "1000"}
        with open(self.said, "wb") as err:
            self.process = subprocess.Popen([MPIRUN, "-n", str(RANKS), "sh", "-c", NOTE, "note", str(BUILD / "bin" / PROGRAM), *flags],
                                            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=err, cwd=ROOT, env=environment,
                                            start_new_session=True)

    def ranks(self):
        return [int(p.read_text()) for p in sorted(self.pids.iterdir()) if p.read_text().strip()]

    def kill(self, which):
        """SIGKILL, then all of them are gone: the launcher ends those that are left."""
        ranks = self.ranks()
        for rank in which:
            os.kill(ranks[rank], signal.SIGKILL)
        self.process.wait(timeout=LIMIT)
        wait_until("the other ranks are gone", lambda: not any(alive(pid) for pid in ranks))
        return self.process.returncode

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
            for pid in self.ranks():
                if alive(pid):
                    os.kill(pid, signal.SIGKILL)
            self.process.wait()


class Kill(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder, self.random = Path(folder.name), random.Random(SEED)
        shutil.copy(ROOT / "tests" / "golden" / "tokenizer" / "tokenizer.json", self.folder)
        (self.folder / "model").mkdir()
        (self.folder / "model" / "config.json").write_text(json.dumps(MODEL))
        self.saved = self.folder / "saved"

    def start(self, name, *flags):
        run = Run(self.folder, name, *flags)
        self.addCleanup(run.end)
        return run

    def whole(self, run):
        """A run that nobody disturbs, to its end."""
        code = run.process.wait(timeout=5 * LIMIT)
        self.assertEqual(code, 0, run.said.read_text())
        return losses(run.metrics)

    def cycle(self):
        """Seconds of a step and its save, from one checkpoint to the next."""
        run = self.start("timed", "--save", self.folder / "timed", "--save-every", 1)
        seen = []
        for steps in (3, 13):
            wait_until(f"{steps} checkpoints", lambda: len(complete(self.folder / "timed")) >= steps)
            seen.append((time.monotonic(), len(complete(self.folder / "timed"))))
        run.kill(range(RANKS))
        shutil.rmtree(self.folder / "timed")
        return (seen[1][0] - seen[0][0]) / (seen[1][1] - seen[0][1])

    def test_nothing_is_lost(self):
        truth = self.whole(self.start("whole", "--stop-after", STEPS))
        cycle = self.cycle()
        kills, inside, at, known = 0, 0, 0, set()
        while kills < KILLS or inside < INSIDE:
            if kills == MOST:
                self.fail(f"{kills} kills, and only {inside} fell inside a save: the test does not try")
            before = complete(self.saved)
            flags = ["--resume", self.saved] if before else []
            run = self.start(f"run{kills}", "--save", self.saved, "--save-every", 1, *flags)
            # Somewhere between the second and the third checkpoint of this run; the first two kills come before there is any.
            more = 0 if kills < 2 else 2
            wait_until(f"{more} more checkpoints than {len(before)}",
                       lambda: len(complete(self.saved)) >= len(before) + more or run.process.poll() is not None)
            wait_until("the ranks are there", lambda: len(run.ranks()) == RANKS)
            if kills % 2 and more:                            # every other one: from the beginning of a save on
                wait_until("a save begins", lambda: any(self.saved.glob(".step-*")) or run.process.poll() is not None)
                time.sleep(self.random.uniform(0, cycle / 2))
            else:
                time.sleep(self.random.uniform(0, cycle if more else 0.5))
            which = self.random.choice([[0], [RANKS - 1], list(range(RANKS))])
            self.assertIsNone(run.process.poll(), f"run {kills} ended by itself: {run.said.read_text()}")
            self.assertNotEqual(run.kill(which), 0)
            kills += 1
            half = {(p.name, p.stat().st_ino) for p in self.saved.glob(".step-*")}
            inside += bool(half - known)
            known = half
            self.compare(f"run {kills}, from step {at}", losses(run.metrics), truth, at)
            after = complete(self.saved)
            self.assertEqual(after[:len(before)], before, "a checkpoint that was complete is gone")
            at = after[-1] if after else 0
        last = self.start("last", "--save", self.saved, "--resume", self.saved, "--stop-after", at + 10)
        self.compare(f"the last run, from step {at}", self.whole(last), truth, at, at + 10)
        print(f"{kills} kills at random moments of a {1e3 * cycle:.0f} ms cycle of step and save: {inside} fell inside a save; "
              f"step {at} reached, then 10 more undisturbed")
        self.assertEqual([p.name for p in self.saved.iterdir() if p.name.startswith(".")], [], "left behind by the killed")

    def compare(self, what, seen, truth, start, end=None):
        steps = sorted(seen)
        self.assertEqual(steps, list(range(start + 1, start + 1 + len(steps))), f"{what}: its steps")
        if end:
            self.assertEqual(steps[-1:], [end], what)
        for step in steps:
            self.assertEqual(seen[step], truth[step], f"{what}: step {step}, loss and gradient norm")


if __name__ == "__main__":
    unittest.main()
