"""Train single steps without the loop, and imitate CUDA graphs on other devices."""

import contextlib

import torch
from torch.utils._pytree import tree_leaves, tree_map

from electra.optim.adamw import build_optimizer, set_learning_rate
from electra.pretraining.dataloader import BatchLoader, slice_batch
from electra.pretraining.distributed import World
from electra.pretraining.model import Pretraining
from electra.pretraining.step import WARM_UP, CudaGraphs, Step
from tests.electra.helpers import MODERN, SPECIAL, VOCAB, data

CPU = torch.device("cpu")
META = torch.device("meta")
QUIET = {"encoder__dropout": 0.0, "encoder__attention_dropout": 0.0}
TWIN = {"objective__sharing": "all", "generator__width": 1.0}
MODERN_TOKENS = {"encoder": MODERN, "objective__sharing": "tokens"}


def build(settings, device=CPU, precision="fp32", **options):
    torch.manual_seed(0)
    with device if device == META else contextlib.nullcontext():
        model = Pretraining(settings, VOCAB, SPECIAL).to(device).train()
    optimizer = build_optimizer(model.named_parameters(), weight_decay=0.01)
    return model, Step(model, optimizer, World(0, 1, device), precision=precision, **options)


def train_steps(settings, slices=1, before=lambda model: None, feeds=None, device=CPU, **options):
    """Return the numbers of each step, its loss last, and the weights in the end. Batches are drawn
    on the CPU.
    """
    model, step = build(settings, device, **options)
    before(model)
    feeds = feeds or [BatchLoader(data().train, settings, CPU, "noise")] * (WARM_UP + 4)
    numbers = []
    for number, feed in enumerate(feeds):
        set_learning_rate(step.optimizer, 1e-3 * (number + 1))
        batch = tree_map(lambda tensor: tensor.to(device), feed.batch(number))
        parts = [slice_batch(batch, index, slices) for index in range(slices)]
        sums, norm = step(parts, [7 * number + index for index in range(slices)], "joint")
        numbers.append((norm.item(), *(value.item() for value in sums.values())))
    return numbers, [parameter.detach() for parameter in model.parameters()]


class Rerun(CudaGraphs):
    """Graphs that run the captured work again; its results keep their place. The capture number
    `failing` fails, as a device refuses an illegal operation.
    """

    def __init__(self, failing=None):
        self.failed = False
        self.count = 0
        self.failing = failing

    def _capture(self, work):
        if self.count == self.failing:
            raise RuntimeError("operation not permitted when stream is capturing")
        self.count += 1
        graph = Again(work)
        return graph, graph.results


class Again:
    """A graph runs its work at its first replay, not while it is captured: here the other way
    round.
    """

    def __init__(self, work):
        self.work = work
        self.results = work()
        self.replays = 0

    def replay(self):
        self.replays += 1
        if self.replays > 1:
            for place, value in zip(
                tree_leaves(self.results), tree_leaves(self.work()), strict=True
            ):
                place.copy_(value)
