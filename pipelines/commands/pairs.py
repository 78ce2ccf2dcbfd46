"""`electra pairs MODEL [FILES]`: BLiMP from the hub, or minimal pairs of files, scored without any labels.

A row has a good and a bad sentence and its paradigm, under BLiMP's own names (`sentence_good`, `sentence_bad`, `UID`)
or as `good`, `bad` and `id`.
"""

from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from electra import load
from electra.errors import BadInput
from electra.minimal_pairs import Pair, accuracies
from pipelines.sources import hub
from pipelines.sources.own import records
from pipelines.sources.paths import find_files

BLIMP = "nyu-mll/blimp"
NAMES = {"paradigm": ("UID", "id"), "good": ("sentence_good", "good"), "bad": ("sentence_bad", "bad")}


def pairs(folder: Path, files: Sequence[str]) -> str:
    """A line for each paradigm, the lowest first, and the mean over paradigms; percent of pairs, 50 is chance."""
    found = accuracies(load(folder), read(files))
    if not found:
        raise BadInput(", ".join(files) or BLIMP, "has no pair", "rows with a good and a bad sentence")
    lines = [f"{value:5.1f}  {name}" for name, value in sorted(found.items(), key=lambda item: item[1])]
    return "\n".join([*lines, f"{sum(found.values()) / len(found):5.1f}  mean of {len(found)}", ""])


def read(files: Sequence[str]) -> Iterator[Pair]:
    """The pairs of all files in their order, or of BLiMP; BadInput names the row that is none."""
    rows = chain.from_iterable(map(records, find_files(tuple(files), "pairs"))) if files else _of_hub()
    for where, row in rows:
        values = row if isinstance(row, dict) else {}
        named = {part: next(filter(values.__contains__, names), "") for part, names in NAMES.items()}
        found = {part: values.get(name, "") for part, name in named.items()}
        if not all(isinstance(value, str) for value in found.values()) or not (found["good"] and found["bad"]):
            raise BadInput(where, "is no pair", "a row with sentence_good, sentence_bad and UID")
        yield Pair(**found)


def _of_hub() -> Iterator[tuple[str, Any]]:
    commit = hub.resolve(BLIMP, "main", "pairs")
    for config in hub.configs(BLIMP, commit, "pairs"):
        for number, row in enumerate(hub.read_rows(BLIMP, config, "train", commit, "pairs"), 1):
            yield f"{BLIMP}@{commit[:12]}/{config}:{number}", row
