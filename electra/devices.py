"""Choose the device of a process. A GPU that cannot be used is an error, never a reason to train
on the CPU.
"""

import contextlib
import multiprocessing
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from electra.errors import BadDevice, short_repr
from electra.workers import rank

DRIVER = Path("/proc/driver/nvidia/version")
NODES = Path("/dev")


def default_device() -> torch.device:
    """Return this process's GPU, or the CPU without one. The GPU is the one that torchrun assigns,
    or the current one (see `use_own_gpu`).
    """
    if not torch.cuda.is_available():
        refuse_unusable_driver()
        return torch.device("cpu")
    if rank()[1] == 1:
        return torch.device("cuda", torch.cuda.current_device())
    local_rank = os.environ.get("LOCAL_RANK", "")
    count = torch.cuda.device_count()
    if local_rank not in map(str, range(count)):
        raise BadDevice(
            f"LOCAL_RANK: is {short_repr(local_rank)}, and torch sees {count} GPUs on this "
            f"machine; start {count} processes on it (--nproc-per-node), and let each see all "
            "its GPUs"
        )
    return torch.device("cuda", int(local_rank))


def driver_version() -> str:
    """Return the version of the NVIDIA driver, such as 580.65.06; "" if it is unknown."""
    version = re.search(r"\b\d{3}\.[\d.]+", DRIVER.read_text()) if DRIVER.is_file() else None
    return version[0] if version else ""


def refuse_unusable_driver() -> None:
    """Raise BadDevice if this is a CUDA build of torch that cannot work with the NVIDIA driver of
    this machine.

    A container that was given no GPU still sees the driver of its machine, but has no device node.
    """
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES") in {"", "-1"}
    present = DRIVER.is_file() and any(NODES.glob("nvidia[0-9]*"))
    if torch.version.cuda is None or not present or hidden or torch.cuda.is_available():
        return
    driver = DRIVER.read_text().splitlines()[0]
    torch_build = f"torch {torch.__version__} (CUDA {torch.version.cuda})"
    fault = f"{torch_build} cannot use it with the driver installed ({driver})"
    older = "install a torch built for an older CUDA (make setup TORCH=...)"
    on_cpu = "set CUDA_VISIBLE_DEVICES= to train on the CPU"
    raise BadDevice(f"GPU: {fault}; update the driver, {older}, or {on_cpu}")


def use_own_gpu() -> None:
    """Select a worker process's GPU where there are several. Workers are numbered one after
    another.
    """
    if torch.cuda.is_available() and (identity := multiprocessing.current_process()._identity):
        torch.cuda.set_device((identity[0] - 1) % torch.cuda.device_count())


@contextlib.contextmanager
def deterministic_gpu(enable: bool) -> Iterator[None]:
    """Make a GPU add in a fixed order, so that the same work gives the same bytes. An operation
    that cannot do so raises an error.

    Without it backward passes of embeddings and of attention add in the order in which threads
    arrive.
    """
    if not enable:
        yield
        return
    # read when the first product is made
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    settings: Any = torch.utils.deterministic
    filled = settings.fill_uninitialized_memory
    enabled = torch.are_deterministic_algorithms_enabled()
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    settings.fill_uninitialized_memory = False  # else each tensor is filled, for no gain
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(enabled, warn_only=warn_only)
        settings.fill_uninitialized_memory = filled
