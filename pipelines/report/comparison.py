"""Two sets of scores, one per seed: their difference, in points and in standard deviations, and what may be said of it.

The rule is fixed before any number is seen. A difference counts only if both hold:

1. it is at least three pooled standard deviations, and
2. the 95 % interval of the difference of the means (Student's t, pooled variance) leaves out zero.

With three seeds an arm the first is the stricter, with two seeds the second. Everything else is called noise; one seed
an arm has no spread, and then nothing is claimed.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Verdict = Literal["higher", "lower", "noise", "one seed", "no spread"]

SDS_NEEDED = 3.0

# Two-sided 95 % points of Student's t for 1, 2, ... degrees of freedom; beyond the last, the
# last (a little too strict).
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


POWER, MOST_SEEDS = 0.8, 1000


def decided(found: Difference, claim: Literal["above", "no gain", "level"] = "above") -> str:
    """The three words that may be said of a claim of the paper: only the 95 % interval of the difference decides.

    A claim that the first is above the second *came out* if the interval lies above zero, is *reversed* if it lies
    below, and else *too close*, with the seeds an arm that a difference as large as the one found would need. A claim
    that the first gains nothing is *reversed* by an interval above zero and came out by one below; that both are level
    is *not level* by either. Around zero *nothing says otherwise*, which is no proof.
    """
    if found.sds is None or found.low is None or found.high is None:
        return "cannot be judged from one seed" if found.verdict == "one seed" else "cannot be judged without spread"
    if claim != "above" and found.low <= 0 <= found.high:
        return "nothing says otherwise"
    if claim == "level":
        return "not level"
    if claim == "no gain":
        return "reversed" if found.low > 0 else "came out"
    if found.low > 0:
        return "came out"
    if found.high < 0:
        return "reversed"
    seeds = seeds_needed(abs(found.sds))
    return f"too close, would need {'more than a thousand' if seeds is None else seeds} seeds an arm"


def power(seeds: int, sds: float) -> float:
    """How often the interval leaves out zero where the true difference is `sds` standard deviations (noncentral t)."""
    from scipy.stats import nct, t

    freedom, shift = 2 * seeds - 2, sds * math.sqrt(seeds / 2)
    edge = t.ppf(0.975, freedom)
    found = float(nct.sf(edge, freedom, shift) + nct.cdf(-edge, freedom, shift))
    return 1.0 if math.isnan(found) else found  # scipy gives no number far out


def detectable(seeds: int) -> float:
    """The smallest true difference, in standard deviations, that so many seeds an arm find four times in five."""
    from scipy.optimize import bisect

    return float(bisect(lambda sds: power(seeds, sds) - POWER, 0.0, 50.0, xtol=1e-3))


def seeds_needed(sds: float) -> int | None:
    """The fewest seeds an arm that find so many standard deviations four times in five; None: over 1,000."""
    return next((seeds for seeds in range(2, MOST_SEEDS + 1) if power(seeds, sds) >= POWER), None) if sds else None
