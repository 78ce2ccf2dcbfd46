"""One process or many (torchrun): which rows each computes, what is summed, and which process reads
and writes.

A batch is cut into slices, of which each process takes its share: `pretrain.accumulate` of them, or
more where the processes, or a CPU's threads (step.py), ask for it. Rows, masks and samples are
functions of (seed, step), and losses are divided by counts of the whole batch, so gradients need
only be summed. Dropout is a function of (seed, step, slice). So a different number of processes
changes only the rounding of sums if a batch is cut into as many slices; with more slices, dropout
also differs.

Without torchrun every method here is the identity. Collectives are called by all processes or by
none.
"""

import contextlib
import json
import math
import os
import threading
import time
from collections.abc import Iterable, Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from electra.errors import BadConfig, NonFinite, Stopped
from electra.workers import rank


class World:
    """The processes of a run as one of them sees them; `main` is the one that reads, writes and
    prints.
    """

    def __init__(self, rank: int, size: int, device: torch.device) -> None:
        self.rank = rank
        self.size = size
        self.device = device
        self.main = rank == 0

    # ── rows ──

    def slices(
        self, batches: Iterable[int], accumulate: int, at_once: int = 1
    ) -> tuple[int, range]:
        """Return how many slices a batch of any of these sizes has, and which are this process's.

        A process computes `at_once` of its slices at once. Raises BadConfig for a batch that cannot
        be cut so.
        """
        count = math.lcm(accumulate, self.size * at_once)
        for batch in batches:
            if batch % count:
                cut = f"{self.size} processes and accumulate {accumulate} cut into {count} slices"
                raise BadConfig(
                    f"pretrain.batch: is {batch}, which {cut}: make it a multiple of {count}"
                )
        share = count // self.size
        return count, range(self.rank * share, (self.rank + 1) * share)

    # ── tensors: all processes take part ──

    @torch.no_grad()
    def broadcast(self, target: Tensor, source: Tensor | None) -> None:
        """Set a tensor of every process from the main process's; the others pass None."""
        if source is not None:
            target.copy_(source)
        if self.size > 1:
            dist.broadcast(target.detach(), 0)

    @torch.no_grad()
    def sum_in_place(self, tensors: list[Tensor]) -> None:
        """Sum tensors over all processes, in one flat buffer."""
        if self.size == 1:
            return
        flat = torch.cat([tensor.flatten() for tensor in tensors])
        dist.all_reduce(flat)
        parts = torch.split(flat, [tensor.numel() for tensor in tensors])
        torch._foreach_copy_(
            tensors, [part.view_as(tensor) for part, tensor in zip(parts, tensors, strict=True)]
        )

    def all_reduce_sum(self, sums: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return the sums over all processes, in fp64."""
        if self.size == 1 or not sums:
            return sums
        names = sorted(sums)
        pooled = torch.stack([sums[name].double() for name in names])
        dist.all_reduce(pooled)
        return dict(zip(names, pooled.unbind(), strict=True))

    def all_gather(self, tensor: Tensor) -> Tensor:
        """Return the rows of all processes, in their order; each has as many."""
        if self.size == 1:
            return tensor
        parts = [torch.empty_like(tensor) for _ in range(self.size)]
        dist.all_gather(parts, tensor.contiguous())
        return torch.cat(parts)

    # ── the host ──

    def any_rank(self, flag: bool) -> bool:
        """Return whether it is true in any process."""
        if self.size == 1:
            return flag
        # on the CPU through gloo, also with GPUs, so that the device need not wait
        answer = torch.tensor(int(flag))
        dist.all_reduce(answer, dist.ReduceOp.MAX)
        return bool(answer)

    def broadcast_object(self, value: Any) -> Any:
        """Return the main process's value, which goes through JSON."""
        if self.size == 1:
            return value
        raw = json.dumps(value).encode() if self.main else b""
        length = torch.tensor(len(raw))
        dist.broadcast(length, 0)
        data = torch.frombuffer(bytearray(raw or bytes(int(length))), dtype=torch.uint8)
        dist.broadcast(data, 0)
        return json.loads(bytes(data.tolist()))


def _end_with(parent: int) -> None:
    """End this process soon after torchrun's own has gone, however that one ended, also in a
    collective.
    """

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(Stopped.exit_code)

    threading.Thread(target=watch, daemon=True).start()


# Groups live as long as the process: letting go of one waits for gloo's threads with the
# interpreter locked, while such a thread needs the interpreter to let go of the last tensor summed.
# Processes that were done hung.
_groups: list[Any] = []


@contextlib.contextmanager
def join(device: torch.device, title: str) -> Iterator[World]:
    """Meet the other processes that torchrun has started, if there are any, and part from them in
    the end.

    Raises Stopped when another process is gone: torchrun ends the rest, and the same command
    resumes from the last checkpoint.
    """
    if device.type == "cuda" and device.index is not None:
        # streams, memory that is pinned and waits are the current one's
        torch.cuda.set_device(device)
    if rank()[1] == 1:
        yield World(0, 1, device)
        return
    _end_with(os.getppid())
    try:
        dist.init_process_group("cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo")
        _groups.append(dist.group.WORLD)
        yield World(dist.get_rank(), dist.get_world_size(), device)
    except (Stopped, NonFinite):  # which all processes meet at the same step
        dist.destroy_process_group()
        raise
    except RuntimeError as error:
        if not (isinstance(error, dist.DistError) or "gloo" in str(error).lower()):
            raise
        ended = "another process of this run has ended"
        raise Stopped(
            f"{title}: {ended}; run the same command to continue from the last checkpoint"
        ) from error
    dist.destroy_process_group()
