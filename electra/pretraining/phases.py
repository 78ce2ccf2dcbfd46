"""The schedule of a run: the length of rows, the networks that learn, and the learning rate at each
step.

    phases   the length of rows and their number a batch change (`pretrain.phases`): attention forms
    sooner in short rows, and positions that fine-tuning needs are learnt in long ones
    stages   the generator learns alone, then the discriminator (`objective.training: two_stage`)

Everything is a function of the step, so a run that is killed at a change continues like any other.
Rows, masks, samples and dropout are those of the step counted over the whole run. Weights and the
optimizer's state pass on.
"""

import itertools
from dataclasses import dataclass

from electra.optim.schedule import learning_rate
from electra.pretraining.config import ElectraConfig, PhaseConfig, PretrainConfig


@dataclass(frozen=True)
class Phase:
    """Steps `first` to `last` (exclusive) on rows of `length` tokens, `batch` of them a step."""

    first: int
    last: int
    length: int
    batch: int

    def steps(self, since: int, until: int) -> int:
        """Return how many of the steps from `since` to `until` are in this phase."""
        return max(0, min(until, self.last) - max(since, self.first))


def make_phases(settings: PretrainConfig, steps: int) -> tuple[Phase, ...]:
    """Return the phases of a run of `steps`; one, where none are set."""
    parts = settings.phases or (PhaseConfig(length=settings.length, share=1.0),)
    ends = list(itertools.accumulate(part.weight for part in parts))
    edges = [0, *(round(steps * end / ends[-1]) for end in ends)]
    return tuple(
        Phase(first, last, part.length, part.batch or settings.batch)
        for part, (first, last) in zip(parts, itertools.pairwise(edges), strict=True)
    )


def phase_at(phases: tuple[Phase, ...], step: int) -> Phase:
    """Return the phase of a step."""
    return next(phase for phase in phases if phase.first <= step < phase.last)


def longest_row_read(settings: PretrainConfig, step: int, steps: int) -> int:
    """Return the longest row that the first `step` steps of a run have read."""
    return max(phase.length for phase in make_phases(settings, steps) if phase.first < step)


def stage_at(config: ElectraConfig, step: int, steps: int) -> str:
    """Return the stage of a step: "joint", where both networks learn, or "generator" and then
    "discriminator". After its last step a run is in the stage of that step.
    """
    if config.objective.training != "two_stage":
        return "joint"
    return "generator" if step < steps // 2 else "discriminator"


def learning_rate_at(config: ElectraConfig, step: int, steps: int) -> float:
    """Return the learning rate of a step; each stage has a warm-up and a decay of its own."""
    settings = config.pretrain
    stage = stage_at(config, step, steps)
    first = steps // 2 if stage == "discriminator" else 0
    return learning_rate(
        step - first,
        peak=settings.learning_rate,
        warmup=settings.warmup,
        steps=steps // 2 if stage == "generator" else steps - first,
        form=settings.schedule,
        decay_share=settings.decay_share,
    )
