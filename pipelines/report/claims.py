"""What the paper says of pairs of arms, held against ours: which of its orders came out, which did not, which is noise.

A claim names what one arm has and the other has not, once all that they share is taken away; so it finds its arms in
any experiment, at any size, whatever they are called.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from pipelines.report.comparison import Difference, decided, detectable, difference, mean
from pipelines.report.experiments import Ablation, Arm, by_cell
from pipelines.report.table import signed

NETWORK = {"generator.kind": "unigram"}
QUARTER, HALF, FULL = ({"generator.width": width} for width in (0.25, 0.5, 1.0))
TWO_STAGE = {"objective.training": "two_stage", "objective.sharing": "none", "generator.width": 1.0}
ADVERSARIAL = {"objective.training": "adversarial"}
BERT = {"objective.name": "mlm"}


@dataclass(frozen=True)
class Claim:
    """`upper` scores above `lower` (or no better than it: `level`), by the paper's `source`."""

    upper: dict[str, Any]
    lower: dict[str, Any]
    source: str
    level: bool = False


CLAIMS = (
    Claim({}, {"objective.name": "electra_15"}, "Table 5"),
    Claim(QUARTER, NETWORK, "Figure 3"),
    Claim(HALF, NETWORK, "Figure 3"),
    Claim(QUARTER, FULL, "Figure 3"),
    Claim(HALF, FULL, "Figure 3"),
    Claim({}, TWO_STAGE, "Figure 3"),
    Claim({}, ADVERSARIAL, "Figure 3"),
    Claim(ADVERSARIAL, BERT, "Figure 3"),
    Claim({"objective.disallow_correct": True}, {}, "appendix", level=True),
    Claim({"objective.temperature": 2.0}, {}, "appendix", level=True),
)
BY_SIZE = Claim({}, BERT, "Figures 1 and 4, Table 5")


def orders(ablation: Ablation) -> list[str]:
    """Every statement of the paper that this experiment bears on, with what came out here, after what it could have shown."""
    said = [*_published(ablation), *_claimed(ablation), *_gains(ablation)]
    return [*_power(ablation), *said] if said else []


def _power(ablation: Ablation) -> Iterator[str]:
    """Said by the number of seeds alone, so before any score is known."""
    seeds = min((len(arm.scores) for arm in ablation.arms if arm.scores), default=0)
    if seeds > 1:
        yield (
            f"{seeds} seeds an arm find a true difference of {detectable(seeds):.1f} standard deviations four times in five; "
            "the 95 % interval of a difference decides."
        )


def size(found: Difference) -> str:
    """+5.1 points, 8.2 standard deviations."""
    text = f"{signed(found.points)} points"
    return text if found.sds is None else f"{text}, {abs(found.sds):.1f} standard deviations"


def _published(ablation: Ablation) -> Iterator[str]:
    """Neighbours of a table's order."""
    beside = ablation.paper
    arms = {arm.name: arm for arm in ablation.arms if arm.scores}
    ranked = [(name, *row) for name, row in beside.arms.items() if name in arms] if beside else []
    for (upper, upper_label, high), (lower, lower_label, low) in pairwise(ranked):
        if found := difference(arms[upper].scores, arms[lower].scores):
            if math.isclose(high, low):
                apart = found.low is not None and found.high is not None and (found.low > 0 or found.high < 0)
                told = "not level here" if apart else "nothing here says otherwise"
                yield f"{upper_label} level with {lower_label} (paper): {told} ({size(found)})."
                continue
            yield (
                f"{upper_label} above {lower_label} (paper {signed(high - low)}): "
                f"{decided(found)} here ({size(found)})."
            )


def _claimed(ablation: Ablation) -> Iterator[str]:
    for claim in (*CLAIMS, BY_SIZE):
        for upper, lower in _pairs(ablation, claim):
            if found := difference(upper.scores, lower.scores):
                if claim.level:
                    yield (
                        f"{upper.label} gains nothing over {lower.label} (paper, {claim.source}): "
                        f"{decided(found, 'level')} here ({size(found)})."
                    )
                else:
                    yield (
                        f"{upper.label} above {lower.label} (paper, {claim.source}): "
                        f"{decided(found)} here ({size(found)})."
                    )


def _pairs(ablation: Ablation, claim: Claim) -> Iterator[tuple[Arm, Arm]]:
    scored = [arm for arm in ablation.arms if arm.scores]
    for upper in scored:
        for lower in scored:
            mine = {key: value for key, value in upper.settings.items() if lower.settings.get(key) != value}
            other = {key: value for key, value in lower.settings.items() if upper.settings.get(key) != value}
            if upper is not lower and mine == claim.upper and other == claim.lower:
                yield upper, lower


def _gains(ablation: Ablation) -> Iterator[str]:
    """Figure 4: whether ELECTRA's gain over BERT grows as models shrink. Said without a verdict: gains have no spread here."""
    if len(ablation.axes) != 2:
        return
    gains = []
    cells = by_cell(ablation)
    for upper, lower in _pairs(ablation, BY_SIZE):
        place = next((values for values, arm in cells.items() if arm is upper), ())
        other = next((values for values, arm in cells.items() if arm is lower), ())
        shared = [value for value in place if value in other]
        gain = (mean(upper.scores) or 0.0) - (mean(lower.scores) or 0.0)
        gains.append((upper.parameters or 0, ", ".join(map(ablation.label, shared)), gain))
    if len(gains) > 1:
        shown = "; ".join(f"{label} {signed(gain)}" for _, label, gain in sorted(gains))
        yield f"ELECTRA's gain over BERT grows as models shrink (paper, Figure 4); here, from small to large: {shown} points."
