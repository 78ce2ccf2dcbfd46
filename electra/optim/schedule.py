"""Learning rate as a pure function of the step."""

from typing import Literal


def learning_rate(
    step: int, *, peak: float, warmup: int, steps: int, form: Literal["product", "warmup_then_decay"] = "product"
) -> float:
    """Rate of the update after `step` completed updates.

    `product` (electra: optimization.py): peak · (1 - step/steps) · min(1, step/warmup); decay runs during warm-up too,
    and the very first update has rate 0. `warmup_then_decay` is the usual alternative: a line up to `peak`, a line to 0.
    """
    if form == "product":
        return peak * (1 - step / steps) * (min(1.0, step / warmup) if warmup else 1.0)
    if step < warmup:
        return peak * (step + 1) / warmup
    return peak * (steps - step) / max(1, steps - warmup)
