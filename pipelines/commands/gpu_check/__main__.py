"""One check as a process: `python -m pipelines.commands.gpu_check PART|train DEVICE PLACE [FLAG ...]`.

PLACE is the file of records to write or, of `train`, the folder of the run; its flags are `deterministic` and `die`.
"""

import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch.utils.benchmark import Timer

from electra.devices import default_device
from electra.files import write_json
from electra.optim.precision import choose
from pipelines.commands.gpu_check import losses, resume
from pipelines.commands.gpu_check.sample import record

SIDE, BYTES, SECONDS = 8192, 1 << 30, 1.0


def rates(device: torch.device) -> list[dict[str, Any]]:
    """One record, with `rates`: operations a second of a product in the training format, bytes a second of a copy."""
    kind = torch.bfloat16 if choose("auto", device) == "bf16" else torch.float32
    left, right = (torch.randn(SIDE, SIDE, device=device, dtype=kind) for _ in range(2))
    flops = 2.0 * SIDE**3 * per_second("left @ right", left=left, right=right)
    moved = 2.0 * BYTES * per_second("place.clone()", place=torch.empty(BYTES // 4, device=device))
    memory = torch.cuda.get_device_properties(device).total_memory
    values = {"flops": flops, "bandwidth": moved, "memory": memory, "number": kind.itemsize}
    found = f"{flops / 1e12:,.0f} TFLOP/s, {moved / 1e12:.2f} TB/s, {memory / 2**30:.1f} GiB"
    return [record(f"rates: {str(kind).removeprefix('torch.')}", found, "", "measured", rates=values)]


def per_second(work: str, **on: torch.Tensor) -> float:
    """How often the GPU does some work in a second."""
    return 1 / Timer(work, globals=on).blocked_autorange(min_run_time=SECONDS).mean


def resumed(device: torch.device) -> list[dict[str, Any]]:
    """The records of killed and resumed runs."""
    with tempfile.TemporaryDirectory() as folder:
        return resume.check(device, Path(folder))


CHECKS = {"rates": rates, "losses": losses.check, "networks": losses.check_networks}
CHECKS |= {"finetune": losses.check_finetuning, "resume": resumed}

if __name__ == "__main__":
    part, name, place, *flags = sys.argv[1:]
    torch.set_num_threads(1)
    device = torch.device("cpu") if name == "cpu" else default_device()
    if part == "train":
        resume.train(Path(place), device, **dict.fromkeys(flags, True))
    else:
        write_json(Path(place), CHECKS[part](device))
