"""Two sets of scores: the difference of their means, and whether one may be called higher than the
other.

There is one rule: a difference counts where its 95 % interval leaves out zero. The interval is
Welch's, of unequal variances. Two scores say too little about their variance (with one degree of
freedom Welch's interval is 12.7 standard errors wide), so where an arm has fewer than three, both
arms share one (Student's). Where neither has a spread, as with one fine-tuning of each, the
interval is the sampling error of the dev rows, and the verdict holds for these two models.

A score is a pre-training's, where there are several of each arm. With one pre-training it is a
fine-tuning's, and the result holds for that pre-training alone.
"""

import math
import statistics
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Verdict = Literal["higher", "lower", "cannot tell yet"]
Kind = Literal["above", "no gain", "level"]  # of a claim
HIGHEST = 100.0  # points


@dataclass(frozen=True)
class Difference:
    """`points` is the mean of the first minus that of the second. It has no interval if nothing is
    known about its error.
    """

    points: float
    low: float | None = None
    high: float | None = None

    @property
    def verdict(self) -> Verdict:
        """Return the verdict on the first against the second."""
        if self.low is None or self.high is None or self.low <= 0 <= self.high:
            return "cannot tell yet"
        return "higher" if self.low > 0 else "lower"

    @property
    def counts(self) -> bool:
        """Whether the difference is significant."""
        return self.verdict != "cannot tell yet"


def mean(scores: Sequence[float]) -> float | None:
    """Return the mean, or None without a score."""
    return statistics.fmean(scores) if scores else None


def predict_next(scores: Sequence[float]) -> tuple[float, float] | None:
    """Return Student's 95 % interval of another score, or None of fewer than two."""
    return _interval(scores, of_another=1)


def around(scores: Sequence[float]) -> tuple[float, float] | None:
    """Return Student's 95 % interval of the mean, or None of fewer than two scores."""
    return _interval(scores, of_another=0)


def _interval(scores: Sequence[float], of_another: int) -> tuple[float, float] | None:
    if len(scores) < 2:
        return None
    from scipy.stats import t

    middle = statistics.fmean(scores)
    deviations = math.sqrt(of_another + 1 / len(scores))
    reach = float(t.ppf(0.975, len(scores) - 1)) * statistics.stdev(scores) * deviations
    return max(middle - reach, -HIGHEST), min(middle + reach, HIGHEST)


def compare_scores(
    first: Sequence[float], second: Sequence[float], rows: int | None = None
) -> Difference | None:
    """Compare the scores of two arms, in points. None if either has none.

    `rows` are the dev rows of an accuracy (or F1, as if it were one), for arms without a spread. No
    interval leaves the scale: either is at most 100, with the other where its mean is.
    """
    if not first or not second:
        return None
    means = statistics.fmean(first), statistics.fmean(second)
    points = means[0] - means[1]
    if max(statistics.pstdev(first), statistics.pstdev(second)) > 1e-9:
        from scipy.stats import ttest_ind

        share_variance = min(len(first), len(second)) < 3
        with warnings.catch_warnings():
            # scores of one arm may all be equal, which scipy takes for a loss of precision
            warnings.simplefilter("ignore", RuntimeWarning)
            low, high = ttest_ind(first, second, equal_var=share_variance).confidence_interval()
    elif rows:
        # of a proportion with one right and one wrong row added, so that even 100 % has an error
        shares = [(rows * score / HIGHEST + 1) / (rows + 2) for score in means]
        reach = 1.96 * HIGHEST * math.sqrt(sum(share * (1 - share) / rows for share in shares))
        low = points - reach
        high = points + reach
    else:
        return Difference(points)
    # where the first is at 100 already, that says nothing of how far below it may be
    lowest = means[0] - HIGHEST if means[0] < HIGHEST else -HIGHEST
    return Difference(points, max(float(low), lowest), min(float(high), HIGHEST - means[1]))


def decide(difference: Difference, kind: Kind) -> str:
    """Return the outcome for a claim of the paper: came out, reversed, or cannot tell yet.

    That the first gains nothing comes out if it is lower. That both are level is reversed by either
    and never comes out, since no interval around zero is a proof of it.
    """
    if not difference.counts:
        return difference.verdict
    confirming = {("above", "higher"), ("no gain", "lower")}
    return "came out" if (kind, difference.verdict) in confirming else "reversed"
