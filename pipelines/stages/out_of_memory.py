"""Turn running out of memory into one sentence with the setting to change."""

import contextlib
import errno
from collections.abc import Iterator

import torch

from electra.errors import OutOfMemory, first_line
from electra.pretraining.config import PretrainConfig


@contextlib.contextmanager
def enough_memory(settings: PretrainConfig) -> Iterator[None]:
    """Turn any failure of torch, numpy or Python to allocate memory into OutOfMemory."""
    try:
        yield
    except (MemoryError, RuntimeError, OSError) as error:
        if not _is_want(error):
            raise
        slices = settings.accumulate
        raise OutOfMemory(
            f"pretrain: there is not enough memory for slices of {settings.batch // slices} rows "
            f"of {settings.length} ({first_line(error)}); raise pretrain.accumulate "
            f"(now {slices}) or lower pretrain.batch; what is saved stays, and `--continue` "
            "resumes it under the new settings"
        ) from error


def _is_want(error: BaseException) -> bool:
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return any(words in str(error) for words in ("DefaultCPUAllocator", "allocate memory"))
