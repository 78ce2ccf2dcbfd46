"""Two sets of scores, one per seed: their difference, in points and in standard deviations, and what may be said of it.

The rule is fixed before any number is seen. A difference counts only if both hold:

1. it is at least three pooled standard deviations, and
2. the 95 % interval of the difference of the means (Student's t, pooled variance) leaves out zero.

With three seeds an arm the first is the stricter, with two seeds the second. Everything else is called noise; one seed an
arm has no spread, and then nothing is claimed.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Verdict = Literal["higher", "lower", "noise", "one seed", "no spread"]

SDS_NEEDED = 3.0

# Two-sided 95 % points of Student's t for 1, 2, ... degrees of freedom; beyond the last, the last (a little too strict).
_STUDENT_95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131)

WORDS: dict[Verdict, str] = {
    "higher": "higher",
    "lower": "lower",
    "noise": "inside the noise",
    "one seed": "one seed: spread unknown",
    "no spread": "no spread measured",
}


@dataclass(frozen=True)
class Difference:
    """`points` = mean of the first minus mean of the second; `sds` = points / pooled standard deviation."""

    points: float
    sd: float | None
    sds: float | None
    low: float | None
    high: float | None
    verdict: Verdict

    @property
    def counts(self) -> bool:
        """Whether it may be called a difference at all."""
        return self.verdict in {"higher", "lower"}


def mean(scores: Sequence[float]) -> float | None:
    """The mean, or None without a score."""
    return statistics.fmean(scores) if scores else None


def sd(scores: Sequence[float]) -> float | None:
    """The sample standard deviation (n - 1), or None with fewer than two scores."""
    return statistics.stdev(scores) if len(scores) > 1 else None


def difference(first: Sequence[float], second: Sequence[float]) -> Difference | None:
    """Compare the scores of two arms; None if either has none."""
    if not first or not second:
        return None
    points = statistics.fmean(first) - statistics.fmean(second)
    if len(first) < 2 or len(second) < 2:
        return Difference(points, None, None, None, None, "one seed")
    freedom = len(first) + len(second) - 2
    squares = sum((x - statistics.fmean(arm)) ** 2 for arm in (first, second) for x in arm)
    pooled = math.sqrt(squares / freedom)
    if pooled < 1e-9:
        return Difference(points, 0.0, None, points, points, "no spread")
    reach = _STUDENT_95[min(freedom, len(_STUDENT_95)) - 1] * pooled * math.sqrt(1 / len(first) + 1 / len(second))
    stands = abs(points) >= SDS_NEEDED * pooled and abs(points) > reach
    verdict: Verdict = ("higher" if points > 0 else "lower") if stands else "noise"
    return Difference(points, pooled, points / pooled, points - reach, points + reach, verdict)
