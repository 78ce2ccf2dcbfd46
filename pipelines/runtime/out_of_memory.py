"""Out of memory: one sentence that says what to change."""

import contextlib
import errno
from collections.abc import Iterator

import torch

from electra.errors import OutOfMemory
from electra.pretraining.config import ElectraConfig
from electra.workers import rank
from pipelines.runtime.remote_files import reason
from pipelines.runtime.roofline import slices_that_fit


@contextlib.contextmanager
def enough_memory(config: ElectraConfig, vocab_size: int) -> Iterator[None]:
    """Turn any failure of torch, numpy or Python to allocate memory into OutOfMemory."""
    settings = config.pretrain
    try:
        yield
    except (MemoryError, RuntimeError, OSError) as error:
        if not _is_want(error):
            raise
        slices, batch = settings.accumulate, settings.batch
        finer, room = finer_slices(config, vocab_size)
        more = f"set pretrain.accumulate to {finer} (now {slices}){room}, or " if finer else ""
        rows = f"slices of {batch // slices} rows of {settings.length}"
        found = f"there is not enough memory for {rows} ({reason(error)})"
        do = f"{more}lower pretrain.batch; what is saved stays, and `--continue` goes on with it under the new settings"
        raise OutOfMemory("pretrain", found, "smaller slices of a batch", do) from error


def finer_slices(config: ElectraConfig, vocab_size: int) -> tuple[int, str]:
    """The `pretrain.accumulate` to try next, 0 if there is none; and the memory of the GPU that it was computed from.

    On a CPU, and where no number makes a step fit by its budget, it is the next finer one.
    """
    now, processes = config.pretrain.accumulate, rank()[1]
    if torch.cuda.is_available():
        room = torch.cuda.get_device_properties(torch.cuda.current_device()).total_memory
        if found := slices_that_fit(config, vocab_size, room, above=now, processes=processes):
            return found, f", by the budget of a GPU of {room / 1e9:.0f} GB"
    return slices_that_fit(config, vocab_size, float("inf"), above=now, processes=processes), ""


def _is_want(error: BaseException) -> bool:
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    told = any(words in str(error) for words in ("DefaultCPUAllocator", "allocate memory"))
    return told or isinstance(error, MemoryError | torch.OutOfMemoryError)
