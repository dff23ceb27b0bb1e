"""Every wrong use of a program, a row each: one clear line with the flag and the values, exit code 2 (usage) or 1 (the run
failed) on every rank, no hang, nothing on disk lost.

    COURSE_BUILD=build python3 -m unittest discover -s tests/wrong_use
"""
import json
import math
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from launch import BUILD, LIMIT, MPIRUN, ROOT, Row, contents, judge_all, launch  # noqa: E402

DEMOS = {  # program: its whole-number flags
    "01_column_row_split": ["--m", "--k", "--n"],
    "02_collectives": ["--count", "--largest"],
    "03_device_mesh": ["--dp", "--tp"],
    "04_sharded_linear": ["--rows", "--in", "--out", "--vocab"],
    "05_sharded_mlp": ["--batch", "--seq", "--hidden", "--intermediate"],
    "06_sharded_attention": ["--batch", "--seq", "--hidden", "--heads", "--kv-heads", "--head-dim", "--positions"],
    "07_sequence_parallel": ["--batch", "--seq", "--hidden", "--intermediate", "--heads", "--kv-heads"],
    "08_parallel_plan": ["--batch", "--seq", "--hidden", "--intermediate", "--heads", "--kv-heads"],
}
ZERO_IS_FINE = {"--largest", "--tp"}     # nothing is timed; the ranks left
TRAINING = ["09_llama", "10_tensor_parallel_training", "11_loss_parallel", "12_fully_sharded", "13_two_dimensional"]
CHECKPOINTS = TRAINING[1:]
RANKS = {"09_llama": 1}

WHOLE = ["--batch", "--seq", "--steps", "--stop-after", "--accumulate", "--seed", "--tokens", "--top-k", "--threads"]
REAL = ["--lr", "--temperature", "--top-p", "--timeout"]

# A right run of chapters 09 to 13; tests/golden's tokenizer has 700 tokens, the model room for one more.
RIGHT = {"--model": "{f}/model", "--tokenizer": "{f}/tokenizer.json", "--text": "{f}/text.txt", "--seq": "15", "--batch": "4",
         "--steps": "2", "--quiet": ""}
MODEL = {"model_type": "llama", "vocab_size": 701, "hidden_size": 32, "intermediate_size": 51, "num_hidden_layers": 2,
         "num_attention_heads": 6, "num_key_value_heads": 3, "head_dim": 6, "max_position_embeddings": 64,
         "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "hidden_act": "silu", "tie_word_embeddings": False}
NEVER_ENDS = "--steps 1000000000"        # what is not found before the training would run into the limit


def training(flags, words, programs=TRAINING, **more):
    return [Row(p, flags, words, ranks=RANKS.get(p, 2), base=RIGHT, **more) for p in programs]


# ---- what a row finds in its folder ----------------------------------------------------------------------------------

def file(name, data):
    def prepare(_, own):
        (own / name).write_bytes(data if isinstance(data, bytes) else data.encode())
    return prepare


def config(**changed):
    """own/model/config.json: the right one, with fields changed, or left out where the value is None."""
    def prepare(_, own):
        (own / "model").mkdir()
        fields = {k: v for k, v in {**MODEL, **changed}.items() if v is not None}
        (own / "model" / "config.json").write_text(json.dumps(fields))
    return prepare


def config_text(text):
    def prepare(_, own):
        (own / "model").mkdir()
        (own / "model" / "config.json").write_text(text)
    return prepare


def tokenizer(change):
    def prepare(shared, own):
        fields = json.loads((shared / "tokenizer.json").read_text())
        change(fields)
        (own / "tokenizer.json").write_text(json.dumps(fields))
    return prepare


def no_special_tokens(fields):
    fields["added_tokens"] = []
    fields["model"]["vocab"] = {("x" + t if t in ("[BOT]", "[EOT]", "[PAD]") else t): i for t, i in fields["model"]["vocab"].items()}


def one_merge_too_many(fields):
    fields["model"]["merges"].append(["no such token", "nor this"])


def one_merge_less(fields):
    fields["model"]["merges"].pop()


def checkpoint(damage=lambda step: None):
    """own/saved: a copy of the checkpoint of a right run, its folder damaged."""
    def prepare(shared, own):
        shutil.copytree(shared / "saved", own / "saved")
        damage(own / "saved" / "step-00000002")
    return prepare


def cut_a_byte(step):
    path = step / "rank-0001.safetensors"
    path.write_bytes(path.read_bytes()[:-1])


def one_byte_more(step):
    with open(step / "rank-0001.safetensors", "ab") as out:
        out.write(b"x")


def flip(path, at):
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def flip_a_weight(step):
    flip(step / "rank-0000.safetensors", -5)


def flip_the_header(step):
    flip(step / "rank-0000.safetensors", 20)


def flip_the_index(step):
    text = (step / "index.json").read_text()
    (step / "index.json").write_text(text.replace('"lr": 0.001', '"lr": 0.003', 1))


def cut_the_index(step):
    path = step / "index.json"
    path.write_bytes(path.read_bytes()[:200])


def drop_a_shard(step):
    (step / "rank-0001.safetensors").unlink()


def drop_the_index(step):
    (step / "index.json").unlink()


def half_written(step):
    (step / "index.json").unlink()
    step.rename(step.parent / ".step-00000002.writing")


def saved_model(damage):
    """own/model: config.json and the weights of a right run of chapter 09, damaged."""
    def prepare(shared, own):
        shutil.copytree(shared / "trained", own / "model")
        damage(own / "model")
    return prepare


def cut_the_weights(model):
    path = model / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])


def no_weights_in_it(model):
    (model / "model.safetensors").write_bytes(b"")


def another_config(model):
    (model / "config.json").write_text(json.dumps({**MODEL, "intermediate_size": 52}))


def poison_a_weight(model):
    """The first value of the first norm becomes nan."""
    path = model / "model.safetensors"
    data = bytearray(path.read_bytes())
    size = int.from_bytes(data[:8], "little")
    at = json.loads(data[8:8 + size])["model.layers.0.input_layernorm.weight"]["data_offsets"][0]
    data[8 + size + at:8 + size + at + 4] = struct.pack("<f", math.nan)
    path.write_bytes(data)


def weights_in_parts(model):
    (model / "model.safetensors").unlink()
    (model / "model.safetensors.index.json").write_text("{}")


# ---- the rows --------------------------------------------------------------------------------------------------------

def numbers():
    rows = []
    for program, flags in DEMOS.items():
        rows.append(Row(program, "--colour red", ("--colour", "--help")))
        rows.append(Row(program, "red", ("red", "--help")))
        for flag in flags:
            bad = ["-1", "9223372036854775807"] + ([] if flag in ZERO_IS_FINE else ["0"])
            rows += [Row(program, f"{flag} {value}", (flag, value)) for value in bad]
        rows += [Row(program, f"{flags[0]} {value}", (flags[0], value)) for value in ("abc", "2.5", "nan", "99999999999999999999")]
        rows += [Row(program, flags[0], (flags[0],)), Row(program, f"{flags[0]} 1 {flags[0]} 2", (flags[0],))]
    for program in TRAINING:
        ranks = RANKS.get(program, 2)
        rows += [Row(program, "--colour red", ("--colour", "--help"), ranks=ranks),
                 Row(program, "--steps abc", ("--steps", "abc"), ranks=ranks)]
    for flag in WHOLE:
        rows += [Row(TRAINING[4], f"{flag} {value}", (flag, value)) for value in ("-1", "inf", "1.5", "99999999999999999999")]
    for flag in REAL:
        rows += [Row(TRAINING[4], f"{flag} {value}", (flag, value)) for value in ("-1", "inf", "nan", "abc", "1e999")]
    rows += [Row(TRAINING[4], f"{flag} {value}", (flag, value)) for flag, value in (
        ("--accumulate", "0"), ("--top-p", "0"), ("--top-p", "1.5"), ("--warmup", "-2"), ("--warmup", "nan"), ("--dp", "-1"),
        ("--tp", "-1"), ("--save-every", "-1"), ("--save-every", "5"), ("--threads", "1000000"))]
    rows += [Row(TRAINING[4], "--quiet maybe", ("maybe",)), Row(TRAINING[4], "--quiet=maybe", ("maybe",))]
    return rows


def names():
    rows = [Row("08_parallel_plan", "--plan megatron", ("--plan", "megatron", "basic, sequence, article"))]
    rows += [Row(p, "--device tpu", ("--device", "tpu", "cpu"), ranks=RANKS.get(p, 2)) for p in [*DEMOS, *TRAINING]]
    for program in TRAINING:
        ranks = RANKS.get(program, 2)
        rows += [Row(program, "--preset huge", ("--preset", "huge", "tiny"), ranks=ranks),
                 Row(program, "--dtype f8", ("--dtype", "f8", "f32"), ranks=ranks),
                 Row(program, "--dtype half", ("--dtype", "half", "f32", "mixed"), ranks=ranks),
                 Row(program, "--samples words", ("--samples", "words", "stream"), ranks=ranks),
                 Row(program, "--preset tiny --model {f}/model", ("--preset tiny", "--model"), ranks=ranks)]
    rows += [Row(p, "--plan megatron", ("--plan", "megatron", "basic, sequence, article")) for p in (TRAINING[1], TRAINING[2], TRAINING[4])]
    rows += [Row("09_llama", "--tp 2", ("--tp",), ranks=1), Row("12_fully_sharded", "--tp 2", ("--tp",))]
    return rows


def meshes():
    return [
        Row("03_device_mesh", "--dp 3", ("--dp 3", "2 ranks")),
        Row("03_device_mesh", "--dp 2 --tp 9223372036854775807", ("--dp 2", "--tp 9223372036854775807", "2 ranks")),
        Row("09_llama", "", ("1 rank", "2"), base=RIGHT),
        *training("--tp 3", ("--tp 3", "there are 2"), TRAINING[1:3]),
        *training("--dp 3", ("--dp 3", "there are 2"), [TRAINING[3]]),
        *training("--bucket-mb 2", ("--bucket-mb", "--ddp"), [TRAINING[3]]),
        Row(TRAINING[4], "--dp 2 --tp 2", ("--dp 2", "--tp 2", "there are 3", "mpirun -n 4"), ranks=3, base=RIGHT),
        Row(TRAINING[4], "--dp 2", ("--dp 2", "there are 3"), ranks=3, base=RIGHT),
        Row(TRAINING[4], "--dp 3 --tp 9223372036854775807", ("--tp", "9223372036854775807"), base=RIGHT),
        *training("--batch 3", ("--batch 3", "dp 2", "--batch 2 or 4"), [TRAINING[3]]),
        *training("--batch 3 --dp 2", ("--batch 3", "dp 2", "--batch 2 or 4"), [TRAINING[4]]),
        *training("--batch 6 --accumulate 2 --dp 2", ("--batch 6", "dp 2", "accumulate 2", "--batch 4 or 8"), [TRAINING[4]]),
        *training("--batch 4 --accumulate 3", ("--batch 4", "accumulate 3", "--batch 3 or 6"), TRAINING[:3]),
        Row("12_fully_sharded", "", ("--batch 8", "dp 3", "--batch 6 or 9"), ranks=3),      # no flags at all: the preset's batch
        *training("--accumulate 9223372036854775807", ("--accumulate", "9223372036854775807"), TRAINING[3:]),
    ]


def models():
    bad = lambda words, **changed: training("--model {d}/model", ("{d}/model/config.json", *words), [TRAINING[4]], code=1,  # noqa: E731
                                            prepare=config(**changed))
    rows = training("--model {d}/model", ("config.json", "10 query heads", "3 key/value heads"), code=1,
                    prepare=config(num_attention_heads=10))
    rows += training("--seq 65", ("--seq 65", "64"))
    rows += [Row("06_sharded_attention", "--heads 10", ("--heads 10", "--kv-heads 3")),
             Row("06_sharded_attention", "--head-dim 3", ("--head-dim 3", "even")),
             Row("06_sharded_attention", "--seq 17 --positions 16", ("--seq 17", "16")),
             Row("07_sequence_parallel", "--heads 4", ("--heads 4", "--kv-heads 3")),
             Row("07_sequence_parallel", "--hidden 18", ("--hidden 18", "--heads 6")),
             Row("08_parallel_plan", "--kv-heads 3", ("--heads 4", "--kv-heads 3")),
             Row("08_parallel_plan", "--hidden 66", ("--hidden 66", "--heads 4"))]
    rows += bad(("vocab_size", "0"), vocab_size=0) + bad(("vocab_size",), vocab_size=None)
    rows += bad(("num_hidden_layers", "-1"), num_hidden_layers=-1) + bad(("hidden_size", "2.5"), hidden_size=2.5)
    rows += bad(("hidden_size", "many"), hidden_size="many") + bad(("head_dim", "5"), head_dim=5)
    rows += bad(("hidden 0",), hidden_size=0) + bad(("key/value heads 0",), num_key_value_heads=0)
    rows += bad(("model_type", "gpt2", "llama"), model_type="gpt2") + bad(("rope_scaling",), rope_scaling={"type": "yarn"})
    rows += bad(("tie_word_embeddings",), tie_word_embeddings=True) + bad(("rms_norm_eps",), rms_norm_eps=-1)
    rows += bad(("vocab_size", "4611686018427387904"), vocab_size=4611686018427387904)
    rows += bad(("parameters",), num_hidden_layers=2000000000, hidden_size=200000, intermediate_size=100000)
    rows += training("--model {d}/model", ("--model {d}/model", "parameters", "GiB"), prepare=config(num_hidden_layers=1000000000))
    text = lambda content: training("--model {d}/model", ("{d}/model/config.json",), [TRAINING[0], TRAINING[4]], code=1,  # noqa: E731
                                    prepare=config_text(content))
    rows += text("") + text("{") + text("[1]") + text('{"vocab_size": 1e999}') + text("\x00\x01")
    rows += training("--model {d}", ("{d}/config.json",), code=1)
    rows += training("--model {d}/none", ("{d}/none/config.json",), code=1)
    rows += training("--model {d}/one", ("{d}/one",), [TRAINING[4]], code=1, prepare=file("one", "x"))
    weights = lambda damage, *words: training("--model {d}/model", ("{d}/model/model.safetensors", *words), code=1,  # noqa: E731
                                              prepare=saved_model(damage))
    rows += weights(cut_the_weights) + weights(no_weights_in_it, "empty") + weights(another_config, "52", "51")
    rows += weights(weights_in_parts, "several files")
    return rows


def not_finite():
    """What is not finite ends the training, names where it began, and is not saved."""
    first = ("step 2: the gradient's norm is", "the loss", "first value that is not finite: in ", " on rank ")
    rows = training("--lr 1e30 --warmup 0 --steps 5", first, code=1)
    rows += training("--model {d}/model", ("step 1: ", "weight model.layers.0.input_layernorm.weight on rank 0, [0] of the global [32]: nan"),
                     code=1, prepare=saved_model(poison_a_weight))
    rows += training("--lr 1e39 --warmup 0 --steps 5 --save {d}/s --save-every 1", ("step 1: ", "not finite", "is not saved"),
                     CHECKPOINTS, code=1, leaves=("s",))
    # Over a good checkpoint: step 2 of it stays, step 3 (this run's first) is not saved.
    rows += training("--lr 1e39 --steps 5 --save-every 1 --resume {d}/saved --save {d}/saved", ("step 3: ", "is not saved"),
                     CHECKPOINTS, code=1, prepare=checkpoint())
    return rows


def texts():
    bad = lambda name, data, *words: training(f"--text {{d}}/{name}", ("{d}/" + name, *words), [TRAINING[0], TRAINING[4]],  # noqa: E731
                                              code=1, prepare=file(name, data))
    rows = training("--text {d}/none.txt", ("{d}/none.txt", "no such file"), code=1)
    rows += training("--text {d}", ("{d}", "is a folder"), code=1)
    rows += training("--text", ("--text",), [TRAINING[4]])
    rows += bad("empty.txt", "", "is empty") + bad("binary", b"\x7fELF\x00\x01", "binary") + bad("latin1.txt", b"caf\xe9", "not UTF-8")
    rows += bad("a.jsonl", '{"words": "a"}\n', ":1:", "text") + bad("b.jsonl", "{\n", ":1:") + bad("c.jsonl", "\n\n", "no document")
    rows += bad("d.jsonl", b'{"text": "caf\xe9"}\n', "not UTF-8")
    rows += [Row(TRAINING[0], "--text /dev/zero", ("/dev/zero", "device"), ranks=1, base=RIGHT, code=1),
             Row(TRAINING[4], "--text ''", ("--text", "empty"), base=RIGHT)]
    short = ("0 samples of 16 tokens", "--seq")
    rows += training("--text {d}/short.txt", short, code=1, prepare=file("short.txt", "a few words"))
    rows += training("--text {d}/blank.txt --samples document", short, [TRAINING[0], TRAINING[4]], code=1,
                     prepare=file("blank.txt", "\n \n"))
    rows += training("--batch 4000", ("samples", "--batch 4000"), code=1)
    rows += training("--generate '" + "word " * 80 + "' " + NEVER_ENDS, ("--generate", "64"), code=1)
    return rows


def tokenizers():
    rows = training("--tokenizer {d}/none.json", ("{d}/none.json",), code=1)
    two = [TRAINING[0], TRAINING[4]]
    rows += training("--tokenizer {d}", ("{d}",), two, code=1)
    rows += training("--tokenizer {f}/text.txt", ("{f}/text.txt", "tokenizer"), two, code=1)
    rows += training("--tokenizer {d}/t.json", ("{d}/t.json",), two, code=1, prepare=file("t.json", ""))
    rows += training("--tokenizer {d}/t.json", ("{d}/t.json",), two, code=1, prepare=file("t.json", '{"model": {}}'))
    rows += training("--tokenizer {d}/t.json", ("{d}/t.json",), two, code=1, prepare=file("t.json", b"\x00\xff"))
    rows += training("--tokenizer {d}/tokenizer.json", ("{d}/tokenizer.json", "no such token"), two, code=1,
                     prepare=tokenizer(one_merge_too_many))
    rows += training("--tokenizer {d}/tokenizer.json", ("tokenizer.json", "[BOT]"), two, code=1, prepare=tokenizer(no_special_tokens))
    rows += training("--model {d}/model", ("{f}/tokenizer.json", "700", "699"), code=1, prepare=config(vocab_size=699))
    rows += training("--tokenizer ''", ("--tokenizer", "empty"), two)
    return rows


def checkpoints():
    rows = training("--resume {d}/none", ("--resume {d}/none",), CHECKPOINTS, code=1)
    rows += training("--resume {d}/one", ("--resume {d}/one",), CHECKPOINTS, code=1, prepare=file("one", "x"))
    rows += training("--resume {d}", ("--resume {d}", "no complete checkpoint"), CHECKPOINTS, code=1)
    rows += training("--resume {d}/one/two", ("--resume {d}/one/two",), [TRAINING[4]], code=1, prepare=file("one", "x"))
    for damage, words in ((cut_a_byte, ("rank-0001.safetensors",)), (one_byte_more, ("rank-0001.safetensors",)),
                          (flip_a_weight, ("rank-0000.safetensors", "damaged")), (flip_the_header, ("rank-0000.safetensors",)),
                          (flip_the_index, ("index.json", "damaged")), (cut_the_index, ("index.json",)),
                          (drop_a_shard, ("rank-0001.safetensors",)), (drop_the_index, ("no complete checkpoint",)),
                          (half_written, ("no complete checkpoint",))):
        rows += training("--resume {d}/saved --steps 4 --save {d}/saved", words, [TRAINING[4]], code=1, prepare=checkpoint(damage))
    for damage, words in ((cut_a_byte, ("rank-0001.safetensors",)), (flip_a_weight, ("rank-0000.safetensors", "damaged"))):
        rows += training("--resume {d}/saved --steps 4", words, CHECKPOINTS[:3], code=1, prepare=checkpoint(damage))
    rows += training("--resume {f}/saved --model {d}/model", ("model", "51", "52"), CHECKPOINTS, code=1,
                     prepare=config(intermediate_size=52))
    rows += training("--resume {f}/saved --batch 8", ("batch", "4", "8"), CHECKPOINTS, code=1)
    rows += training("--resume {f}/saved --seq 14", ("seq", "14", "15"), [TRAINING[4]], code=1)
    rows += training("--resume {f}/saved --samples document", ("samples", "document", "stream"), [TRAINING[4]], code=1)
    rows += training("--resume", ("--resume",), [TRAINING[4]])
    rows += training("--resume {f}/saved --steps 4 --text {d}/other.txt",
                     ("step-00000002: was trained on the text", "text.txt (", "this run reads", "other.txt (", "--allow-other-text"),
                     CHECKPOINTS, code=1, prepare=file("other.txt", "Quite another text. " * 400))
    rows += training("--resume {f}/saved --steps 4 --tokenizer {d}/tokenizer.json",
                     ("was trained with the tokenizer {f}/tokenizer.json (", "this run has {d}/tokenizer.json (", "--tokenizer {f}/"),
                     CHECKPOINTS, code=1, prepare=tokenizer(one_merge_less))
    rows += training("--allow-other-text", ("--allow-other-text", "--resume"), CHECKPOINTS)
    return rows


def outputs():
    rows = []
    for program in TRAINING:
        one = lambda flags, words, code=1, p=program, **more: rows.extend(training(flags + " " + NEVER_ENDS, words, [p], code=code, **more))  # noqa: E731
        one("--save {d}/one", ("--save {d}/one",), prepare=file("one", "x"))
        one("--save {d}/one/two", ("--save {d}/one/two",), prepare=file("one", "x"))
        one("--save /proc/nothing", ("--save /proc/nothing",))                # nobody writes there, not even root
        one("--metrics {d}/none/m.jsonl", ("--metrics {d}/none/m.jsonl", "No such file"))
        one("--metrics {d}", ("--metrics {d}", "directory"))
        one("--metrics /proc/nothing", ("--metrics /proc/nothing",))
        one("--metrics /dev/full", ("--metrics /dev/full", "No space left"))
        one("--save /proc", ("--save /proc", "cannot be written"))            # a folder, but not one to write to
        one("--save ''", ("--save", "empty"), code=2)
        one("--metrics ''", ("--metrics", "empty"), code=2)
        one("--trace ''", ("--trace", "empty"), code=2)
        one("--trace {d}/none/t.json", ("--trace {d}/none/t.json", "No such file"))
        one("--dump-tensors ''", ("--dump-tensors", "empty"), code=2)
        one("--dump-tensors {d}/one", ("--dump-tensors {d}/one", "a file has that name"), prepare=file("one", "x"))
        one("--dump-tensors /proc", ("--dump-tensors /proc", "cannot be written"))
        one("--bench --dump-tensors {d}/new", ("--bench",), code=2)
        one("--bench --save {d}/new", ("--bench",), code=2)
    rows += training("--save {d}/saved " + NEVER_ENDS, ("--save {d}/saved", "another run's"), CHECKPOINTS, code=1,
                     prepare=checkpoint())   # a copy: the folder is one run's at a time
    rows += training("--save {f}/trained " + NEVER_ENDS, ("--save {f}/trained", "holds a model already"), TRAINING[:1], code=1)
    rows += training("--save {f}/model " + NEVER_ENDS, ("--save {f}/model", "config.json"), TRAINING[:1], code=1)
    rows += training("--metrics {d}/one " + NEVER_ENDS, ("--metrics {d}/one", "no metrics"), code=1, prepare=file("one", "x"))
    rows += training("--write-tokens {d}/one", ("--write-tokens {d}/one", "no token file"), TRAINING[:1], code=1,
                     prepare=file("one", "x"))
    return rows


def sizes():
    """What no machine can hold, or what no 64 bits can count."""
    big = "9223372036854775807"
    rows = training(f"--batch {big} --seq 64", ("--batch", big))
    rows += [Row(TRAINING[4], "--bench --steps 0", ("--bench", "--steps"))]
    rows += [Row(TRAINING[4], "--bench --batch 4611686018427387904 --seq 64", ("--batch", "4611686018427387904"), base=RIGHT),
             Row(TRAINING[4], "--bench --batch 1000000000", ("--batch", "1000000000"), base=RIGHT)]
    for program in ("05_sharded_mlp", "06_sharded_attention", "07_sequence_parallel", "08_parallel_plan"):
        rows += [Row(program, f"--batch {big}", ("--batch", big)), Row(program, "--seq 2 --batch 100000000000", ("--batch", "100000000000"))]
    return rows


class WrongUse(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.files = files = Path(folder.name)
        (files / "model").mkdir()
        (files / "model" / "config.json").write_text(json.dumps(MODEL))
        shutil.copy(ROOT / "tests" / "golden" / "tokenizer" / "tokenizer.json", files)
        shutil.copy(ROOT / "chapters" / "03_device_mesh" / "README.md", files / "text.txt")
        right = [w.format(f=files) for flag, value in RIGHT.items() for w in [flag, *value.split()]]
        for program, ranks, folder in (("13_two_dimensional", 2, "saved"), ("09_llama", 1, "trained")):
            done = launch(program, ranks, [*right, "--save", str(files / folder)])
            assert done.code == 0 and not done.lines, f"a right run of {program} failed: {done}"
        cls.before = contents(files)

    def check(self, rows):
        for row, wrong in judge_all(rows, self.files):
            with self.subTest(row.name()):
                self.assertFalse(wrong, "\n".join(wrong))
        self.assertEqual(contents(self.files), self.before, "a refused run changed what other runs left")

    def test_numbers(self):
        self.check(numbers())

    def test_names(self):
        self.check(names())

    def test_meshes(self):
        self.check(meshes())

    def test_models(self):
        self.check(models())

    def test_texts(self):
        self.check(texts())

    def test_tokenizers(self):
        self.check(tokenizers())

    def test_checkpoints(self):
        self.check(checkpoints())

    def test_not_finite(self):
        self.check(not_finite())

    def test_outputs(self):
        self.check(outputs())

    def test_sizes(self):
        self.check(sizes())


class MoreRanksThanCores(unittest.TestCase):
    def test_it_is_said_once(self):
        core = min(os.sched_getaffinity(0))
        for ranks, lines in ((1, 0), (3, 1)):
            done = subprocess.run([MPIRUN, "-n", str(ranks), BUILD / "bin" / "01_column_row_split"], capture_output=True, text=True,
                                  cwd=ROOT, timeout=LIMIT, preexec_fn=lambda: os.sched_setaffinity(0, {core}))
            said = [line for line in done.stderr.splitlines() if "cores" in line or "core:" in line]
            self.assertEqual((done.returncode, len(said)), (0, lines), done.stderr)
            self.assertNotIn("share", done.stdout)
        self.assertIn(f"note: {ranks} ranks share 1 core", said[0])


class Tf32(unittest.TestCase):
    def test_on_the_cpu_it_does_nothing_and_says_so_once(self):
        command = [MPIRUN, "-n", "2", BUILD / "bin" / "01_column_row_split", "--device", "cpu"]
        for flags, lines in (([], 0), (["--tf32"], 1)):
            done = subprocess.run(command + flags, capture_output=True, text=True, cwd=ROOT, timeout=LIMIT)
            said = [line for line in done.stderr.splitlines() if "tf32" in line]
            self.assertEqual((done.returncode, len(said)), (0, lines), done.stderr)
        self.assertEqual(said[0], "note: --tf32 does nothing on the CPU: its f32 products are f32")


class Text(unittest.TestCase):
    def test_what_cannot_be_read_is_not_counted(self):
        done = subprocess.run([BUILD / "bin" / "09_llama", "--text", ROOT / "none.txt"], capture_output=True, text=True, timeout=LIMIT)
        self.assertEqual(done.returncode, 1)
        self.assertIn("none.txt: no such file", done.stderr)
        self.assertNotIn("text:", done.stdout)


class Help(unittest.TestCase):
    def test_names_that_a_flag_takes_are_listed(self):
        said = subprocess.run([BUILD / "bin" / "10_tensor_parallel_training", "--help"], capture_output=True, text=True, timeout=LIMIT).stdout
        for flag in ("--preset tiny|small|medium|article=tiny", "--plan basic|sequence|article=sequence", "--device auto|cpu|cuda=auto"):
            self.assertIn(flag, said)


class WithoutLauncher(unittest.TestCase):
    """No MPI launcher, or too few ranks because the program was started without it."""

    def test_the_program_alone_is_one_rank(self):
        done = subprocess.run([BUILD / "bin" / "13_two_dimensional", "--dp", "2", "--tp", "2"], capture_output=True, text=True,
                              cwd=ROOT, timeout=LIMIT)
        self.assertEqual(done.returncode, 2)
        self.assertEqual(done.stderr, "--dp 2 · --tp 2 needs 4 ranks, there is 1: mpirun -n 4\n")

    def course(self, *arguments, path):
        """(code, lines of stderr) of ./course, with a build folder of its own and only what `path` holds to be found."""
        with tempfile.TemporaryDirectory() as build:
            done = subprocess.run([sys.executable, ROOT / "course", *arguments], capture_output=True, text=True, cwd=ROOT,
                                  env={"PATH": path, "COURSE_BUILD": build}, timeout=LIMIT)
            self.assertEqual(os.listdir(build), [], "it began to build")
        return done.returncode, done.stdout, done.stderr.splitlines()

    def test_nothing_is_installed(self):
        with tempfile.TemporaryDirectory() as empty:
            for command in (["run"], ["run", "01"], ["test", "01"], ["setup"]):
                code, _, said = self.course(*command, path=empty)
                self.assertEqual((code, len(said)), (1, 3), said)
                self.assertIn("MPI", said[0])
                self.assertIn("mpich libmpich-dev", said[2])
            code, out, _ = self.course("doctor", path=empty)
            self.assertEqual(code, 1)
            self.assertRegex(out, r"problem +MPI is missing\n +-> .*mpich libmpich-dev")

    def test_only_the_launcher_is_missing(self):
        with tempfile.TemporaryDirectory() as folder:
            for place in ("/usr/local/bin", "/usr/bin", "/bin"):
                for tool in os.listdir(place):
                    if not re.match(r"mpirun|mpiexec|prterun|orterun|apt|sudo", tool) and not os.path.lexists(f"{folder}/{tool}"):
                        os.symlink(f"{place}/{tool}", f"{folder}/{tool}")
            code, _, said = self.course("run", "01", path=folder)
            self.assertEqual(code, 1)
            self.assertIn("missing: MPI", said[0])
            self.assertIn("mpich libmpich-dev", said[2])

    def test_more_ranks_than_the_machine_can_hold(self):
        code, _, said = self.course("run", "01", "-n", "1000000", path=os.environ["PATH"])
        self.assertEqual((code, len(said)), (2, 1), said)
        self.assertIn("-n 1000000", said[0])


if __name__ == "__main__":
    unittest.main()
