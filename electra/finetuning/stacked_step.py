"""One update of a stack of networks. On a GPU it is recorded: a replay for each part of the batch, one to update.

Rows have all lengths, and a recording has one shape. So tokens are filled up to a multiple of GRAIN, and the grid to a
multiple of COLUMNS: a task has some ten shapes then, and each is recorded when it has come often. A part's arrays go to
the GPU in one copy, to the place of the last part of that shape; gradients keep their places, too.

Shapes: S seeds, B rows of a batch, R rows of a part.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from electra.finetuning.batches import Examples, PackedBatch
from electra.finetuning.heads import Network
from electra.finetuning.microbatches import even_parts, with_filler
from electra.finetuning.tasks import FinetuneConfig
from electra.optim.adamw import AdamW
from electra.optim.cuda_graphs import Recorded, Recorder, RecordingError, recorded
from electra.optim.precision import autocast, choose

GRAIN, COLUMNS = 256, 32
OFTEN = 3  # times that work is done before it is recorded: kernels are chosen in them


class StackedStep:
    """Updates of `network`, S networks in one, on rows of `examples`."""

    def __init__(
        self,
        network: Network,
        optimizer: AdamW,
        examples: Examples,
        config: FinetuneConfig,
        *,
        tokens: int,
        record: Recorder | None,
    ) -> None:
        self.network, self.optimizer, self.config = network, optimizer, config
        self.length_N, self.examples = examples.length_N, with_filler(examples)
        self.tokens, self.record = tokens, record
        self.parameters = list(network.parameters())
        self.place = self.parameters[0].device
        self.precision = choose(config.precision, self.place)
        self.places: dict[Any, Tensor] | None = None
        self.times: Counter[Hashable] = Counter()
        self.recorded: dict[Hashable, Recorded] = {}
        if record:
            self.places, self.kept = {}, {parameter: torch.empty_like(parameter) for parameter in self.parameters}
            optimizer.hold_rates(self.place)

    def __call__(self, rows_SB: NDArray[np.int64]) -> Tensor:
        """Train each seed on its rows; the sum of their losses before the update (S,)."""
        seeds, rows = rows_SB.shape
        total_S = torch.zeros(seeds, device=self.place)
        even = (GRAIN, COLUMNS) if self.record else (1, 1)
        for index, (rows_SR, filler_SD, longest) in enumerate(even_parts(rows_SB, self.length_N, self.tokens, *even)):
            chosen = np.concatenate([rows_SR, filler_SD], 1).reshape(-1)
            batch = self.examples.batch(chosen, self.place, longest=longest, places=self.places)
            shape = (seeds, rows_SR.shape[1])
            first, divisor = index == 0, 1 if self.config.loss == "summed" else rows
            key = (shape, len(batch), len(batch.ids_P), longest, first, divisor)
            total_S += self._do(key, partial(self._part, batch, shape, first=first, divisor=divisor))
        self._do("update", self._update)
        return total_S

    def _part(self, batch: PackedBatch, shape: tuple[int, int], *, first: bool, divisor: int) -> Tensor:
        """Set (`first`) or add a part's gradients; its losses (S,)."""
        with autocast(self.precision, self.place):
            loss_S = self.network.losses(batch).view(shape[0], -1)[:, : shape[1]].sum(1)
        if not self.record:
            if first:
                self.optimizer.zero_grad(set_to_none=True)
            (loss_S.sum() / divisor).backward()  # type: ignore[no-untyped-call]
            return loss_S.detach()
        gradients = torch.autograd.grad(loss_S.sum() / divisor, self.parameters, allow_unused=True)
        new = {p: gradient for p, gradient in zip(self.parameters, gradients, strict=True) if gradient is not None}
        for parameter in self.parameters:
            parameter.grad = self.kept[parameter] if parameter in new else None
        add = torch._foreach_copy_ if first else torch._foreach_add_
        add([self.kept[parameter] for parameter in new], list(new.values()))
        return loss_S.detach()

    def _update(self) -> None:
        clip_each(self.parameters, self.config.clip)
        self.optimizer.step()

    def _do(self, key: Hashable, work: Callable[[], Any]) -> Any:
        """The work's result: done at once, or, when it has come often enough, as a recording."""
        self.times[key] += 1
        if not self.record or self.times[key] <= OFTEN:
            return work()
        try:
            if key not in self.recorded:
                self.recorded[key] = recorded(self.record, work)
        except RecordingError as error:
            error.tell()
            self.record, self.recorded, self.places = None, {}, None
            return work()
        replay, result = self.recorded[key]
        replay()
        return result


def clip_each(parameters: Sequence[Tensor], limit: float) -> None:
    """`clip_gradients` for each seed by itself."""
    for grads in zip(*(parameter.grad.unbind() for parameter in parameters if parameter.grad is not None), strict=True):
        norm = nn.utils.get_total_norm(grads, foreach=True)
        torch._foreach_mul_(grads, (limit / (norm + 1e-6)).clamp(max=1.0))
