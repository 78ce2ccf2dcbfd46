"""What the paper says of pairs of arms, held against ours: which of its orders came out, are
reversed, or are open.

A claim names what one arm has and the other has not, once all that they share is taken away. So it
finds its arms in any ablation, at any size, under any name.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, permutations
from typing import Any, Literal

from pipelines.report.comparison import Difference, decided, difference
from pipelines.report.paper import CLAIMS, Claim
from pipelines.report.records import Ablation, Arm, Scores
from pipelines.report.table import NOTES, TONES, Column, Mark, Row, Table, interval, left, signed

BY_SIZE = next(claim for claim in CLAIMS if claim.text == "ELECTRA above BERT")
ORDER = ("came out", "reversed", "cannot tell yet")
Pair = tuple[str, str, str, Literal["above", "no gain", "level"], Scores, Scores]


@dataclass(frozen=True)
class Statement:
    """One statement of the paper held against a pair of arms, or of gains."""

    text: str
    source: str
    pair: str
    verdict: str
    difference: Difference
    scores: tuple[Scores, Scores]


def statements(ablation: Ablation) -> list[Statement]:
    """Return every statement of the paper that this ablation bears on, each pair of arms once."""
    by_scores: dict[tuple[Scores, Scores], Statement] = {}
    for pairs in (_published(ablation), _claimed(ablation), _gains(ablation)):
        for text, source, pair, claim, upper, lower in pairs:
            known = by_scores.get((upper, lower))
            if known and known.source != source:
                by_scores[upper, lower] = replace(known, source=f"{known.source}; {source}")
            elif found := difference(upper, lower):
                verdict = decided(found, claim)
                by_scores[upper, lower] = Statement(
                    text, source, pair, verdict, found, (upper, lower)
                )
    return list(by_scores.values())


def sentences(ablation: Ablation) -> list[str]:
    """Return the statements as sentences."""
    result = []
    for statement in statements(ablation):
        size = f"{signed(statement.difference.points)} points"
        if inside := interval(statement.difference):
            size += f", 95 % interval {inside}"
        result.append(f"{statement.pair} ({statement.source}): {statement.verdict} ({size}).")
    return result


def summarize(ablation: Ablation) -> str:
    """Return an ablation in a line: its data, arms, seeds, and how many claims it decides."""
    verdicts = [statement.verdict for statement in statements(ablation)]
    seeds = max((len(arm.scores) for arm in ablation.arms), default=0)
    unknown = verdicts.count("cannot tell yet")
    claims = "no claim of the paper"
    if verdicts:
        claims = f"{len(verdicts) - unknown} of {len(verdicts)} claims decided"
    plural = "" if seeds == 1 else "s"
    return f"{ablation.origin}; {len(ablation.arms)} arms of {seeds} seed{plural}; {claims}"


def all_statements(ablations: Sequence[Ablation]) -> list[tuple[Ablation, Statement]]:
    """Return the statements of all ablations by verdict. Of arms that several share, one is
    enough.
    """
    unique: dict[Any, tuple[Ablation, Statement]] = {}
    for ablation in ablations:
        for statement in statements(ablation):
            unique.setdefault((statement.text, statement.scores), (ablation, statement))
    return sorted(unique.values(), key=lambda item: ORDER.index(item[1].verdict))


def count(ablations: Sequence[Ablation]) -> str:
    """Return how many comparisons confirm, contradict or leave open what the paper says."""
    verdicts = [statement.verdict for _, statement in all_statements(ablations)]
    came_out, reversed_ones, unknown = (verdicts.count(verdict) for verdict in ORDER)
    return (
        f"Of {len(verdicts)} comparisons that the paper makes, {came_out} came out here, "
        f"{reversed_ones or 'none'} reversed, and {unknown} cannot be told yet."
    )


def table(ablations: Sequence[Ablation]) -> Table:
    """Return the paper's statements, one a row for each pair of arms, sorted by verdict."""
    rows: list[Row] = []
    for ablation, statement in all_statements(ablations):
        found = statement.difference
        pair = "" if statement.pair == statement.text else statement.pair
        tasks = len(ablation.tasks)
        where = f"{ablation.origin}, {tasks} task{'' if tasks == 1 else 's'}"
        rows.append(
            {
                left("claim"): statement.text,
                left("pair", under="claim"): pair or None,
                left("here"): Mark(statement.verdict, TONES.get(statement.verdict, "neutral")),
                Column("points"): signed(found.points),
                Column("95 % interval", under="points"): interval(found),
                left("paper"): statement.source,
                left("measured on"): where,
            }
        )
    return Table(
        "claims", "The paper's statements, and what came out here", rows, (NOTES["decided"],)
    )


def _published(ablation: Ablation) -> Iterator[Pair]:
    """Yield neighbours in the order of the paper's table."""
    if ablation.paper is None:
        return
    arms = {arm.name: arm.scores for arm in ablation.arms if arm.scores}
    ranked = [(arms[name], *row) for name, row in ablation.paper.arms.items() if name in arms]
    source = ablation.paper.source.removeprefix("paper, ")
    for (upper, upper_label, high), (lower, lower_label, low) in pairwise(ranked):
        if math.isclose(high, low):
            text = f"{upper_label} level with {lower_label}"
            yield text, source, text, "level", upper, lower
        else:
            text = f"{upper_label} above {lower_label}"
            yield text, f"{source}: {signed(high - low)}", text, "above", upper, lower


def _claimed(ablation: Ablation) -> Iterator[Pair]:
    for claim in CLAIMS:
        for upper, lower in _pairs(ablation, claim):
            words, kind = ("gains nothing over", "no gain") if claim.no_gain else ("above", "above")
            pair = f"{upper.label} {words} {lower.label}"
            yield claim.text, claim.source, pair, kind, upper.scores, lower.scores  # type: ignore[misc]


def _pairs(ablation: Ablation, claim: Claim) -> Iterator[tuple[Arm, Arm]]:
    for upper, lower in permutations([arm for arm in ablation.arms if arm.scores], 2):
        differs = [
            key
            for key in upper.settings.keys() | lower.settings.keys()
            if upper.settings.get(key) != lower.settings.get(key)
        ]
        pair = [
            {key: arm.settings[key] for key in differs if key in arm.settings}
            for arm in (upper, lower)
        ]
        if pair == [claim.upper, claim.lower]:
            yield upper, lower


def _gains(ablation: Ablation) -> Iterator[Pair]:
    """Yield Figure 4: ELECTRA's gain over BERT, seed by seed, at the smallest size against the
    largest.
    """
    if len(ablation.axes) != 2:
        return
    sizes = []
    for upper, lower in _pairs(ablation, BY_SIZE):
        shared = ", ".join(ablation.label(value) for value in upper.values if value in lower.values)
        gains = tuple(ours - bert for ours, bert in zip(upper.scores, lower.scores, strict=False))
        sizes.append((upper.parameters or 0, shared, gains))
    if len(sizes) > 1:
        (_, small, most) = min(sizes)
        (_, large, least) = max(sizes)
        text = "ELECTRA's gain over BERT grows as models shrink"
        yield text, "Figure 4", f"gain over BERT, {small} above {large}", "above", most, least
