"""Rows of a task as token arrays: no per-row work is left for the loop.

1. read `<task>/<split>.jsonl`, check every row (a fault is one sentence with file, line, id and value)
2. text pieces -> `[CLS] a [SEP]` or `[CLS] a [SEP] b [SEP]`, cut to the length from the longer side
3. the ids of all rows end to end with lengths and segment boundaries, one array per target
"""

import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from electra.data.tokenizer import Tokenizer
from electra.errors import BadInput
from electra.files import read_jsonl
from electra.finetuning import spans, tagging
from electra.finetuning.batches import Examples, shuffled, stack
from electra.finetuning.tasks import Task
from electra.seeds import derive

Row = dict[str, Any]


def read_rows(path: Path, task: Task, *, labelled: bool = True) -> list[Row]:
    """The rows of one split, checked. Raises BadInput naming line, id and value: bad label, bad score, repeated id, no rows."""
    rows = read_jsonl(path)
    if not rows:
        raise BadInput(path, "holds no rows", f"the rows of {task.title}", "check the task's source")
    seen: dict[str, int] = {}
    for line, row in enumerate(rows, 1):
        where = f"{path}:{line}"
        if not isinstance(row, dict) or not isinstance(row.get("id"), str):
            raise BadInput(where, f"is {row!r:.80}", 'an object with text under "id" and "a"')
        where += f" (id {row['id']})"
        if row["id"] in seen:
            raise BadInput(where, f"repeats the id of line {seen[row['id']]}", "each id once")
        seen[row["id"]] = line
        if task.tagging:
            spans.check_row(row, task, where, labelled=labelled)
            continue
        if not isinstance(row.get("a"), str):
            raise BadInput(where, f"is {row!r:.80}", 'an object with text under "id" and "a"')
        if not isinstance(row.get("b"), str | None):
            raise BadInput(where, f"has b {row['b']!r:.40}", "text or null")
        if labelled:
            _check_label(row.get("label"), task, where)
    return rows


def _check_label(label: object, task: Task, where: str) -> None:
    if task.regression:
        number = isinstance(label, int | float) and not isinstance(label, bool) and math.isfinite(label)
        if not number:
            raise BadInput(where, f"has the score {label!r}", "a finite number", "mend or remove the row")
    elif label not in task.labels:
        raise BadInput(where, f"has the label {label!r}", f"one of {', '.join(task.labels)}", "mend or remove the row")


def encode(rows: list[Row], task: Task, tokenizer: Tokenizer, length: int) -> Examples:
    """Rows to arrays. The target `label` is a class index or the scaled score; rows without a label get -1 or 0."""
    if task.tagging:
        return tagging.encode(rows, task, tokenizer, length)
    first = tokenizer.encode_lines([row["a"] for row in rows])
    second = tokenizer.encode_lines([row.get("b") or "" for row in rows])
    sequences: list[list[int]] = []
    starts: list[int] = []
    for row, a, b in zip(rows, first, second, strict=True):
        pair = row.get("b") is not None
        a, b = _cut(a, b, length - (3 if pair else 2))
        sequence = [tokenizer.cls_id, *a, tokenizer.sep_id]
        starts.append(len(sequence))
        sequences.append([*sequence, *b, tokenizer.sep_id] if pair else sequence)
    labels: NDArray[Any]
    if task.regression:
        labels = np.array([(row.get("label") or 0.0) / task.scale for row in rows], dtype=np.float32)
    else:
        index: dict[Any, int] = {name: number for number, name in enumerate(task.labels)}
        labels = np.array([index.get(row.get("label"), -1) for row in rows], dtype=np.int64)
    return stack(sequences, starts, {"label": labels}, [row["id"] for row in rows])


def _cut(a: list[int], b: list[int], room: int) -> tuple[list[int], list[int]]:
    """Take single pieces from the end of the longer side, from b when both are equal, until both fit."""
    over = len(a) + len(b) - room
    if over <= 0:
        return a, b
    from_a = min(over, max(0, len(a) - len(b)))
    from_b = min(over, max(0, len(b) - len(a)))
    rest = over - from_a - from_b  # what is left is taken in turn, beginning with b
    from_a, from_b = from_a + rest // 2, from_b + (rest + 1) // 2
    return a[: len(a) - from_a], b[: len(b) - from_b]


def both_orders(rows: list[Row]) -> list[Row]:
    """Each pair as it is and turned round, as MRPC and STS-B are trained on."""
    turned = [
        {**row, "id": f"{row['id']}-turned", "a": row["b"], "b": row["a"]} for row in rows if row["b"] is not None
    ]
    return rows + turned


def subset(rows: list[Any], most: int | None, seed: int) -> list[Any]:
    """At most `most` rows, drawn by the seed, in their order of the file."""
    if most is None or len(rows) <= most:
        return rows
    chosen = shuffled(len(rows), derive(seed, "finetune/subset"))[:most]
    return [rows[index] for index in np.sort(chosen)]
