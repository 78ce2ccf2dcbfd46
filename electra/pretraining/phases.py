"""What is due at a step of a run: rows of which length, which networks learn, and at which rate.

    phases   the length of rows and their number a batch change (`pretrain.phases`): attention forms sooner in short
             rows, and positions that fine-tuning needs are learnt in long ones
    stages   the generator learns alone, then the discriminator (`objective.training: two_stage`)

Everything is a function of the step: a run that is killed at a change goes on as one that is not. Rows, masks, samples
and dropout are those of the step counted over the whole run; weights and the optimizer's state go on.
"""

import itertools
from dataclasses import dataclass

from electra.optim.schedule import learning_rate
from electra.pretraining.config import ElectraConfig, PhaseConfig, PretrainConfig


@dataclass(frozen=True)
class Phase:
    """Steps `first` to `last`, which is the next one's first: rows of `length` tokens, `batch` of them a step."""

    first: int
    last: int
    length: int
    batch: int
    learning_rate: float
    warmup: int

    def steps(self, since: int, until: int) -> int:
        """How many of the steps from `since` to `until` are its own."""
        return max(0, min(until, self.last) - max(since, self.first))


def phases_of(settings: PretrainConfig, steps: int) -> tuple[Phase, ...]:
    """The phases of a run of `steps`; one, where none are set."""
    parts = settings.phases or (PhaseConfig(length=settings.length, share=1.0),)
    ends = itertools.accumulate(part.weight for part in parts)
    edges = [0, *(round(steps * end / sum(part.weight for part in parts)) for end in ends)]
    return tuple(
        Phase(
            first,
            last,
            part.length,
            part.batch or settings.batch,
            part.learning_rate or settings.learning_rate,
            settings.warmup if part.warmup is None else part.warmup,
        )
        for part, (first, last) in zip(parts, itertools.pairwise(edges), strict=True)
    )


def phase_at(phases: tuple[Phase, ...], step: int) -> Phase:
    """The phase that a step is in."""
    return next(phase for phase in phases if phase.first <= step < phase.last)


def positions(settings: PretrainConfig, step: int, steps: int) -> int:
    """The longest row that the first `step` steps of a run have seen."""
    return max(phase.length for phase in phases_of(settings, steps) if phase.first < step)


def stage_of(config: ElectraConfig, step: int, steps: int) -> str:
    """Which networks learn at a step: both, or in two-stage training first the generator, then the discriminator."""
    if config.objective.training != "two_stage":
        return "joint"
    return "generator" if step < steps // 2 else "discriminator"


def rate(config: ElectraConfig, step: int, steps: int) -> float:
    """Learning rate of a step; each stage, and under `phase_schedule: each` each phase, warms up and decays anew."""
    settings, stage = config.pretrain, stage_of(config, step, steps)
    first = steps // 2 if stage == "discriminator" else 0
    length = steps // 2 if stage == "generator" else steps - first
    peak, warmup = settings.learning_rate, settings.warmup
    if settings.phases and settings.phase_schedule == "each":
        phase = phase_at(phases_of(settings, steps), step)
        first, length, peak, warmup = phase.first, phase.last - phase.first, phase.learning_rate, phase.warmup
    form, share = settings.schedule, settings.decay_share
    return learning_rate(step - first, peak=peak, warmup=warmup, steps=length, form=form, decay_share=share)
