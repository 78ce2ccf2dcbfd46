"""Train single steps without the loop, and imitate CUDA graphs on other devices."""

import contextlib
import itertools
from types import SimpleNamespace

import torch
from torch.utils._pytree import tree_leaves, tree_map

from electra.optim.adamw import build_optimizer, set_learning_rate
from electra.pretraining.dataloader import BatchLoader, slice_batch
from electra.pretraining.distributed import World
from electra.pretraining.model import Pretraining
from electra.pretraining.step import WARM_UP, CudaGraphs, Step
from tests.support.pretraining import MODERN, SPECIAL, VOCAB, data

CPU = torch.device("cpu")
META = torch.device("meta")
QUIET = {"encoder__dropout": 0.0, "encoder__attention_dropout": 0.0}
TWIN = {"objective__sharing": "all", "generator__width": 1.0}
MODERN_TOKENS = {"encoder": MODERN, "objective__sharing": "tokens"}


def train_steps(
    settings,
    slices=1,
    before=lambda model: None,
    feeds=None,
    device=CPU,
    precision="fp32",
    **options,
):
    """Return the numbers of each step, its loss last, and the weights in the end. Batches are drawn
    on the CPU.
    """
    torch.manual_seed(0)
    with device if device == META else contextlib.nullcontext():
        model = Pretraining(settings, VOCAB, SPECIAL).to(device).train()
    before(model)
    optimizer = build_optimizer(model.named_parameters(), weight_decay=0.01)
    step = Step(model, optimizer, World(0, 1, device), precision=precision, **options)
    feeds = feeds or [BatchLoader(data().train, settings, CPU, "noise")] * (WARM_UP + 4)
    numbers = []
    for number, feed in enumerate(feeds):
        set_learning_rate(optimizer, 1e-3 * (number + 1))
        batch = tree_map(lambda tensor: tensor.to(device), feed.batch(number))
        parts = [slice_batch(batch, index, slices) for index in range(slices)]
        sums, norm = step(parts, [7 * number + index for index in range(slices)], "joint")
        numbers.append(torch.stack([norm.double(), *sums.values()]))
    return numbers, [parameter.detach() for parameter in model.parameters()]


class Rerun(CudaGraphs):
    """Graphs that run the captured work again; its results keep their place. The capture number
    `failing` fails, as a device refuses an illegal operation.
    """

    def __init__(self, failing=None):
        self.failed = False
        self.count = 0
        self.failing = failing

    def capture(self, work):
        if self.count == self.failing:
            raise RuntimeError("operation not permitted when stream is capturing")
        self.count += 1
        results = work()
        # a graph runs its work at its first replay, not while it is captured: here the other way
        # round
        runs = itertools.chain([lambda: results], itertools.repeat(work))

        def replay():
            new = next(runs)()
            for place, value in zip(tree_leaves(results), tree_leaves(new), strict=True):
                place.copy_(value)

        return SimpleNamespace(replay=replay), results
