"""One optimizer step: slices forward and backward, clip, finite check, update. No host read: it can be recorded.

    compiled   the parts of the networks where the operations are, each once for all layers; the first step comes soon
    recorded   on a GPU, after a few steps, forward and backward of a slice and the update become CUDA graphs: a step of
               the small model is some thousand short kernels, and launching them one by one
               takes longer than running them
    several    processes sum their gradients between the two, in one all_reduce of one buffer (gradients.py)

A recorded step runs on fixed memory: each slice is copied to one place, from the first step of the warm-up on, so that
what is compiled then is what is recorded; gradients lie in one buffer, and the learning rate is a number on the device.
A recording that fails costs speed and nothing else: this part of the step, and all that follow, are done unrecorded.
"""

import ctypes
import importlib.util
import math
import os
import shutil
import sysconfig
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

from electra.nn.encoder import Block, Embeddings
from electra.nn.token_heads import ReplacedTokenHead
from electra.optim.adamw import AdamW, clip_gradients
from electra.optim.cuda_graphs import Recorder, RecordingError, recorded
from electra.optim.precision import Precision, autocast
from electra.pretraining.config import ElectraConfig
from electra.pretraining.corruption import Noise
from electra.pretraining.distributed import World
from electra.pretraining.evaluation import add_sums
from electra.pretraining.gradients import Gradients
from electra.pretraining.model import Batch, Pretraining
from electra.pretraining.networks import ProposingHead

Item = TypeVar("Item")
Done = TypeVar("Done")
WARM_UP = 3  # steps before the recording: kernels are chosen and compiled in them
SETTLED = WARM_UP + 2  # steps after which nothing is compiled or recorded any more


class Step:
    """The update of one run; `bad` latches to 1 at the first non-finite step: from then on nothing changes.

    `halved`: two slices at once, each by half of a CPU's threads (torch has to be set to that number). Gradients are
    added in the order of the slices, so the bytes are those of one slice after the other.
    """

    def __init__(
        self,
        model: Pretraining,
        optimizer: AdamW,
        world: World,
        *,
        precision: Precision,
        record: Recorder | None = None,
        halved: bool = False,
    ) -> None:
        self.optimizer, self.world, self.precision, self.device = optimizer, world, precision, world.device
        self.clip = model.config.pretrain.clip
        self.gradients = Gradients(model, world, half=precision == "bf16" and record is not None)
        self.parameters = list(model.parameters())
        self.bad = optimizer.found_inf = torch.zeros((), device=world.device)
        self.once = torch.full((), float(world.main), device=world.device)  # what every process knows is counted by one
        self.record = record
        self.threads = ThreadPoolExecutor(2) if halved else None
        self.kind: tuple[str, torch.Size] | None = None
        self.calls = 0
        self.recorded: dict[str, tuple[Callable[[], None], Any]] = {}

    def __call__(self, slices: Sequence[Batch], seeds: Sequence[int], stage: str) -> tuple[dict[str, Tensor], Tensor]:
        """Train on this process's slices of a batch; (detached sums over them, gradient norm before clipping)."""
        kind = (stage, slices[0].ids_BT.shape)
        if kind != self.kind:  # another stage or shape: the recordings are of no use
            self.kind, self.calls, self.recorded = kind, 0, {}
            self.optimizer.zero_grad(set_to_none=True)
        if self.record and not self.calls:
            self._allocate(slices[0])
        self.calls += 1
        sums: dict[str, Tensor] = {"count": self.once}
        for found in self._halves(slices, stage) if self.threads else self._slices(slices, seeds, stage):
            add_sums(sums, found)
        self.gradients.all_reduce()
        return sums, self._do("update", self._update)

    def map(self, work: Callable[[Item], Done], items: Iterable[Item]) -> Iterator[Done]:
        """`work` on each item at the step's precision, two at once where the step is halved."""

        def do(item: Item) -> Done:
            with autocast(self.precision, self.device):
                return work(item)

        return self.threads.map(do, items) if self.threads else map(do, items)

    def _slices(self, slices: Sequence[Batch], seeds: Sequence[int], stage: str) -> Iterator[dict[str, Tensor]]:
        """Forward and backward of one slice after the other; the sums of each."""
        for index, (part, seed) in enumerate(zip(slices, seeds, strict=True)):
            torch.manual_seed(seed)
            work = partial(self._slice, self._placed(part), stage, first=index == 0)
            yield self._do("more" if index else "first", work)

    def _slice(self, part: Batch, stage: str, *, first: bool) -> dict[str, Tensor]:
        if first:
            self.gradients.refresh()
        sums, new = self._differentiate(part, stage)
        self.gradients.add(new, sums["loss"], first=first)
        return sums

    def _halves(self, slices: Sequence[Batch], stage: str) -> Iterator[dict[str, Tensor]]:
        """The same, two at once. Threads that share a loop wait for one another some thousand times a step; these once.

        Without dropout there is nothing to seed.
        """
        assert self.threads
        for index, (sums, new) in enumerate(self.threads.map(partial(self._differentiate, stage=stage), slices)):
            self.gradients.add(new, sums["loss"], first=index == 0)
            yield sums

    def _differentiate(self, part: Batch, stage: str) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """A slice's sums, in 64 bits, with its loss; and its gradients by name."""
        with autocast(self.precision, self.device):
            outputs = self.gradients.forward(part, stage)
        sums = {**outputs.sums, "loss": outputs.loss.detach()}
        exact = torch.stack([value.double() for value in sums.values()]).unbind()
        return dict(zip(sums, exact, strict=True)), self.gradients.differentiate(outputs.loss)

    def _placed(self, part: Batch) -> Batch:
        """The slice, copied to the fixed memory where steps are or will be recorded."""
        if self.record is None:
            return part
        for ours, theirs in zip(_tensors(self.fixed), _tensors(part), strict=True):
            ours.copy_(theirs, non_blocking=True)
        return self.fixed

    def _update(self) -> Tensor:
        norm = clip_gradients(self.parameters, self.clip)
        finite = torch.isfinite(norm) & torch.isfinite(self.gradients.loss)
        self.bad.copy_(torch.maximum(self.bad, (~finite).float()))
        self.optimizer.step()
        return norm

    def _allocate(self, part: Batch) -> None:
        self.fixed = _clone(part)
        self.optimizer.hold_rates(self.device)

    def _do(self, name: str, work: Callable[[], Any]) -> Any:
        """A part of the step: done at once, or after the warm-up as a recording.

        A step is never begun anew: processes would sum its gradients twice.
        """
        if self.record and self.calls > WARM_UP and name not in self.recorded:
            try:
                self.recorded[name] = recorded(self.record, work)
            except RecordingError as error:
                error.warn()
                self.record, self.recorded = None, {}
        if name not in self.recorded:
            return work()
        replay, result = self.recorded[name]
        replay()
        return result


def halves(config: ElectraConfig, batches: Iterable[int], world: World) -> bool:
    """Whether steps of these batches are halved: not with dropout, whose numbers come from one generator."""
    settings, encoder = config.pretrain, config.encoder
    return (
        world.device.type == "cpu"
        and world.size == 1
        and settings.threads % 2 == 0
        and not (encoder.dropout or encoder.attention_dropout)
        and all(batch % math.lcm(settings.accumulate, 2) == 0 for batch in batches)
    )


def _tensors(batch: Batch) -> list[Tensor]:
    own = [getattr(batch, field.name) for field in fields(Batch) if field.name != "noise"]
    return [*own, *(getattr(batch.noise, field.name) for field in fields(Noise))]


def _clone(batch: Batch) -> Batch:
    noise = Noise(**{field.name: getattr(batch.noise, field.name).clone() for field in fields(Noise)})
    own = {field.name: getattr(batch, field.name).clone() for field in fields(Batch) if field.name != "noise"}
    return Batch(**own, noise=noise)


def lacks_to_compile() -> str:
    """What torch's compiler does not find here of what it needs for a GPU, as Triton looks for it; "" if nothing."""
    if importlib.util.find_spec("triton") is None:
        return "Triton"
    if not (os.environ.get("CC") or any(map(shutil.which, ("gcc", "clang")))):
        return "C compiler: gcc or clang"
    scheme = sysconfig.get_default_scheme().replace("posix_local", "posix_prefix")
    return "" if Path(sysconfig.get_paths(scheme)["include"], "Python.h").is_file() else "Python.h: Python's headers"


def share_compilers() -> None:
    """Give each process of a machine its share of the cores to compile with, before torch's compiler is imported.

    It would start a worker for each core, up to 32, in every process.
    """
    processes = os.environ.get("LOCAL_WORLD_SIZE", "1")  # torchrun's
    if processes.isdecimal() and int(processes) > 1:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", str(max(1, cores // int(processes))))


def compile_parts(model: Pretraining, **options: Any) -> None:
    """Compile, in place, what a step spends its time in. One layer is compiled for all of its size, not each of them.

    Inductor joins kernels that do not depend on each other (`combo_kernels`): a layer's backward pass ends in eight
    short sums for biases and norms, a sixth of all kernels of the small model.
    """
    share_compilers()
    import torch._dynamo.config as dynamo  # seconds, which only a process that compiles pays

    dynamo.recompile_limit = max(dynamo.recompile_limit, 32)  # two networks, training and evaluation, two stages
    if "backend" not in options:
        options["options"] = {"combo_kernels": True}
    options = {"dynamic": False, **options}
    for module in model.modules():
        if isinstance(module, Block | Embeddings | ReplacedTokenHead):
            module.forward = torch.compile(module.forward, **options)  # type: ignore[method-assign]
        elif isinstance(module, ProposingHead):
            module.propose = torch.compile(module.propose, **options)  # type: ignore[method-assign]
    for name in ("mask", "replace", "judge"):
        setattr(model, name, torch.compile(getattr(model, name), **options))


def keep_freed_memory(keep: bool = True) -> None:
    """Let the C library keep freed blocks instead of giving them back to the system, which then zeroes each page anew.

    A CPU step allocates the same few gigabytes over and over; without this a tenth of it goes into page faults. `False`
    restores glibc's own limits. Elsewhere than on glibc nothing is done.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return
    trim_threshold, mmap_threshold, mmap_max = -1, -3, -4
    mallopt(mmap_threshold, 32 << 20)
    mallopt(trim_threshold, (1 << 31) - 1 if keep else 64 << 20)
    mallopt(mmap_max, 0 if keep else 1 << 16)
    if not keep:
        ctypes.CDLL(None).malloc_trim(0)
