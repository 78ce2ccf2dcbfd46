"""One process or many (torchrun): which rows each computes, what is summed, and which process reads and writes.

A batch is cut into slices, the same ones for any number of processes: `pretrain.accumulate` of them, or more where the
processes, or a CPU's threads (step.py), ask for it. Each process takes its share of the slices. Rows, masks, samples
and dropout are functions of (seed, step, slice), and losses are divided by counts of the whole batch, so gradients need
only be summed and another number of processes changes a run by the rounding of sums alone.

Without torchrun every method here is the identity. Collectives are called by all processes or by none.
"""

import atexit
import contextlib
import json
import math
import os
import sys
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from electra.errors import BadConfig, NonFinite, Stopped
from electra.workers import rank

GRACE = 15.0  # seconds that a process whose peer has died has to end by itself
_FOREVER = timedelta(days=3650)


class World:
    """The processes of a run as one of them sees them; `main` is the one that reads, writes and prints."""

    def __init__(self, rank: int, size: int, device: torch.device) -> None:
        self.rank, self.size, self.device = rank, size, device
        self.main = rank == 0

    # ── rows ──

    def slices(self, batch: int, accumulate: int, at_once: int = 1) -> tuple[int, range]:
        """How many slices a batch has, of which this process computes some `at_once`, and its own."""
        count = math.lcm(accumulate, self.size * at_once)
        if batch % count:
            found = f"is {batch}, which {self.size} processes and accumulate {accumulate} cut into {count} slices"
            do = "change pretrain.batch, pretrain.accumulate or the number of processes"
            raise BadConfig("pretrain.batch", found, f"a multiple of {count}", do)
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

    def all_reduce_sum(self, sums: dict[str, Tensor]) -> dict[str, Tensor]:
        """Sums over all processes."""
        if self.size == 1 or not sums:
            return sums
        names = sorted(sums)
        pooled = torch.stack([sums[name].double() for name in names])
        dist.all_reduce(pooled)
        return dict(zip(names, pooled.unbind(), strict=True))

    def all_gather(self, tensor: Tensor) -> Tensor:
        """The rows of all processes, in their order; each has as many."""
        if self.size == 1:
            return tensor
        parts = [torch.empty_like(tensor) for _ in range(self.size)]
        dist.all_gather(parts, tensor.contiguous())
        return torch.cat(parts)

    # ── the host ──

    def any_rank(self, flag: bool) -> bool:
        """Whether it is true in any process."""
        if self.size == 1:
            return flag
        answer = torch.tensor(int(flag))  # on the CPU and through gloo, also beside GPUs: the device need not wait
        dist.all_reduce(answer, dist.ReduceOp.MAX)
        return bool(answer)

    def broadcast_object(self, value: Any) -> Any:
        """The main process's value, as JSON."""
        if self.size == 1:
            return value
        raw = json.dumps(value).encode() if self.main else b""
        length = torch.tensor(len(raw))
        dist.broadcast(length, 0)
        data = torch.frombuffer(bytearray(raw or bytes(int(length))), dtype=torch.uint8)
        dist.broadcast(data, 0)
        return json.loads(bytes(data.tolist()))


def _end_with(parent: int) -> None:
    """End this process soon after torchrun's own has gone, however that one ended, also amid a collective."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(Stopped.exit_code)

    threading.Thread(target=watch, daemon=True).start()


class _Watch:
    """Ends this process once another one has died, wherever it then is: it may wait for a kernel that waits for the
    dead one's, which no collective of the host ever tells it.

    Each process waits, in a thread, for a word of the next one, which is said when both are done. The death of the next
    one closes the connection, and whoever finds out says so to the one before.
    """

    def __init__(self, title: str) -> None:
        self.title, self.over = title, threading.Event()
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.group = dist.new_group(backend="gloo", timeout=_FOREVER)
        _groups.append(self.group)
        threading.Thread(target=self._wait, daemon=True).start()

    def end(self, *, well: bool) -> None:
        """Stop watching; where all processes end here together (`well`), the others stop, too."""
        self.over.set()
        if well:
            self._say(0)

    def _say(self, word: int) -> None:
        with contextlib.suppress(RuntimeError):
            dist.send(torch.tensor([word], dtype=torch.uint8), (self.rank - 1) % self.size, group=self.group)

    def _wait(self) -> None:
        word = torch.ones(1, dtype=torch.uint8)
        with contextlib.suppress(RuntimeError):
            dist.recv(word, (self.rank + 1) % self.size, group=self.group)
        if not word or self.over.is_set():
            return
        self._say(1)
        if not self.over.wait(GRACE):
            print(f"error: {_death(self.title)}", file=sys.stderr, flush=True)
            os._exit(Stopped.exit_code)


def _death(title: str) -> Stopped:
    found, do = "another process of this run has ended", "run the same command to go on from the last checkpoint"
    return Stopped(title, found, "", do)


# Groups live as long as the process: letting go of one waits for gloo's threads with the interpreter locked, while such
# a thread needs the interpreter to let go of the last tensor summed. Processes that were done hung.
_groups: list[Any] = []


def launched() -> bool:
    """Whether torchrun started this process as one of several."""
    return rank()[1] > 1


@contextlib.contextmanager
def join(device: torch.device, title: str) -> Iterator[World]:
    """Meet the other processes that torchrun has started, if there are any, and part from them in the end.

    Raises Stopped when another process is gone: torchrun ends the rest, and the same command goes on from the last
    checkpoint. Where this process cannot come to that, it ends with the same exit code in `GRACE` seconds.
    """
    if device.type == "cuda" and device.index is not None:
        torch.cuda.set_device(device)  # streams, memory that is pinned and waits are the current one's
    if not launched():
        yield World(0, 1, device)
        return
    _end_with(os.getppid())
    watch, well = None, False
    try:
        dist.init_process_group("cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo")
        _groups.append(dist.group.WORLD)
        watch = _Watch(title)
        yield World(dist.get_rank(), dist.get_world_size(), device)
        well = True
    except (Stopped, NonFinite):  # which all processes meet at the same step
        well = True
        raise
    except RuntimeError as error:
        if not (isinstance(error, dist.DistError) or "gloo" in str(error).lower()):
            raise
        if device.type == "cuda":  # NCCL's own end would wait for kernels that wait for the dead process
            atexit.register(os._exit, Stopped.exit_code)
        raise _death(title) from error
    finally:
        if watch:
            watch.end(well=well)
        if well:
            dist.destroy_process_group()
