"""Learning rate as a pure function of the step."""

import math
from typing import Literal

Form = Literal["product", "warmup_stable_decay"]


def learning_rate(
    step: int,
    *,
    peak: float,
    warmup: int,
    steps: int,
    form: Form = "product",
    decay_share: float = 0.1,
) -> float:
    """Return the rate of the update after `step` completed updates.

    `product` (electra: optimization.py): peak · (1 - step/steps) · min(1, step/warmup). The decay
    also runs during warm-up, and the very first update has rate 0. `warmup_stable_decay`: a line
    up, `peak` until the last `decay_share` of the steps, then peak · (1 - √x) where x goes from 0
    to 1 over them (Hägele et al., 2024; ModernBERT). A run can be made longer, or its end tried, at
    any step before.
    """
    if form == "product":
        return peak * (1 - step / steps) * (min(1.0, step / warmup) if warmup else 1.0)
    if step < warmup:
        return peak * (step + 1) / warmup
    start = max(warmup, steps - max(1, round(steps * decay_share)))
    return peak * (1 - math.sqrt(max(0, step - start) / (steps - start)))
