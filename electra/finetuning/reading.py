"""The kinds of tasks, and the rows of a task: read, checked and encoded; and predictions scored
against them.

Splits are read once per process, since the runs of one task follow each other. The cache is keyed
by content, so a changed file is read again.
"""

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from electra.data import tokenizer as tokenizers
from electra.data.tokenizer import Tokenizer
from electra.errors import BadInput
from electra.files import read_jsonl
from electra.finetuning.batches import shuffled
from electra.finetuning.classification import Classification
from electra.finetuning.squad.kind import QuestionAnswering
from electra.finetuning.tagging import Tagging
from electra.finetuning.task_kind import Encoded, Row
from electra.finetuning.tasks import FinetuneConfig, SquadTask, Task
from electra.seeds import derive

Kind = Classification | Tagging | QuestionAnswering
ARCHITECTURES = {kind.architecture: kind for kind in (Classification, Tagging, QuestionAnswering)}


def kind_of(task: Task) -> Kind:
    """Return the kind of a task, bound to it."""
    if isinstance(task, SquadTask):
        return QuestionAnswering(task)
    return Tagging(task) if task.tagging else Classification(task)


@functools.lru_cache(maxsize=6)
def read(
    path: Path,
    data: str,
    tokenizer: Tokenizer,
    task: Task,
    layout: FinetuneConfig,
    labelled: bool = True,
) -> Encoded:
    """Return the rows of a split and their arrays. `data` is the digest of the task's rows, the key
    of the cache.
    """
    rows = subset(read_rows(path, task, labelled=labelled), layout.max_train_rows, seed=0)
    return kind_of(task).encode(rows, tokenizer, layout)


@functools.lru_cache(maxsize=4)
def tokenizer(folder: Path, sha256: str) -> Tokenizer:
    """Return the tokenizer in a model's folder. The hash is the key of the cache."""
    return tokenizers.load(folder)


def read_rows(path: Path, task: Task, *, labelled: bool = True) -> list[Row]:
    """Return a split's rows, checked. BadInput names line, id and value: bad label or score,
    repeated id, no rows.
    """
    rows = read_jsonl(path)
    kind = kind_of(task)
    if not rows:
        raise BadInput(f"{path}: holds no rows of {task.title}; check the task's source")
    line_of: dict[str, int] = {}
    for line, row in enumerate(rows, 1):
        where = f"{path}:{line}"
        if not isinstance(row, dict) or not isinstance(row.get("id"), str):
            raise BadInput(f'{where}: is {row!r:.80}; expected an object with text under "id"')
        where += f" (id {row['id']})"
        if row["id"] in line_of:
            raise BadInput(f"{where}: repeats the id of line {line_of[row['id']]}")
        line_of[row["id"]] = line
        kind.check_row(row, where, labelled=labelled)
    return rows


def subset(rows: list[Any], most: int | None, seed: int) -> list[Any]:
    """Return at most `most` rows, drawn by the seed, in their order of the file."""
    if most is None or len(rows) <= most:
        return rows
    chosen = shuffled(len(rows), derive(seed, "finetune/subset"))[:most]
    return [rows[index] for index in np.sort(chosen)]


def score(
    task: Task, rows: Sequence[Row], answers: Mapping[str, Any], where: Path
) -> dict[str, float]:
    """Return every metric of the task. Raise BadInput for a row without a prediction, and for a
    prediction that no row asked for.
    """
    for number, row in enumerate(rows, 1):
        if row["id"] not in answers:
            raise BadInput(
                f"{where}: has no prediction for id {row['id']} (row {number}); expected one for "
                f"each of {len(rows):,} rows"
            )
    known = {row["id"] for row in rows}
    unknown = [key for key in answers if key not in known]
    if unknown:
        raise BadInput(
            f"{where}: predicts id {unknown[0]}, which is not among the references "
            f"({len(unknown):,} such); compare predictions with the split they were made for"
        )
    return kind_of(task).score(rows, answers, where)
