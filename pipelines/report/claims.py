"""Compare the paper's statements on pairs of arms with our scores: which are confirmed, reversed or
open. A claim names the settings in which two arms differ. So it finds its arms in any ablation, at
any size, under any name.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from electra.errors import pluralize
from pipelines.report.comparison import Difference, Kind, compare_scores, decide
from pipelines.report.paper import CLAIMS, Claim
from pipelines.report.records import Ablation, Arm, Scores
from pipelines.report.table import NOTES, Column, Row, Table, interval, left, mark, signed

BY_SIZE = next(claim for claim in CLAIMS if claim.text == "ELECTRA above BERT")
WORDS = {"above": "above", "no gain": "gains nothing over", "level": "level with"}
ORDER = ("came out", "reversed", "cannot tell yet")


@dataclass(frozen=True)
class Statement:
    """One statement of the paper about a pair of arms, or about gains, with our scores."""

    text: str
    source: str
    kind: Kind
    pair: str
    scores: tuple[Scores, Scores]

    @property
    def difference(self) -> Difference:
        """The first minus the second."""
        difference = compare_scores(*self.scores)
        assert difference  # both have scores
        return difference

    @property
    def verdict(self) -> str:
        """The verdict of our scores on the statement."""
        return decide(self.difference, self.kind)


def statements(ablation: Ablation) -> list[Statement]:
    """Return every statement of the paper that this ablation tests."""
    result = []
    for claim in CLAIMS:
        for upper, lower in _pairs(ablation, claim):
            pair = f"{upper.label} {WORDS[claim.kind]} {lower.label}"
            scores = (upper.scores, lower.scores)
            result.append(Statement(claim.text, claim.source, claim.kind, pair, scores))
    return [*result, *_gains(ablation)]


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
    """Return a line about an ablation: its data, arms, seeds, and how many claims it decides."""
    verdicts = [statement.verdict for statement in statements(ablation)]
    seeds = max((len(arm.scores) for arm in ablation.arms), default=0)
    unknown = verdicts.count("cannot tell yet")
    claims = "no claim of the paper"
    if verdicts:
        claims = f"{len(verdicts) - unknown} of {len(verdicts)} claims decided"
    return f"{ablation.origin}; {len(ablation.arms)} arms of {pluralize(seeds, 'seed')}; {claims}"


def all_statements(ablations: Sequence[Ablation]) -> list[tuple[Ablation, Statement]]:
    """Return the statements of all ablations, sorted by verdict. Equal statements on equal scores
    are listed once.
    """
    unique: dict[Any, tuple[Ablation, Statement]] = {}
    for ablation in ablations:
        for statement in statements(ablation):
            unique.setdefault((statement.text, statement.scores), (ablation, statement))
    return sorted(unique.values(), key=lambda item: ORDER.index(item[1].verdict))


def count(ablations: Sequence[Ablation]) -> str:
    """Return how many comparisons confirm, contradict or leave open the paper's statements."""
    verdicts = [statement.verdict for _, statement in all_statements(ablations)]
    came_out, reversed_ones, unknown = (verdicts.count(verdict) for verdict in ORDER)
    return (
        f"Of {len(verdicts)} comparisons that the paper makes, {came_out} came out here, "
        f"{reversed_ones or 'none'} reversed, and {unknown} are undecided."
    )


def table(ablations: Sequence[Ablation]) -> Table:
    """Return the paper's statements, a row for each pair of arms, sorted by verdict."""
    rows: list[Row] = []
    for ablation, statement in all_statements(ablations):
        difference = statement.difference
        pair = "" if statement.pair == statement.text else statement.pair
        where = f"{ablation.origin}, {pluralize(len(ablation.tasks), 'task')}"
        rows.append(
            {
                left("claim"): statement.text,
                left("pair", under="claim"): pair or None,
                left("here"): mark(statement.verdict),
                Column("points"): signed(difference.points),
                Column("95 % interval", under="points"): interval(difference),
                left("paper"): statement.source,
                left("measured on"): where,
            }
        )
    return Table(
        "claims", "The paper's statements, and what came out here", rows, (NOTES["decided"],)
    )


def _pairs(ablation: Ablation, claim: Claim) -> Iterator[tuple[Arm, Arm]]:
    for upper, lower in itertools.permutations([arm for arm in ablation.arms if arm.scores], 2):
        beyond = (_settings_beyond(upper, lower), _settings_beyond(lower, upper))
        if beyond == (claim.upper, claim.lower):
            yield upper, lower


def _settings_beyond(arm: Arm, other: Arm) -> dict[str, Any]:
    """Return the settings of an arm that the other does not have."""
    return {key: value for key, value in arm.settings.items() if other.settings.get(key) != value}


def _gains(ablation: Ablation) -> Iterator[Statement]:
    """Yield Figure 4: ELECTRA's gain over BERT, seed by seed, at the smallest size against the
    largest.
    """
    labels = ablation.config.labels
    sizes = []
    for upper, lower in _pairs(ablation, BY_SIZE):
        shared = [labels.get(value, value) for value in upper.values if value in lower.values]
        gains = tuple(ours - bert for ours, bert in zip(upper.scores, lower.scores, strict=False))
        sizes.append((upper.parameters, ", ".join(shared), gains))
    if len(sizes) > 1:
        _, small, most = min(sizes)
        _, large, least = max(sizes)
        text = "ELECTRA's gain over BERT grows as models shrink"
        pair = f"gain over BERT, {small} above {large}"
        yield Statement(text, "Figure 4", "above", pair, (most, least))
