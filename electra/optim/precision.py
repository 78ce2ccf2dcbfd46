"""Choose the number format of matrix products. Weights, optimizer and losses are always fp32."""

import contextlib
from typing import Literal

import torch

Precision = Literal["fp32", "bf16"]
PrecisionChoice = Literal["default", "auto", "fp32", "bf16"]
# A processor's instructions for products in bf16; elsewhere they are emulated, which is slower than
# fp32.
PRODUCTS = ("amx_bf16", "avx512_bf16")


def choose(choice: PrecisionChoice, device: torch.device) -> Precision:
    """Return the format of a choice; `auto` and `default` are bf16 on GPUs that have it.

    On CPUs `auto` is bf16 where the processor has instructions for it, which every start finds
    alike on one machine; `default` is fp32 there.
    """
    if choice in {"fp32", "bf16"}:
        return choice
    if device.type == "cuda":
        return "bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "fp32"
    if choice == "default":
        return "fp32"
    capabilities = torch.cpu.get_capabilities()
    return "bf16" if any(capabilities.get(name) for name in PRODUCTS) else "fp32"


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
