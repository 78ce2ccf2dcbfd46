"""Which device a process works on. A GPU that cannot be used is an error, never a reason to train
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

from electra.errors import BadDevice
from electra.workers import rank

DRIVER, NODES = Path("/proc/driver/nvidia/version"), Path("/dev")


def default_device() -> torch.device:
    """This process's GPU, else the CPU: the one that torchrun names, or the current one (see
    `use_own_gpu`).
    """
    if not torch.cuda.is_available():
        refuse_unusable_driver()
        return torch.device("cpu")
    if rank()[1] == 1:
        return torch.device("cuda", torch.cuda.current_device())
    mine, count = os.environ.get("LOCAL_RANK", ""), torch.cuda.device_count()
    if not mine.isdecimal() or int(mine) >= count:
        fault = f"LOCAL_RANK: is {mine!r}, and torch sees {count} GPUs on this machine"
        do = f"start {count} processes on it (--nproc-per-node), and let each see all its GPUs"
        raise BadDevice(f"{fault}; {do}")
    return torch.device("cuda", int(mine))


def driver_version() -> str:
    """The version of the NVIDIA driver, such as 580.65.06; "" if there is none or it is unknown."""
    version = re.search(r"\b\d{3}\.[\d.]+", DRIVER.read_text()) if DRIVER.is_file() else None
    return version[0] if version else ""


def refuse_unusable_driver() -> None:
    """Raise BadDevice if this is a CUDA build of torch on a machine whose NVIDIA driver it cannot
    work with.

    A container sees the driver of its machine also where it was given no GPU: then there is no
    device node.
    """
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES") in {"", "-1"}
    there = DRIVER.is_file() and any(NODES.glob("nvidia[0-9]*"))
    if torch.version.cuda is None or not there or hidden or torch.cuda.is_available():
        return
    driver = DRIVER.read_text().splitlines()[0]
    fault = f"torch {torch.__version__} (CUDA {torch.version.cuda}) cannot use it with the driver installed ({driver})"
    ways = "install a torch built for an older CUDA (make setup TORCH=...), or set CUDA_VISIBLE_DEVICES="
    raise BadDevice(f"GPU: {fault}; update the driver, {ways} to train on the CPU")


def use_own_gpu() -> None:
    """In a worker process: of several GPUs make one's own the current one. Workers are numbered one
    after another.
    """
    if torch.cuda.is_available() and (identity := multiprocessing.current_process()._identity):
        torch.cuda.set_device((identity[0] - 1) % torch.cuda.device_count())


@contextlib.contextmanager
def same_bytes(wanted: bool) -> Iterator[None]:
    """Let a GPU add up in one order, so that the same work gives the same bytes; an operation that
    cannot is an error.

    Without it backward passes of embeddings and of attention add in the order in which threads
    come.
    """
    if not wanted:
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
