"""Memory that does not suffice: one sentence that says what to change."""

import contextlib
import errno
from collections.abc import Iterator

import torch

from electra.errors import OutOfMemory
from electra.pretraining.config import PretrainConfig


@contextlib.contextmanager
def enough_memory(settings: PretrainConfig) -> Iterator[None]:
    """Turn whatever way torch, numpy or Python refuse memory into OutOfMemory."""
    try:
        yield
    except (MemoryError, RuntimeError, OSError) as error:
        if not _is_want(error):
            raise
        reason = str(error).strip().splitlines() or [type(error).__name__]
        slices, batch = settings.accumulate, settings.batch
        finer = next((count for count in range(slices + 1, batch + 1) if batch % count == 0), None)
        more = f"set pretrain.accumulate to {finer} (now {slices}), or " if finer else ""
        raise OutOfMemory(
            "pretrain",
            f"there is not enough memory for slices of {batch // slices} rows of {settings.length} ({reason[0][:200]})",
            "smaller slices of a batch",
            f"{more}lower pretrain.batch; what is saved stays, and `--continue` goes on with it under the new settings",
        ) from error


def _is_want(error: BaseException) -> bool:
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    return "DefaultCPUAllocator" in str(error) or "allocate memory" in str(error)
