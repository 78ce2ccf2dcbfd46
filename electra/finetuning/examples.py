"""Rows of a task as token arrays, and their order in training: no per-row work is left for the loop.

1. read `<task>/<split>.jsonl`, check every row (a fault is one sentence with file, line, id and value)
2. text pieces -> `[CLS] a [SEP]` or `[CLS] a [SEP] b [SEP]`, cut to the length from the longer side
3. one padded matrix of ids with lengths and segment boundaries, one array per target
4. batches of rows of like length, in a seeded order: hardly any padding is computed

Shapes: N rows of a split, B rows of a batch, L longest row of the split, T longest row of the batch.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from electra.data.tokenizer import Tokenizer
from electra.errors import BadInput
from electra.files import read_jsonl
from electra.finetuning.tasks import Task
from electra.seeds import derive, permute

Row = dict[str, Any]

_POOL = 64  # batches sorted by length together: large enough to spare padding, small enough to mix rows anew each epoch
_EVAL_TOKENS = 8192  # of one evaluation batch
_EVAL_SMALL = 512  # tokens: below this, a batch costs its overhead and padding is free


@dataclass(frozen=True)
class Batch:
    """What the network sees. `lengths_B` is None when no row is padded."""

    ids_BT: Tensor
    segments_BT: Tensor
    lengths_B: Tensor | None
    targets: dict[str, Tensor]


@dataclass(frozen=True)
class Examples:
    """A split, ready: `ids_NL` int32 padded with the pad id, lengths and starts of segment B, named targets."""

    ids_NL: NDArray[np.int32]
    length_N: NDArray[np.int64]
    second_N: NDArray[np.int64]  # first position of segment B; the row's length if there is none
    targets: dict[str, NDArray[Any]]
    row_ids: list[str]

    def __len__(self) -> int:
        return len(self.length_N)

    def batch(self, rows_B: NDArray[np.int64], device: torch.device | str = "cpu") -> Batch:
        """One gather."""
        length_B = self.length_N[rows_B]
        longest = int(length_B.max())
        positions_T = np.arange(longest)
        segments_BT = (positions_T >= self.second_N[rows_B, None]) & (positions_T < length_B[:, None])
        padded = bool((length_B != longest).any())
        return Batch(
            ids_BT=_tensor(self.ids_NL[rows_B, :longest].astype(np.int64), device),
            segments_BT=_tensor(segments_BT.astype(np.int64), device),
            lengths_B=_tensor(length_B, device) if padded else None,
            targets={name: _tensor(values[rows_B], device) for name, values in self.targets.items()},
        )


def _tensor(array: NDArray[Any], device: torch.device | str) -> Tensor:
    return torch.from_numpy(array).to(device)


def read_rows(path: Path, task: Task, *, labelled: bool = True) -> list[Row]:
    """The rows of one split, checked. Raises BadInput naming line, id and value: bad label, bad score, repeated id, no rows."""
    rows = read_jsonl(path)
    if not rows:
        raise BadInput(path, "holds no rows", f"the rows of {task.title}", "check the task's source")
    seen: dict[str, int] = {}
    for line, row in enumerate(rows, 1):
        where = f"{path}:{line}"
        if not isinstance(row, dict) or not isinstance(row.get("a"), str) or not isinstance(row.get("id"), str):
            raise BadInput(where, f"is {row!r:.80}", 'an object with text under "id" and "a"')
        where += f" (id {row['id']})"
        if not isinstance(row.get("b"), str | None):
            raise BadInput(where, f"has b {row['b']!r:.40}", "text or null")
        if row["id"] in seen:
            raise BadInput(where, f"repeats the id of line {seen[row['id']]}", "each id once")
        seen[row["id"]] = line
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
    return stack(sequences, starts, {"label": labels}, [row["id"] for row in rows], tokenizer.pad_id)


def stack(
    sequences: list[list[int]], starts: list[int], targets: dict[str, NDArray[Any]], row_ids: list[str], pad_id: int
) -> Examples:
    """Sequences of any lengths as one padded matrix."""
    length_N = np.array([len(sequence) for sequence in sequences], dtype=np.int64)
    ids_NL = np.full((len(sequences), int(length_N.max(initial=1))), pad_id, dtype=np.int32)
    for row_L, sequence in zip(ids_NL, sequences, strict=True):
        row_L[: len(sequence)] = sequence
    return Examples(ids_NL, length_N, np.array(starts, dtype=np.int64), targets, row_ids)


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
    chosen = _shuffled(len(rows), derive(seed, "finetune/subset"))[:most]
    return [rows[index] for index in np.sort(chosen)]


def steps_per_epoch(rows: int, batch: int) -> int:
    """The last batch of an epoch may be short, as in the published code (which fills it with rows of no weight)."""
    return -(-rows // batch)


def training_order(length_N: NDArray[np.int64], batch: int, seed: int, stream: str) -> Iterator[NDArray[np.int64]]:
    """Endless batches of row numbers; every epoch holds each row once.

    Rows are shuffled, cut into pools of some batches, sorted by length within a pool (rows of equal length stay
    shuffled) and cut into batches, which are shuffled again. A function of its arguments alone.
    """
    epoch = 0
    while True:
        order_N = _shuffled(len(length_N), derive(seed, f"{stream}/order", epoch))
        batches: list[NDArray[np.int64]] = []
        for start in range(0, len(order_N), _POOL * batch):
            pool = order_N[start : start + _POOL * batch]
            pool = pool[np.argsort(length_N[pool], kind="stable")]
            batches += [pool[at : at + batch] for at in range(0, len(pool), batch)]
        for number in _shuffled(len(batches), derive(seed, f"{stream}/batches", epoch)):
            yield batches[number]
        epoch += 1


def _shuffled(count: int, key: int) -> NDArray[np.int64]:
    return permute(np.arange(count, dtype=np.int64), count, key)


def evaluation_order(length_N: NDArray[np.int64], tokens: int = _EVAL_TOKENS) -> Iterator[NDArray[np.int64]]:
    """Each row once, shortest first, as many to a batch as `tokens` holds; a batch that would pad a tenth ends sooner."""
    order_N = np.argsort(length_N, kind="stable")
    start, real = 0, 0
    for end, row in enumerate(order_N):
        longest = int(length_N[row])
        computed = (end + 1 - start) * longest
        if end > start and (computed > tokens or (computed > _EVAL_SMALL and computed > 1.1 * (real + longest))):
            yield order_N[start:end]
            start, real = end, 0
        real += longest
    yield order_N[start:]
