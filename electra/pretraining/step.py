"""One optimizer step: each slice forward and backward, all_reduce, clip, finite check, update.

The host reads nothing back in a step, so on a GPU its two parts, a slice and the update, become
CUDA graphs (`CudaGraphs`). On a CPU two slices may run at once, each on half of the threads
(`Step._run_in_two_threads`).
"""

import ctypes
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.optim import AdamW
from torch.utils._pytree import tree_leaves, tree_map

from electra.optim.adamw import clip_gradients
from electra.optim.precision import Precision, autocast
from electra.pretraining.config import ElectraConfig
from electra.pretraining.distributed import World
from electra.pretraining.evaluation import add_sums
from electra.pretraining.model import Batch, Pretraining

WARM_UP = 3  # steps before the capture: kernels are chosen and compiled in them


class CudaGraphs:
    """CUDA graphs of the parts of a step, as PyTorch's notes on CUDA graphs capture a whole
    network.

    A step of the small model is some thousand short kernels, and launching them one by one takes
    longer than running them. From here on this process works on a stream of its own, since the
    default one cannot be captured. All graphs share one pool of memory. A capture that fails costs
    speed and nothing else.
    """

    def __init__(self, device: torch.device) -> None:
        torch.cuda.synchronize(device)
        torch.cuda.set_stream(torch.cuda.Stream(device))  # type: ignore[no-untyped-call]
        self.pool = torch.cuda.graph_pool_handle()
        self.failed = False

    def restart(self, batch: Batch) -> None:
        """Drop all graphs; the next ones are captured after `WARM_UP` steps on slices of this
        shape.
        """
        self.captured: dict[str, tuple[torch.cuda.CUDAGraph, Any]] = {}
        self.steps = 0
        self.static_batch: Batch = tree_map(torch.clone, batch)

    def to_static(self, batch: Batch) -> Batch:
        """Copy a slice to the fixed memory that graphs read."""
        for ours, theirs in zip(tree_leaves(self.static_batch), tree_leaves(batch), strict=True):
            ours.copy_(theirs, non_blocking=True)
        return self.static_batch

    def run(self, name: str, work: Callable[[], Any]) -> Any:
        """Return the result of the work, computed by its graph once the warm-up is over."""
        if self.failed or self.steps < WARM_UP:
            return work()
        if name not in self.captured:
            try:
                self.captured[name] = self.capture(work)
            except torch.OutOfMemoryError:
                raise
            except RuntimeError as error:
                reason = str(error).splitlines()[0]
                print(
                    f"warning: no CUDA graphs, which is slower: {reason}",
                    file=sys.stderr,
                    flush=True,
                )
                self.failed = True
                self.captured = {}
                return work()
        graph, result = self.captured[name]
        graph.replay()
        return result

    def capture(self, work: Callable[[], Any]) -> tuple[torch.cuda.CUDAGraph, Any]:
        """Return a graph of the work, and the results to which each replay writes."""
        graph = torch.cuda.CUDAGraph()
        stream = torch.cuda.current_stream()
        # compiling reads the device, which a capture forbids; NCCL's thread asks its events all the
        # time
        with (
            torch.compiler.set_stance("fail_on_recompile"),
            torch.cuda.graph(
                graph, pool=self.pool, stream=stream, capture_error_mode="thread_local"
            ),
        ):
            result = work()
        return graph, result


class Step:
    """The update of one run. At the first step that is not finite `nonfinite` becomes 1 for good,
    and from then on nothing changes.

    `graphs` captures the parts on a GPU. `threads`: two threads that take turns with slices, each
    on half of a CPU's threads; torch has to be set to that number.
    """

    def __init__(
        self,
        model: Pretraining,
        optimizer: AdamW,
        world: World,
        *,
        precision: Precision,
        graphs: CudaGraphs | None = None,
        threads: ThreadPoolExecutor | None = None,
    ) -> None:
        self.model = model
        self.optimizer = optimizer
        self.world = world
        self.precision = precision
        self.graphs = graphs
        self.threads = threads
        self.nonfinite = torch.zeros((), device=world.device)
        self.loss = torch.zeros((), device=world.device)  # of the step's slices so far
        optimizer.found_inf = self.nonfinite  # type: ignore[attr-defined]  # as torch.amp.GradScaler does
        self.shape_key: tuple[str, torch.Size] | None = None

    def __call__(
        self, slices: Sequence[Batch], seeds: Sequence[int], stage: str
    ) -> tuple[dict[str, Tensor], Tensor]:
        """Train on this process's slices of a batch; return sums over them and the gradient norm
        before clipping.
        """
        shape_key = (stage, slices[0].ids_BT.shape)
        changed = shape_key != self.shape_key
        if changed:
            self.shape_key = shape_key
            self.learning = [
                parameter for parameter in self.model.parameters() if parameter.requires_grad
            ]
            # parameters that are frozen from here on have no gradient and are not updated
            self.optimizer.zero_grad()
            if self.graphs:
                self.graphs.restart(slices[0])
        sums: dict[str, Tensor] = {}
        run = self._run_in_two_threads if self.threads else self._run_slices
        for of_slice in run(slices, seeds, stage):
            add_sums(sums, of_slice)
        if changed:
            missing = [
                name
                for name, parameter in self.model.named_parameters()
                if parameter.requires_grad and parameter.grad is None
            ]
            assert not missing, f"not connected to the loss: {', '.join(missing)}"
        self.world.sum_in_place([self.loss, *self._gradients()])
        norm = self._run_part("update", self._update)
        if self.graphs:
            self.graphs.steps += 1
        return sums, norm

    def _run_part(self, name: str, work: Callable[[], Any]) -> Any:
        return self.graphs.run(name, work) if self.graphs else work()

    def _run_slices(
        self, slices: Sequence[Batch], seeds: Sequence[int], stage: str
    ) -> Iterator[dict[str, Tensor]]:
        """Run one slice after the other; yield the sums of each."""
        for index, (batch, seed) in enumerate(zip(slices, seeds, strict=True)):
            torch.manual_seed(seed)
            placed = self.graphs.to_static(batch) if self.graphs else batch
            work = partial(self._run_slice, placed, stage, first=index == 0)
            yield self._run_part("more" if index else "first", work)

    def _run_slice(self, batch: Batch, stage: str, *, first: bool) -> dict[str, Tensor]:
        # in a graph, backward then writes gradients to the graph's memory instead of adding to them
        if first:
            self.optimizer.zero_grad()
            self.loss.zero_()
        with autocast(self.precision, self.world.device):
            outputs = self.model(batch, stage)
        outputs.loss.backward()
        loss = outputs.loss.detach()
        self.loss += loss
        return {**outputs.sums, "loss": loss}

    def _run_in_two_threads(
        self, slices: Sequence[Batch], seeds: Sequence[int], stage: str
    ) -> Iterator[dict[str, Tensor]]:
        """Run two slices at once; yield the sums of each. No seed is used, since there is no
        dropout.

        Threads that share a loop wait for one another some thousand times a step, these once: 1.74
        times as fast as one thread against 1.24 on an idle machine, and on a busy one four to eight
        times as fast as shared loops. Gradients are added in the order of the slices, so the bytes
        are those of one slice after the other.
        """
        assert self.threads

        def differentiate(batch: Batch) -> tuple[dict[str, Tensor], tuple[Tensor, ...]]:
            with autocast(self.precision, self.world.device):
                outputs = self.model(batch, stage)
            gradients = torch.autograd.grad(outputs.loss, self.learning)
            return {**outputs.sums, "loss": outputs.loss.detach()}, gradients

        self.loss.zero_()
        for parameter in self.learning:
            if parameter.grad is None:
                parameter.grad = torch.empty_like(parameter)
        for index, (sums, gradients) in enumerate(self.threads.map(differentiate, slices)):
            add = torch._foreach_add_ if index else torch._foreach_copy_
            add(self._gradients(), gradients)
            self.loss += sums["loss"]
            yield sums

    def _gradients(self) -> list[Tensor]:
        return [parameter.grad for parameter in self.learning if parameter.grad is not None]

    def _update(self) -> Tensor:
        norm = clip_gradients(self.learning, self.model.config.pretrain.max_grad_norm)
        finite = torch.isfinite(norm) & torch.isfinite(self.loss)
        self.nonfinite.copy_(torch.maximum(self.nonfinite, (~finite).float()))
        self.optimizer.step()
        return norm


def can_use_two_threads(config: ElectraConfig, batches: Iterable[int], world: World) -> bool:
    """Return whether steps of these batches run as halves: not with dropout, since its numbers come
    from one generator.
    """
    settings = config.pretrain
    encoder = config.encoder
    return (
        world.device.type == "cpu"
        and world.size == 1
        and settings.threads % 2 == 0
        and not (encoder.dropout or encoder.attention_dropout)
        and all(batch % math.lcm(settings.accumulate, 2) == 0 for batch in batches)
    )


def keep_freed_memory() -> None:
    """Let glibc keep freed memory for the next step; elsewhere do nothing.

    It would return the memory to the system, which zeroes each page again: 8,000 page faults and 12
    % of a step of the preset tiny on one thread (quartiles 9 to 17 %,
    benchmarks/notes/training.md).
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt:
        mallopt(-1, 2**31 - 1)  # M_TRIM_THRESHOLD
        mallopt(-4, 0)  # M_MMAP_MAX
