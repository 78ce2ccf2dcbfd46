"""Which number format the matrix products run in; weights, optimizer and losses are always fp32."""

import contextlib
import time
from typing import Literal

import torch

Precision = Literal["fp32", "bf16"]
Asked = Literal["default", "auto", "fp32", "bf16"]


def choose(asked: Asked, device: torch.device) -> Precision:
    """`auto` and `default` are bf16 on GPUs that have it.

    On CPUs `auto` is bf16 where a probe of a third of a second shows that it pays, which another machine or minute may deny;
    `default` is fp32 there.
    """
    if asked in {"fp32", "bf16"}:
        return asked
    if device.type == "cuda":
        return "bf16" if torch.cuda.is_bf16_supported() else "fp32"
    if asked == "default":
        return "fp32"
    # The best of five turns each: other work on the machine can only slow a turn down.
    rates = [(_rate(torch.bfloat16), _rate(torch.float32)) for _ in range(5)]
    half, full = (max(turns) for turns in zip(*rates, strict=True))
    return "bf16" if half > 1.5 * full else "fp32"


def _rate(dtype: torch.dtype, seconds: float = 0.03) -> float:
    """Products of 512 × 512 matrices a second."""
    left, right = torch.ones(512, 512, dtype=dtype), torch.ones(512, 512, dtype=dtype)
    left @ right
    count, start = 0, time.perf_counter()
    while (passed := time.perf_counter() - start) < seconds:
        left @ right
        count += 1
    return count / passed


def autocast(precision: Precision, device: torch.device) -> contextlib.AbstractContextManager[object]:
    """Context in which matrix products run in the chosen format."""
    if precision == "fp32":
        return contextlib.nullcontext()
    return torch.autocast(device.type, dtype=torch.bfloat16)
