"""Choose the number format of matrix products. Weights, optimizer and losses are always fp32."""

import contextlib
from typing import Literal

import torch

Precision = Literal["fp32", "bf16"]
PrecisionChoice = Literal["auto", "fp32", "bf16"]


def choose(choice: PrecisionChoice, device: torch.device) -> Precision:
    """Return the format of a choice; `auto` is bf16 on GPUs that have it, otherwise fp32."""
    if choice != "auto":
        return choice
    has_bf16 = device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
    return "bf16" if has_bf16 else "fp32"


def autocast(
    precision: Precision, device: torch.device
) -> contextlib.AbstractContextManager[object]:
    """Return a context in which matrix products run in the chosen format.

    torch keeps the weights that it has cast in one cache for all threads, and whichever thread
    leaves its context first empties it. A weight that is used twice is then cast once or twice, and
    its gradients are summed in bf16 or in fp32. On a CPU, where two threads work at once, there is
    no cache.
    """
    if precision == "fp32":
        return contextlib.nullcontext()
    return torch.autocast(device.type, dtype=torch.bfloat16, cache_enabled=device.type == "cuda")
