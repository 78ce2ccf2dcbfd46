"""One update of fine-tuning: a batch in parts of bounded size, whose gradients add up, then clipping and Adam.

On a GPU the update is recorded as CUDA graphs, since launching its thousand short kernels takes longer than running
them: one graph for each shape of a part, and one for the update. Rows have all lengths and a graph has one shape, so
tokens are padded to a multiple of GRAIN by extra rows whose losses are not counted, and the grid of attention to a
multiple of COLUMNS: a task has some ten shapes then, and each is recorded when it has occurred OFTEN times. A part's
arrays go to the GPU in one copy, to the place of the last part of that shape; gradients have fixed places, too.

Shapes: B rows of a batch, R rows of a part, D rows of padding.
"""

import dataclasses
from collections import Counter
from collections.abc import Callable, Hashable
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from electra.finetuning.batches import NO_WORD, Examples, PackedBatch, parts
from electra.finetuning.heads import Network
from electra.finetuning.tasks import FinetuneConfig
from electra.optim.adamw import AdamW, clip_gradients
from electra.optim.cuda_graphs import Recorded, Recorder, RecordingError, recorded
from electra.optim.precision import autocast, choose

GRAIN, COLUMNS = 256, 32
OFTEN = 3  # runs of a piece of work before it is recorded: libraries choose their kernels in them
_PADDING_ROWS = 8  # rows of padding come in multiples of this, so that shapes are few


class Step:
    """Updates of `network` on rows of `examples`, at most `tokens` tokens at a time; recorded by `record`, if given."""

    def __init__(
        self,
        network: Network,
        optimizer: AdamW,
        examples: Examples,
        config: FinetuneConfig,
        *,
        tokens: int,
        record: Recorder | None = None,
    ) -> None:
        self.network, self.optimizer, self.config = network, optimizer, config
        self.length_N, self.tokens, self.record = examples.length_N, tokens, record
        self.examples = with_padding_rows(examples) if record else examples
        self.parameters = list(network.parameters())
        self.place = self.parameters[0].device
        self.precision = choose(config.precision, self.place)
        self.places: dict[Any, Tensor] | None = None
        self.times: Counter[Hashable] = Counter()
        self.recorded: dict[Hashable, Recorded] = {}
        if record:
            self.places, self.grads = {}, {parameter: torch.empty_like(parameter) for parameter in self.parameters}
            optimizer.hold_rates(self.place)

    def __call__(self, rows_B: NDArray[np.int64]) -> Tensor:
        """Train on these rows; the sum of their losses before the update, a scalar on the device."""
        total = torch.zeros((), device=self.place)
        divisor = 1 if self.config.loss == "summed" else len(rows_B)
        for index, rows_R in enumerate(parts(rows_B, self.length_N, self.tokens)):
            chosen, longest = padded(rows_R, self.length_N) if self.record else (rows_R, 0)
            batch = self.examples.batch(chosen, self.place, longest=longest, places=self.places)
            key = (len(rows_R), len(batch), len(batch.ids_P), batch.longest, index == 0, divisor)
            total += self._do(key, partial(self._part, batch, len(rows_R), first=index == 0, divisor=divisor))
        self._do("update", self._update)
        return total

    def _part(self, batch: PackedBatch, rows: int, *, first: bool, divisor: int) -> Tensor:
        """Set (`first`) or add a part's gradients; the sum of the losses of its first `rows` rows."""
        with autocast(self.precision, self.place):
            loss = self.network.losses(batch)[:rows].sum()
        if not self.record:
            if first:
                self.optimizer.zero_grad(set_to_none=True)
            (loss / divisor).backward()  # type: ignore[no-untyped-call]
            return loss.detach()
        gradients = torch.autograd.grad(loss / divisor, self.parameters, allow_unused=True)
        new = {p: gradient for p, gradient in zip(self.parameters, gradients, strict=True) if gradient is not None}
        for parameter in self.parameters:
            parameter.grad = self.grads[parameter] if parameter in new else None
        add = torch._foreach_copy_ if first else torch._foreach_add_
        add([self.grads[parameter] for parameter in new], list(new.values()))
        return loss.detach()

    def _update(self) -> None:
        clip_gradients(self.parameters, self.config.clip)
        self.optimizer.step()

    def _do(self, key: Hashable, work: Callable[[], Any]) -> Any:
        """The work's result: done at once, or by a recording once it has been done often enough."""
        self.times[key] += 1
        if not self.record or self.times[key] <= OFTEN:
            return work()
        try:
            if key not in self.recorded:
                self.recorded[key] = recorded(self.record, work)
        except RecordingError as error:
            error.warn()
            self.record, self.recorded, self.places = None, {}, None
            return work()
        replay, result = self.recorded[key]
        replay()
        return result


def with_padding_rows(examples: Examples) -> Examples:
    """The rows, and after them one row of padding of each length from 1 up to the longest row's."""
    longest = int(examples.length_N.max())
    length_L = np.arange(1, longest + 1)
    targets = {
        name: np.concatenate([values, np.zeros(longest, values.dtype)])
        if len(values) == len(examples)
        else np.concatenate([values, np.full(length_L.sum(), NO_WORD, values.dtype)])  # one for each token
        for name, values in examples.targets.items()
    }
    return dataclasses.replace(
        examples,
        ids_S=np.concatenate([examples.ids_S, np.zeros(length_L.sum(), examples.ids_S.dtype)]),
        length_N=np.concatenate([examples.length_N, length_L]),
        second_N=np.concatenate([examples.second_N, length_L]),
        targets=targets,
        row_ids=[*examples.row_ids, *[""] * longest],
    )


def padded(rows_R: NDArray[np.int64], length_N: NDArray[np.int64]) -> tuple[NDArray[np.int64], int]:
    """The rows of a part with rows of `with_padding_rows` after them, (R + D,), and the columns of its grid.

    Their tokens are a multiple of GRAIN, the columns the longest row's tokens rounded up to a multiple of COLUMNS.
    """
    tokens, columns = int(length_N[rows_R].sum()), -(-int(length_N[rows_R].max()) // COLUMNS) * COLUMNS
    most = min(columns, int(length_N.max())) - 1  # tokens of a row of padding beyond its first
    count = missing = 0
    while (missing := -(tokens + count) % GRAIN) > count * most:  # each has one token at least
        count += _PADDING_ROWS
    beyond_D = np.clip(missing - np.arange(count) * most, 0, most)
    return np.concatenate([rows_R, len(length_N) + beyond_D]), columns
