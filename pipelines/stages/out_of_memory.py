"""Out of memory: one sentence that says what to change."""

import contextlib
import errno
import math
from collections.abc import Iterator

import torch

from electra.errors import OutOfMemory, first_line
from electra.pretraining.config import PretrainConfig
from electra.pretraining.phases import phases_of
from electra.workers import rank


@contextlib.contextmanager
def enough_memory(settings: PretrainConfig) -> Iterator[None]:
    """Turn any failure of torch, numpy or Python to allocate memory into OutOfMemory."""
    try:
        yield
    except (MemoryError, RuntimeError, OSError) as error:
        if not _is_want(error):
            raise
        slices = settings.accumulate
        finer = finer_slices(settings)
        remedy = "lower pretrain.batch"
        if finer:
            remedy = f"set pretrain.accumulate to {finer} (now {slices}), or {remedy}"
        rows = f"slices of {settings.batch // slices} rows of {settings.length}"
        fault = f"there is not enough memory for {rows} ({first_line(error)})"
        stays = "what is saved stays, and `--continue` goes on with it under the new settings"
        raise OutOfMemory(f"pretrain: {fault}; {remedy}; {stays}") from error


def finer_slices(settings: PretrainConfig) -> int:
    """Return the next larger `pretrain.accumulate` that every phase's batch allows, 0 if there is
    none.
    """
    batch = math.gcd(*(phase.batch for phase in phases_of(settings, 1)))
    counts = range(settings.accumulate + 1, batch + 1)
    return next((count for count in counts if batch % math.lcm(count, rank()[1]) == 0), 0)


def _is_want(error: BaseException) -> bool:
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return any(words in str(error) for words in ("DefaultCPUAllocator", "allocate memory"))
