"""Rows in, answers out: what a fine-tuned model says of each row, as records that JSON can hold.

| model | record, beside `id` |
|---|---|
| classes | `prediction` (a label), `probabilities` (label -> share) |
| a number | `prediction` |
| tags | `words`, `tags` (IOB2), `probabilities` (of each word's tag; null for words beyond the model's length) |
| SQuAD | `prediction` ("" for none), `best` (the best span all the same), `start` (its place), `null_score`, `n_best` |
"""

import itertools
from collections.abc import Iterable, Iterator

import torch

from electra.finetuning.folder import Ready
from electra.finetuning.task_kind import Row
from electra.finetuning.task_registry import kind_of
from electra.finetuning.training import read_outputs
from electra.optim.precision import PrecisionChoice as Precision

_AT_ONCE = 256


def answer(
    ready: Ready, rows: Iterable[Row], device: torch.device | str = "cpu", precision: Precision = "default"
) -> Iterator[Row]:
    """One record for each row, as soon as its few hundred are read; the network lies on `device`."""
    kind, rows = kind_of(ready.task), iter(rows)
    while batch := list(itertools.islice(rows, _AT_ONCE)):
        encoded = kind.encode(batch, ready.task, ready.tokenizer, ready.config)
        outputs = read_outputs(ready.network, encoded.examples, device, precision=precision)
        yield from kind.answers(outputs, encoded, ready.task, ready.config)
