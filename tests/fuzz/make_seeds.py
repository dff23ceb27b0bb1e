"""Seeds for the fuzz targets out of tests/golden: make_seeds.py GOLDEN TO"""
import json
import struct
import sys
from pathlib import Path

golden, to = map(Path, sys.argv[1:])
for name in ("safetensors_header", "tokenizer_file"):
    (to / name).mkdir(parents=True, exist_ok=True)

for path in sorted(golden.rglob("*.safetensors")):
    whole = path.read_bytes()
    length = int.from_bytes(whole[:8], "little")
    if 8 <= len(whole) and length <= min(len(whole), 1 << 16):
        header = whole[8:8 + length]
        (to / "safetensors_header" / path.stem).write_bytes(struct.pack("<q", len(whole) - 8 - len(header)) + header)

for path in sorted((golden / "tokenizer").glob("*.json")):
    try:
        whole = json.loads(path.read_text(encoding="utf-8"))
        vocab = sorted(whole["model"]["vocab"].items(), key=lambda item: item[1])
    except (ValueError, KeyError, TypeError, AttributeError):
        continue
    # A short one besides: the fuzzer is quick with small files. 300 tokens keep the bytes and the first merges.
    keep = dict(vocab[:300])
    small = {**whole, "added_tokens": [t for t in whole.get("added_tokens", []) if t["id"] < 300],
             "model": {**whole["model"], "vocab": keep, "merges": [
                 m for m in whole["model"]["merges"]
                 if "".join(m if isinstance(m, list) else m.split(" ")) in keep]}}
    (to / "tokenizer_file" / path.stem).write_text(json.dumps(small, ensure_ascii=False), encoding="utf-8")
