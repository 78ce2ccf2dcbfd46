"""What one large kernel reaches on a GPU: the rates that the roofline's bounds are computed with on this machine."""

from typing import Any

import torch
from torch.utils.benchmark import Timer

from electra.optim.precision import choose
from pipelines.commands.gpu_check.sample import record

SIDE, BYTES, SECONDS = 8192, 1 << 30, 1.0


def check(device: torch.device) -> list[dict[str, Any]]:
    """One record, with `rates`: operations a second of a product in the training format, bytes a second of a copy."""
    kind = torch.bfloat16 if choose("auto", device) == "bf16" else torch.float32
    left, right = (torch.randn(SIDE, SIDE, device=device, dtype=kind) for _ in range(2))
    flops = 2.0 * SIDE**3 * per_second("left @ right", left=left, right=right)
    place = torch.empty(BYTES // 4, device=device)
    moved = 2.0 * BYTES * per_second("place.clone()", place=place)
    memory = torch.cuda.get_device_properties(device).total_memory
    rates = {"flops": flops, "bandwidth": moved, "memory": memory, "number": kind.itemsize}
    found = f"{flops / 1e12:,.0f} TFLOP/s, {moved / 1e12:.2f} TB/s, {memory / 2**30:.1f} GiB"
    return [record(f"rates: {str(kind).removeprefix('torch.')}", found, "", "measured", rates=rates)]


def per_second(work: str, **on: torch.Tensor) -> float:
    """How often the GPU does some work in a second."""
    return 1 / Timer(work, globals=on).blocked_autorange(min_run_time=SECONDS).mean
