"""Fails where what knows nothing of GPUs is compiled in another way for the emulated GPU: ccache would compile it anew."""
import json
import re
import sys
from pathlib import Path

KNOWS_GPUS = re.compile(r" -c \./(common/backend/cuda/|common/comm/nccl_|tests/emulate/)")


def commands(source, build):
    """{object: its command line}, without the names of the two folders"""
    text = (Path(build) / "compile_commands.json").read_text(encoding="utf-8").replace(build, "BUILD").replace(source, ".")
    said = [(e["directory"], e["command"]) for e in json.loads(text)]
    parts = [(folder, re.search(r"(.*) -o (\S+)(.*)", command)) for folder, command in said]
    return {folder + "/" + part[2]: part[1] + part[3] for folder, part in parts}  # make and ninja name an object from other folders


source, build, emulated = sys.argv[1:]
here, there = commands(source, build), commands(source, emulated)
both = [made for made in here if made in there and not KNOWS_GPUS.search(here[made])]
if len(both) < 400:
    sys.exit(f"{build} and {emulated} have {len(both)} objects in common; there should be some 500")
for made in both:
    if here[made] != there[made]:
        sys.exit(f"{made} is compiled in another way for the emulated GPU:\n  {here[made]}\n  {there[made]}")
print(f"{len(both)} objects are compiled in the same way")
