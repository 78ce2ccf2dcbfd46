"""Splits of a task, read, checked and encoded once a process: the runs of one task follow each other.

What is remembered goes by content, not by name: a changed file is read again.
"""

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from electra.data import tokenizer as tokenizers
from electra.data.tokenizer import Tokenizer
from electra.errors import BadInput
from electra.files import read_jsonl
from electra.finetuning.batches import shuffled
from electra.finetuning.task_kind import Encoded, Row
from electra.finetuning.task_registry import kind_of
from electra.finetuning.tasks import FinetuneConfig, Task
from electra.seeds import derive


@dataclass(frozen=True, kw_only=True)
class Split:
    """Which rows, through which tokenizer, laid out how."""

    path: Path
    data: str  # digest of the task's rows
    model: Path
    tokenizer: str  # sha256 of the tokenizer's file
    task: Task
    layout: FinetuneConfig
    labelled: bool = True


@functools.lru_cache(maxsize=6)
def read(split: Split) -> Encoded:
    """Rows of a split and their arrays."""
    rows = subset(read_rows(split.path, split.task, labelled=split.labelled), split.layout.max_train_rows, seed=0)
    return kind_of(split.task).encode(rows, split.task, tokenizer(split.model, split.tokenizer), split.layout)


@functools.lru_cache(maxsize=4)
def tokenizer(folder: Path, sha256: str) -> Tokenizer:
    """The tokenizer in a model's folder; its hash is what tells a new one from the remembered."""
    return tokenizers.load(folder)


def read_rows(path: Path, task: Task, *, labelled: bool = True) -> list[Row]:
    """A split's rows, checked. BadInput names line, id and value: bad label or score, repeated id, no rows."""
    rows, kind = read_jsonl(path), kind_of(task)
    if not rows:
        raise BadInput(path, "holds no rows", f"the rows of {task.title}", "check the task's source")
    seen: dict[str, int] = {}
    for line, row in enumerate(rows, 1):
        where = f"{path}:{line}"
        if not isinstance(row, dict) or not isinstance(row.get("id"), str):
            raise BadInput(where, f"is {row!r:.80}", 'an object with text under "id"')
        where += f" (id {row['id']})"
        if row["id"] in seen:
            raise BadInput(where, f"repeats the id of line {seen[row['id']]}", "each id once")
        seen[row["id"]] = line
        kind.check_row(row, task, where, labelled=labelled)
    return rows


def subset(rows: list[Any], most: int | None, seed: int) -> list[Any]:
    """At most `most` rows, drawn by the seed, in their order of the file."""
    if most is None or len(rows) <= most:
        return rows
    chosen = shuffled(len(rows), derive(seed, "finetune/subset"))[:most]
    return [rows[index] for index in np.sort(chosen)]
