"""What the paper says of pairs of arms, held against ours: which of its orders came out, are
reversed, or are open.

A claim names what one arm has and the other has not, once all that they share is taken away; so it
finds its arms in any ablation, at any size, under any name.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, permutations
from typing import Literal

from pipelines.report import paper
from pipelines.report.comparison import Difference, decided, difference
from pipelines.report.paper import CLAIMS, Claim
from pipelines.report.records import Ablation, Arm
from pipelines.report.table import NOTES, Row, Table, interval, left, signed

BY_SIZE = next(claim for claim in CLAIMS if claim.text == "ELECTRA above BERT")


Pair = tuple[str, str, str, Literal["above", "no gain", "level"], Sequence[float], Sequence[float]]


@dataclass(frozen=True)
class Statement:
    """One statement of the paper held against a pair of arms, or of gains."""

    text: str
    paper: str
    pair: str
    verdict: str
    found: Difference


def statements(ablation: Ablation) -> list[Statement]:
    """Every statement of the paper that this ablation bears on, with what came out here."""
    result = []
    for text, source, pair, claim, upper, lower in (
        *_published(ablation),
        *_claimed(ablation),
        *_gains(ablation),
    ):
        if found := difference(upper, lower):
            result.append(Statement(text, source, pair, decided(found, claim), found))
    return result


def orders(ablation: Ablation) -> list[str]:
    """The same as sentences."""
    found = [(one, interval(one.found)) for one in statements(ablation)]
    sizes = [
        f"{signed(one.found.points)} points" + f", 95 % interval {inside}" * bool(inside)
        for one, inside in found
    ]
    return [
        f"{one.pair} ({one.paper}): {one.verdict} ({size})."
        for (one, _), size in zip(found, sizes, strict=True)
    ]


def line(ablation: Ablation) -> str:
    """An ablation in a line: its data, arms, seeds, and how many claims it decides."""
    verdicts = [one.verdict for one in statements(ablation)]
    seeds = max((len(arm.scores) for arm in ablation.arms), default=0)
    sure = sum(verdict in {"came out", "reversed"} for verdict in verdicts)
    claims = f"{sure} of {len(verdicts)} claims decided" if verdicts else "no claim of the paper"
    return f"{ablation.origin}; {len(ablation.arms)} arms of {seeds} seed{'s' * (seeds != 1)}; {claims}"


def table(ablations: Sequence[Ablation]) -> Table:
    """The paper's statements, one a row: what this run says of each, and what records on the same
    tasks do.
    """
    groups = {_group(ablation): left(_group(ablation)) for ablation in ablations}
    found: dict[str, list[tuple[str, Statement]]] = {}
    for ablation in ablations:
        for one in statements(ablation):
            found.setdefault(one.text, []).append((_group(ablation), one))
    rows: list[Row] = []
    for text, grouped in found.items():
        source = "; ".join(dict.fromkeys(one.paper for _, one in grouped))
        here = {
            column: _summary([one for of, one in grouped if of == group])
            for group, column in groups.items()
        }
        rows.append({left("claim"): text, left("paper"): source, **here})
    title = f"The paper's statements, and what came out here ({', '.join(dict.fromkeys(a.data for a in ablations))})"
    return Table("claims", title, rows, (NOTES["decided"],))


def _group(ablation: Ablation) -> str:
    """What heads its column: other tasks, other data and other settings have columns of their own."""
    run = ablation.origin.rpartition(", ")[2] if ablation.record else "this run"
    return f"{run}: {ablation.data} ({', '.join(ablation.tasks.values())})"


def _summary(found: Sequence[Statement]) -> str | None:
    """The smallest and the largest difference, and the verdicts on different arms, counted."""
    # arms are shared between ablations
    different = list({one.found: one for one in found}.values())
    points = sorted(one.found.points for one in different)
    words = [one.verdict for one in different]
    counted = ", ".join(
        word + (f" {words.count(word)}×" if len(words) > 1 else "") for word in dict.fromkeys(words)
    )
    return (
        f"{' to '.join(dict.fromkeys(map(signed, (points[0], points[-1]))))}: {counted}"
        if points
        else None
    )


def _published(ablation: Ablation) -> Iterator[Pair]:
    """Neighbours in the order of the paper's table."""
    arms = {arm.name: arm.scores for arm in ablation.arms if arm.scores}
    beside = ablation.paper or paper.Beside("", {})
    ranked = [(arms[name], *row) for name, row in beside.arms.items() if name in arms]
    for (upper, upper_label, high), (lower, lower_label, low) in pairwise(ranked):
        level, source = math.isclose(high, low), beside.source.removeprefix("paper, ")
        text = f"{upper_label} {'level with' if level else 'above'} {lower_label}"
        source += "" if level else f": {signed(high - low)}"
        yield text, source, text, "level" if level else "above", upper, lower


def _claimed(ablation: Ablation) -> Iterator[Pair]:
    for claim in CLAIMS:
        for upper, lower in _pairs(ablation, claim):
            pair = (
                f"{upper.label} {'gains nothing over' if claim.no_gain else 'above'} {lower.label}"
            )
            yield (
                claim.text,
                claim.source,
                pair,
                "no gain" if claim.no_gain else "above",
                upper.scores,
                lower.scores,
            )


def _pairs(ablation: Ablation, claim: Claim) -> Iterator[tuple[Arm, Arm]]:
    for upper, lower in permutations((arm for arm in ablation.arms if arm.scores), 2):
        mine = {
            key: value for key, value in upper.settings.items() if lower.settings.get(key) != value
        }
        other = {
            key: value for key, value in lower.settings.items() if upper.settings.get(key) != value
        }
        if mine == claim.upper and other == claim.lower:
            yield upper, lower


def _gains(ablation: Ablation) -> Iterator[Pair]:
    """Figure 4: ELECTRA's gain over BERT, seed by seed, at the smallest size against the largest."""
    sizes = []
    for upper, lower in _pairs(ablation, BY_SIZE) if len(ablation.axes) == 2 else ():
        shared = ", ".join(ablation.label(value) for value in upper.values if value in lower.values)
        gains = [ours - theirs for ours, theirs in zip(upper.scores, lower.scores, strict=False)]
        sizes.append((upper.parameters or 0, shared, gains))
    if len(sizes) > 1:
        (_, small, most), (_, large, least) = min(sizes), max(sizes)
        text, pair = (
            "ELECTRA's gain over BERT grows as models shrink",
            f"gain over BERT, {small} above {large}",
        )
        yield text, "Figure 4", pair, "above", most, least
