"""Git's merge driver for dvc.lock: two branches that each ran another stage merge without a
conflict.

Stages are united by name. If both have changed a stage, our entry stays: it lists hashes of inputs
and outputs, so DVC sees whether it is still valid, and takes the other result from its cache.

    git config merge.dvc-lock.driver "python3 pipelines/versioning/merge_lock.py %O %A %B"

`make setup` does that.

It needs Python's own library alone, since git may call it where no environment is active.
"""

import re
import sys
from pathlib import Path


def merge(base: str, ours: str, theirs: str) -> str:
    """Return the text of the merged lock file. Each entry keeps its bytes."""
    old, current, other = map(split, (base, ours, theirs))
    merged: dict[str, str] = {}
    for name in {**current, **other}:
        unchanged = current.get(name) == old.get(name)
        entry = other.get(name) if unchanged else current.get(name)
        if entry is not None:
            merged[name] = entry
    return "".join(merged.values())


def split(text: str) -> dict[str, str]:
    """Return the text of each stage by its first line, and the text before them by ""."""
    head, *stages = re.split(r"^(?=  \S)", text, flags=re.MULTILINE)
    return {"": head or "schema: '2.0'\nstages:\n"} | {
        stage.partition("\n")[0]: stage for stage in stages
    }


if __name__ == "__main__":
    paths = list(map(Path, sys.argv[1:4]))
    texts = [path.read_bytes().decode() for path in paths]
    paths[1].write_bytes(merge(*texts).encode())
