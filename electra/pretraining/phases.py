"""What is due at a step of a run: which networks learn, and at which rate."""

from electra.optim.schedule import learning_rate
from electra.pretraining.config import ElectraConfig


def stage_of(config: ElectraConfig, step: int, steps: int) -> str:
    """Which networks learn at a step: both, or in two-stage training first the generator, then the discriminator."""
    if config.objective.training != "two_stage":
        return "joint"
    return "generator" if step < steps // 2 else "discriminator"


def rate(config: ElectraConfig, step: int, steps: int) -> float:
    """Learning rate of a step; each stage of two-stage training has a warm-up and a decay of its own."""
    settings, stage = config.pretrain, stage_of(config, step, steps)
    first = steps // 2 if stage == "discriminator" else 0
    length = steps // 2 if stage == "generator" else steps - first
    peak, form = settings.learning_rate, settings.schedule
    return learning_rate(step - first, peak=peak, warmup=settings.warmup, steps=length, form=form)
