"""Two sets of scores: the difference of their means, and whether one may be called higher than the
other.

There is one rule: a difference counts where its 95 % interval (Welch's, of unequal variances)
leaves out zero. A score is a pre-training's, where there are several of each arm. With one
pre-training it is a fine-tuning's, and the result holds for that pre-training alone.
"""

import math
import statistics
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Verdict = Literal["higher", "lower", "cannot tell yet"]


@dataclass(frozen=True)
class Difference:
    """`points` = mean of the first minus mean of the second; no interval where the scores show no
    spread.
    """

    points: float
    low: float | None = None
    high: float | None = None

    @property
    def verdict(self) -> Verdict:
        """What the first is, against the second."""
        if self.low is None or self.high is None or self.low <= 0 <= self.high:
            return "cannot tell yet"
        return "higher" if self.low > 0 else "lower"

    @property
    def counts(self) -> bool:
        """Whether it may be called a difference at all."""
        return self.verdict != "cannot tell yet"


def mean(scores: Sequence[float]) -> float | None:
    """Return the mean, or None without a score."""
    return statistics.fmean(scores) if scores else None


def predict_next(scores: Sequence[float]) -> tuple[float, float] | None:
    """Return Student's 95 % interval of another score of the same kind, or None of fewer than two."""
    return _around(scores, math.sqrt(1 + 1 / len(scores))) if len(scores) > 1 else None


def around(scores: Sequence[float]) -> tuple[float, float] | None:
    """Return Student's 95 % interval of the mean, or None of fewer than two scores."""
    return _around(scores, math.sqrt(1 / len(scores))) if len(scores) > 1 else None


def _around(scores: Sequence[float], deviations: float) -> tuple[float, float]:
    from scipy.stats import t

    scale = statistics.stdev(scores) * deviations
    middle = statistics.fmean(scores)
    reach = float(t.ppf(0.975, len(scores) - 1)) * scale
    return middle - reach, middle + reach


def difference(first: Sequence[float], second: Sequence[float]) -> Difference | None:
    """Compare the scores of two arms; None if either has none. One score, or equal ones in both,
    have no interval.
    """
    if not first or not second:
        return None
    points = statistics.fmean(first) - statistics.fmean(second)
    if len(first) < 2 or len(second) < 2:
        return Difference(points)
    if max(statistics.variance(first), statistics.variance(second)) < 1e-18:
        return Difference(points)
    from scipy.stats import ttest_ind

    with warnings.catch_warnings():
        # scores of one arm that are all equal are no loss of precision
        warnings.simplefilter("ignore", RuntimeWarning)
        low, high = ttest_ind(first, second, equal_var=False).confidence_interval()
    return Difference(points, float(low), float(high))


def decided(found: Difference, claim: Literal["above", "no gain", "level"] = "above") -> str:
    """Return the outcome for a claim of the paper: came out, reversed, or cannot tell yet.

    That the first gains nothing comes out if it is lower. That both are level is reversed by either
    and never comes out, since no interval around zero is a proof of it.
    """
    if not found.counts:
        return found.verdict
    return (
        "came out"
        if (claim, found.verdict) in {("above", "higher"), ("no gain", "lower")}
        else "reversed"
    )
