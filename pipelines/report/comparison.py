"""Two sets of scores: the difference of their means, and whether one may be called higher than the other.

There is one rule: a difference counts where its 95 % interval (Welch's: of unequal variances, with Welch and
Satterthwaite's degrees of freedom) leaves out zero. A score is a pre-training's, where there are several of each arm;
with one pre-training it is a fine-tuning's, and the result holds for that pre-training alone.
"""

import math
import statistics
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

Verdict = Literal["higher", "lower", "cannot tell yet"]

POWER, MOST_RUNS = 0.8, 1000


@dataclass(frozen=True)
class Difference:
    """`points` = mean of the first minus mean of the second; no interval where the scores show no spread.

    `runs`: how many of each arm would find a difference as large four times in five, None: over 1,000 or unknown.
    """

    points: float
    low: float | None = None
    high: float | None = None
    runs: int | None = None

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

    @property
    def reading(self) -> str:
        """The verdict; of one that is open with the runs of each arm that a difference as large would need."""
        if self.counts or self.low is None:
            return self.verdict
        return f"{self.verdict} ({self.runs or f'over {MOST_RUNS:,}'} runs would)"


def mean(scores: Sequence[float]) -> float | None:
    """The mean, or None without a score."""
    return statistics.fmean(scores) if scores else None


def around(scores: Sequence[float], *, another: bool = False) -> tuple[float, float] | None:
    """Student's 95 % interval of the mean, or of `another` score of the same kind; None of fewer than two."""
    if len(scores) < 2:
        return None
    from scipy.stats import t

    reach = float(t.ppf(0.975, len(scores) - 1)) * statistics.stdev(scores) * math.sqrt(another + 1 / len(scores))
    return statistics.fmean(scores) - reach, statistics.fmean(scores) + reach


def difference(first: Sequence[float], second: Sequence[float]) -> Difference | None:
    """Compare the scores of two arms; None if either has none. One score, or equal ones in both, have no interval."""
    if not first or not second:
        return None
    points = statistics.fmean(first) - statistics.fmean(second)
    if len(first) < 2 or len(second) < 2:
        return Difference(points)
    variances = statistics.variance(first), statistics.variance(second)
    if max(variances) < 1e-18:
        return Difference(points)
    from scipy.stats import t

    parts = variances[0] / len(first), variances[1] / len(second)
    freedom = sum(parts) ** 2 / (parts[0] ** 2 / (len(first) - 1) + parts[1] ** 2 / (len(second) - 1))
    reach = float(t.ppf(0.975, freedom)) * math.sqrt(sum(parts))
    found = Difference(points, points - reach, points + reach)
    if found.counts:
        return found
    sds, share = abs(points) / math.sqrt(sum(variances) / 2), variances[0] / sum(variances)
    return Difference(points, found.low, found.high, runs_needed(sds, share))


def decided(found: Difference, claim: Literal["above", "no gain", "level"] = "above") -> str:
    """The outcome for a claim of the paper: came out, reversed, or cannot tell yet.

    That the first gains nothing comes out if it is lower; that both are level is reversed by either, and never comes
    out, since no interval around zero is a proof of it.
    """
    if not found.counts:
        return found.reading
    return "came out" if (claim, found.verdict) in {("above", "higher"), ("no gain", "lower")} else "reversed"


def power(runs: int, sds: float, share: float = 0.5) -> float:
    """How often so many runs of each arm find a true difference of `sds` (both arms' root mean square) deviations.

    `share`: the first arm's part of the sum of both variances. It is estimated from the same runs, so the power is a
    mean over its possible estimates: of the share in the degrees of freedom (beta) and of the size (chi-squared).
    """
    from scipy.stats import beta, chi2, norm, t

    places = (np.arange(100) + 0.5) / 100
    first_N = beta.ppf(places, (runs - 1) / 2, (runs - 1) / 2)
    parts = share * first_N, (1 - share) * (1 - first_N)
    freedom_N = (runs - 1) * sum(parts) ** 2 / (parts[0] ** 2 + parts[1] ** 2)
    edge_N = t.ppf(0.975, freedom_N) * np.sqrt(2 * sum(parts))  # in standard errors if these were known
    edge_NM = np.outer(edge_N, np.sqrt(chi2.ppf(places, 2 * runs - 2) / (2 * runs - 2)))
    shift = sds * math.sqrt(runs / 2)
    return float((norm.sf(edge_NM - shift) + norm.cdf(-edge_NM - shift)).mean())


def runs_needed(sds: float, share: float = 0.5) -> int | None:
    """The fewest runs of each arm that find so many standard deviations four times in five; None: over 1,000."""
    counts = range(2, MOST_RUNS + 1)
    place = bisect_left(counts, POWER, key=lambda runs: power(runs, sds, share))
    return counts[place] if place < len(counts) else None
