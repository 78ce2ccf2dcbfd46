"""Which device a process works on. A GPU that is there and cannot be used is an error, never a reason to train on the CPU."""

import multiprocessing
import os
from pathlib import Path

import torch

from electra.errors import BadDevice
from electra.workers import rank

DRIVER = Path("/proc/driver/nvidia/version")


def default_device() -> torch.device:
    """This process's GPU, else the CPU: the one that torchrun names, or the current one (see `use_own_gpu`)."""
    if torch.cuda.is_available():
        return torch.device("cuda", int(os.environ["LOCAL_RANK"] if rank()[1] > 1 else torch.cuda.current_device()))
    refuse_unusable_driver()
    return torch.device("cpu")


def refuse_unusable_driver() -> None:
    """Raise BadDevice if this is a CUDA build of torch on a machine whose NVIDIA driver it cannot work with."""
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES")
    if torch.version.cuda is None or not DRIVER.is_file() or hidden in {"", "-1"} or torch.cuda.is_available():
        return
    raise BadDevice(
        "GPU",
        f"torch {torch.__version__} cannot use it with the driver installed ({DRIVER.read_text().splitlines()[0]})",
        f"a driver that runs CUDA {torch.version.cuda}",
        "update the driver, install a torch built for an older CUDA (make setup TORCH=...),"
        " or set CUDA_VISIBLE_DEVICES= to train on the CPU",
    )


def use_own_gpu() -> None:
    """In a worker process: of several GPUs make one's own the current one. Workers of a pool have consecutive numbers."""
    if torch.cuda.is_available() and (identity := multiprocessing.current_process()._identity):
        torch.cuda.set_device((identity[0] - 1) % torch.cuda.device_count())
