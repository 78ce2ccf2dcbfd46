"""A step by two halves of a CPU's threads, each with a slice of the batch at a time.

Threads that share a loop wait for one another at the end of each of some thousand; these meet once a step. Gradients
are added in the order of the slices, so the bytes are those of one slice after the other.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from torch import Tensor

from electra.optim.precision import autocast
from electra.pretraining.config import ElectraConfig
from electra.pretraining.distributed import World
from electra.pretraining.gradients import Flat
from electra.pretraining.model import Batch
from electra.pretraining.step import Done, Item, Step, detached_sums


def halves(config: ElectraConfig, batches: Iterable[int], world: World) -> bool:
    """Whether steps of these batches go in two halves: not with dropout, whose numbers come from one generator."""
    settings, encoder = config.pretrain, config.encoder
    return (
        world.device.type == "cpu"
        and world.size == 1
        and settings.threads % 2 == 0
        and not (encoder.dropout or encoder.attention_dropout)
        and all(batch % math.lcm(settings.accumulate, 2) == 0 for batch in batches)
    )


class HalvedStep(Step):
    """Two slices at once. torch has to be set to half of the threads."""

    flat = True

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.pair = ThreadPoolExecutor(2)

    def differentiate(self, slices: Sequence[Batch], seeds: Sequence[int], stage: str) -> Iterator[dict[str, Tensor]]:
        """As Step's; without dropout there is no use for the seeds."""
        gradients = self.gradients
        assert isinstance(gradients, Flat)

        def work(part: Batch) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
            with autocast(self.precision, self.device):
                outputs = gradients.forward(part, stage)
            return detached_sums(outputs), gradients.differentiate(outputs.loss)

        for index, (sums, new) in enumerate(self.each(work, slices)):
            gradients.add(new, sums["loss"], first=index == 0)
            yield sums

    def each(self, work: Callable[[Item], Done], items: Iterable[Item]) -> Iterator[Done]:
        """`map`, two at once."""
        return self.pair.map(work, items)
