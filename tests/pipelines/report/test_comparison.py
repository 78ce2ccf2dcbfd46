import re
from pathlib import Path

import numpy as np
import pytest
from scipy import optimize, stats

from pipelines.report.comparison import POWER, decided, difference, power, runs_needed


@pytest.mark.parametrize(
    ("first", "second"), [([71.2, 70.4, 72.1], [66.0, 67.3, 65.1]), ([70.0, 79.0, 90.0, 81.0], [69.0, 69.1])]
)
def test_the_interval_is_welchs(first, second):
    found = difference(first, second)
    interval = stats.ttest_ind(first, second, equal_var=False).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high))


@pytest.mark.parametrize(
    ("first", "second", "verdict", "reading"),
    [
        ([84.0, 85.0], [71.5, 72.5], "higher", "higher"),
        ([60.0, 60.4, 60.2], [70.0, 70.3, 70.1], "lower", "lower"),
        ([60.0, 60.4, 60.2], [70.0, 70.0, 70.0], "lower", "lower"),
        ([70.0, 72.0, 74.0], [69.0, 71.0, 73.0], "cannot tell yet", "cannot tell yet (64 runs would)"),
        ([70.0, 72.0, 74.0], [70.1, 72.1, 74.1], "cannot tell yet", "cannot tell yet (over 1,000 runs would)"),
        ([74.0, 75.0], [71.5, 72.5], "cannot tell yet", "cannot tell yet (3 runs would)"),
        # with pooled variances 0.4 to 8.4; but all of the spread is one arm's
        ([50.0, 54.0, 58.0, 54.0], [49.5, 49.6, 49.7, 49.6], "cannot tell yet", "cannot tell yet (7 runs would)"),
        ([90.0], [50.0], "cannot tell yet", "cannot tell yet"),
        ([90.0, 91.0, 92.0], [50.0], "cannot tell yet", "cannot tell yet"),
        ([56.3, 56.3], [50.0, 50.0], "cannot tell yet", "cannot tell yet"),
    ],
)
def test_what_may_be_said_of_a_difference(first, second, verdict, reading):
    found = difference(first, second)
    assert (found.verdict, found.reading) == (verdict, reading) and found.counts is (verdict in {"higher", "lower"})
    assert difference([], second) is None


def test_runs_needed_and_what_they_find_agree():
    assert runs_needed(1.0) == 17  # the textbook's two-sample t test: effect 1, 80 % power
    assert runs_needed(1.0) > runs_needed(2.0) > runs_needed(4.0) >= 2
    assert power(17, 1.0) >= POWER > power(16, 1.0)
    assert runs_needed(0.0) is None and runs_needed(0.01) is None


@pytest.mark.parametrize(("runs", "sds", "share"), [(2, 10.4, 0.5), (3, 3.5, 0.5), (3, 3.5, 0.95), (5, 2.0, 0.2)])
def test_so_many_of_made_up_experiments_are_found(runs, sds, share):
    chance = np.random.default_rng(0).standard_normal((2, runs, 10_000))
    first, second = sds + chance[0] * np.sqrt(2 * share), chance[1] * np.sqrt(2 * (1 - share))
    found = np.mean(stats.ttest_ind(first, second, equal_var=False).pvalue < 0.05)
    assert power(runs, sds, share) == pytest.approx(found, abs=0.015)


@pytest.mark.parametrize(
    ("claim", "above", "below"),
    [("above", "came out", "reversed"), ("no gain", "reversed", "came out"), ("level", "reversed", "reversed")],
)
def test_a_claim_is_decided_by_the_same_rule(claim, above, below):
    high, low = [52.0, 53.0, 54.0], [48.0, 49.0, 50.0]
    assert decided(difference(high, low), claim) == above and decided(difference(low, high), claim) == below
    assert decided(difference([50.0, 52.0, 54.0], [49.0, 51.0, 53.0]), claim) == "cannot tell yet (64 runs would)"
    assert decided(difference([50.0], [49.0, 51.0]), claim) == "cannot tell yet"


def test_the_documented_power_is_the_computed_one():
    text = (Path(__file__).parents[3] / "docs/ablations.md").read_text(encoding="utf-8")
    seeds, found = re.findall(r"^\| (?:seeds an arm|true difference[^|]*) \|(.*)\|$", text, re.M)
    pairs = zip(map(int, seeds.split("|")), map(float, found.split("|")), strict=True)
    for count, sds in pairs:
        assert round(optimize.bisect(lambda sds, runs=count: power(runs, sds) - POWER, 0, 50, xtol=1e-3), 1) == sds
