"""Wrong use that needs more than one command line: two runs that save to one place, a disk that is full or fills up, ranks that
see other disks, a text that changes between two runs. Nothing that was on the disk is lost.

    COURSE_BUILD=build python3 -m unittest discover -s tests/wrong_use
"""
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from launch import BUILD, ENVIRONMENT, LIMIT, MPIRUN, ROOT, STACK, contents, launch  # noqa: E402

PROGRAM = "13_two_dimensional"
MODEL = {"model_type": "llama", "vocab_size": 701, "hidden_size": 32, "intermediate_size": 51, "num_hidden_layers": 2,
         "num_attention_heads": 6, "num_key_value_heads": 3, "head_dim": 6, "max_position_embeddings": 64,
         "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "hidden_act": "silu", "tie_word_embeddings": False}
PARAMETERS = 2 * 701 * 32 + 2 * (2 * 36 * 32 + 2 * 18 * 32 + 3 * 51 * 32 + 2 * 32) + 32


class OnDisk(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.at = Path(folder.name)
        (self.at / "model").mkdir()
        (self.at / "model" / "config.json").write_text(json.dumps(MODEL))
        shutil.copy(ROOT / "tests" / "golden" / "tokenizer" / "tokenizer.json", self.at)
        shutil.copy(ROOT / "chapters" / "03_device_mesh" / "README.md", self.at / "text.txt")
        self.flags = ["--model", self.at / "model", "--tokenizer", self.at / "tokenizer.json", "--text", self.at / "text.txt",
                      "--seq", "15", "--batch", "4", "--quiet"]

    def right(self, *flags, program=PROGRAM, ranks=2):
        done = launch(program, ranks, [str(f) for f in [*self.flags, *flags]])
        self.assertEqual((done.code, done.lines), (0, []))

    def refused(self, *flags, says, program=PROGRAM, ranks=2):
        """The one line that was said: every rank ended with 1, with no stack of C++ text."""
        done = launch(program, ranks, [str(f) for f in [*self.flags, *flags]])
        self.assertFalse(done.hung, done)
        self.assertEqual(done.codes, {r: 1 for r in range(ranks)}, done)
        self.assertEqual(len(done.lines), 1, done)
        self.assertNotRegex(done.lines[0], STACK)
        for words in says:
            self.assertIn(str(words), done.lines[0])
        return done.lines[0]

    @contextlib.contextmanager
    def running(self, save, *flags, program=PROGRAM, ranks=2):
        """A training that has just begun to hold its folder and would go on for days. Yields what its lock says."""
        command = [MPIRUN, "-n", str(ranks), str(BUILD / "bin" / program), *map(str, [*self.flags, *flags]), "--steps", "1000000000",
                   "--save", str(save)]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=ROOT,
                                   env={**os.environ, **ENVIRONMENT})
        try:
            lock, end = save / ".lock", time.monotonic() + LIMIT
            while not (lock.exists() and lock.read_text().endswith("\n")):
                self.assertIsNone(process.poll(), "it ended by itself")
                self.assertLess(time.monotonic(), end, "no lock appeared")
                time.sleep(0.01)
            yield lock.read_text().strip()
        finally:
            try:
                os.kill(int(lock.read_text().split()[1]), signal.SIGKILL)           # rank 0; the launcher ends the rest
            except OSError:
                process.terminate()
            process.wait(timeout=LIMIT)

    def test_two_runs_do_not_save_to_one_place(self):
        for program, ranks in ((PROGRAM, 2), ("10_tensor_parallel_training", 2), ("09_llama", 1)):
            save = self.at / f"saved{program[:2]}"
            with self.subTest(program), self.running(save, program=program, ranks=ranks) as holder:
                self.assertRegex(holder, r"^process \d+ on \S+ since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC$")
                before = contents(save)
                self.refused("--steps", 2, "--save", save, says=["--save", save, "another run saves there", holder], program=program,
                             ranks=ranks)
                self.assertEqual(contents(save), before)
            self.assertTrue((save / ".lock").exists())       # killed: its file is there, and no obstacle
            self.right("--steps", 2, "--save", save, program=program, ranks=ranks)
            self.assertFalse((save / ".lock").exists())

    def test_a_run_that_goes_on_is_alone_too(self):
        save = self.at / "saved"
        self.right("--steps", 4, "--stop-after", 1, "--save", save)
        with self.running(save, "--resume", save) as holder:
            self.refused("--resume", save, "--save", save, says=[holder])
            self.right("--resume", save)                      # who only reads may

    def disk(self, size):
        """A file system of so many bytes, or None where we may not mount one."""
        folder = self.at / "disk"
        folder.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], capture_output=True).returncode:
            self.skipTest("no right to mount a small file system")
        self.addCleanup(subprocess.run, ["umount", folder], check=True)
        return folder

    def test_no_room_is_said_before_training(self):
        disk = self.disk(12 * PARAMETERS // 2)
        for program, ranks in ((PROGRAM, 2), ("10_tensor_parallel_training", 2), ("09_llama", 1)):
            with self.subTest(program):
                small = disk
                if program == "09_llama":                     # a third of a checkpoint: no moments
                    (disk / "fill").write_bytes(bytes(4 * PARAMETERS))
                self.refused("--steps", 1000000000, "--save", small / "new" / "deep", program=program, ranks=ranks,
                             says=["--save", small / "new", f"of {PARAMETERS} parameters takes", "free there are"])
                self.assertFalse((disk / "new").exists())

    def test_a_disk_that_fills_up_leaves_what_was_saved(self):
        disk = self.disk(12 * PARAMETERS * 5 // 2)
        save = disk / "saved"
        done = launch(PROGRAM, 2, [str(f) for f in [*self.flags, "--steps", 6, "--save", save, "--save-every", 1]])
        self.assertEqual(done.codes, {0: 1, 1: 1}, done)
        self.assertEqual(len(done.lines), 1, done)
        self.assertRegex(done.lines[0], r"step-00000003 is not saved: rank [01]: .*No space left on device; those before it stay")
        self.assertEqual(sorted(contents(save)), sorted(p for step in (1, 2) for p in self.files_of(step)))
        shutil.rmtree(save / "step-00000001")                                     # room again
        self.right("--resume", save, "--save", save, "--stop-after", 3)
        self.assertTrue((save / "step-00000003" / "index.json").exists())

    def files_of(self, step):
        name = f"step-{step:08}"
        return [name, *(f"{name}/{file}" for file in ("index.json", "rank-0000.safetensors", "rank-0001.safetensors"))]

    def test_room_for_some_of_the_checkpoints_is_noted(self):
        disk = self.disk(12 * PARAMETERS * 5 // 2)
        command = [MPIRUN, "-n", "2", str(BUILD / "bin" / PROGRAM), *map(str, self.flags), "--steps", "6", "--stop-after", "3", "--save",
                   str(disk / "saved")]
        noted = r"note: --save \S+: 3 checkpoints of \S+ KiB are to come, \S+ MiB free have room for 2\n"
        for flags, words in (([], r"^$"), (["--save-every", "1"], noted)):
            done = subprocess.run([*command, *flags], capture_output=True, text=True, cwd=ROOT, timeout=LIMIT)
            self.assertRegex("".join(line for line in done.stderr.splitlines(True) if "share" not in line and "note: --" in line), words)
            shutil.rmtree(disk / "saved")

    def apart(self, *flags):
        """Two ranks in folders of their own, so that a relative path is another folder on each: (code, what was said)."""
        go = 'cd "$APART/${PMI_RANK:-${OMPI_COMM_WORLD_RANK:-$PMIX_RANK}}" && exec "$@"'
        done = subprocess.run([MPIRUN, "-n", "2", "sh", "-c", go, "go", str(BUILD / "bin" / PROGRAM), *map(str, [*self.flags, *flags])],
                              env={**os.environ, **ENVIRONMENT, "APART": str(self.at)}, capture_output=True, text=True, timeout=LIMIT)
        return done.returncode, [line for line in done.stderr.splitlines() if line and not line.startswith("note: ")]

    def test_ranks_that_see_other_disks(self):
        for rank in ("0", "1"):
            (self.at / rank).mkdir()
        code, said = self.apart("--steps", 4, "--save", "saved")
        self.assertEqual((code, said), (1, ["rank 1: --save saved: is another folder here than on rank 0; all ranks need the same"]))
        self.right("--steps", 4, "--stop-after", 1, "--save", self.at / "0" / "saved")
        shutil.copytree(self.at / "0" / "saved", self.at / "1" / "saved")
        self.assertEqual(self.apart("--resume", "saved", "--stop-after", 2)[0], 0)            # alike: the node's own copy
        self.right("--resume", self.at / "1" / "saved", "--save", self.at / "1" / "saved", "--stop-after", 2)
        code, said = self.apart("--resume", "saved")
        self.assertEqual((code, len(said)), (1, 1), said)
        self.assertRegex(said[0], r"^--resume saved: rank 0 finds step-00000001 \(index \w+\) there, rank 1 finds step-00000002 ")

    def test_another_text_only_when_asked_for(self):
        save = self.at / "saved"
        self.right("--steps", 4, "--stop-after", 1, "--save", save)
        self.right("--resume", save, "--stop-after", 2)
        self.flags += ["--resume", save]
        (self.at / "text.txt").write_text((self.at / "text.txt").read_text() + " ")
        said = self.refused("--stop-after", 2, says=["was trained on the text", "--allow-other-text"])
        self.assertEqual(len(set(re.findall(r"\(([0-9a-f]{16})\)", said))), 2)
        self.right("--stop-after", 2, "--allow-other-text")
        self.right("--stop-after", 1, "--generate", "A rank", "--tokens", 2)          # no step left: the text does not matter
        for index in save.glob("step-*/index.json"):
            self.assertEqual(json.loads(index.read_text())["state"]["tokenizer"]["name"], str(self.at / "tokenizer.json"))


if __name__ == "__main__":
    unittest.main()
