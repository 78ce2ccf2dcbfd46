"""Both encoders with every sharing as a device trains them by default, beside the CPU in fp32."""

from typing import Any

import torch

from pipelines.commands.gpu_check.losses import CPU, RATE, STEPS, Mode, compared, modes, train
from pipelines.commands.gpu_check.sample import networks, record

LIMITS = (5e-3, 3e-2)  # the modern encoder learns faster than what `losses` compares, so it drifts further


def check(device: torch.device) -> list[dict[str, Any]]:
    """A record for each network; one that fails does not hide the others."""
    records, own = [], default(device)
    steps = STEPS if own.record else 3
    for name, shape in networks(device).items():
        title = f"networks: {name}, {own.name}"
        try:
            expected, found = (
                train(mode, shape, rate=RATE, seeds=list(range(steps))) for mode in (Mode(CPU, "fp32"), own)
            )
        except RuntimeError as error:
            records.append(record(title, str(error).splitlines()[0], "an end", "FAILED"))
        else:
            records.append(compared(title, found, expected, LIMITS))
    return records


def default(device: torch.device) -> Mode:
    """How a device trains: bf16 if it has it, and on a GPU in CUDA graphs; uncompiled, which takes seconds here."""
    last = [mode for mode in modes(device) if not mode.compiled][-1]
    bf16 = device.type == "cpu" or torch.cuda.is_bf16_supported(including_emulation=False)
    return last if bf16 else Mode(device, "fp32", record=last.record)
