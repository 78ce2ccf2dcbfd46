import re
from pathlib import Path

import pytest
from scipy import stats

from pipelines.report.comparison import decided, detectable, difference, seeds_needed


def test_interval_and_pooled_deviation_are_the_textbook_ones():
    first, second = [71.2, 70.4, 72.1], [66.0, 67.3, 65.1]
    found = difference(first, second)
    interval = stats.ttest_ind(first, second).confidence_interval(0.95)
    assert found.low == pytest.approx(interval.low, abs=2e-3)
    assert found.high == pytest.approx(interval.high, abs=2e-3)
    assert found.sds == pytest.approx(found.points / found.sd)
    assert found.verdict == "higher"


@pytest.mark.parametrize(
    ("first", "second", "verdict"),
    [
        ([70.0, 72.0, 74.0], [69.0, 71.0, 73.0], "noise"),
        ([74.0, 75.0], [71.5, 72.5], "noise"),  # more than three standard deviations, but of two seeds
        ([84.0, 85.0], [71.5, 72.5], "higher"),
        ([60.0, 60.4, 60.2], [70.0, 70.3, 70.1], "lower"),
        ([90.0], [50.0], "one seed"),
        ([90.0, 91.0, 92.0], [50.0], "one seed"),
        ([56.3, 56.3], [50.0, 50.0], "no spread"),
    ],
)
def test_no_difference_is_called_one_without_spread_or_inside_it(first, second, verdict):
    found = difference(first, second)
    assert found.verdict == verdict and found.counts is (verdict in {"higher", "lower"})
    assert difference([], second) is None


def test_seeds_needed_and_what_they_find_agree():
    assert seeds_needed(1.0) == 17  # the textbook's two-sample t test: effect 1, 80 % power
    assert seeds_needed(1.0) > seeds_needed(2.0) > seeds_needed(4.0) >= 2
    assert detectable(17) <= 1.0 < detectable(16)
    assert seeds_needed(0.0) is None and seeds_needed(0.01) is None


@pytest.mark.parametrize(
    ("first", "second", "claim", "expected"),
    [
        ([52.0, 53.0, 54.0], [48.0, 49.0, 50.0], "above", "came out"),
        ([48.0, 49.0, 50.0], [52.0, 53.0, 54.0], "above", "reversed"),
        ([50.0, 52.0, 54.0], [49.0, 51.0, 53.0], "above", "too close, would need 64 seeds an arm"),
        ([50.0], [49.0, 51.0], "above", "cannot be judged from one seed"),
        ([50.0, 50.0], [49.0, 49.0], "above", "cannot be judged without spread"),
        ([50.0, 52.0, 54.0], [49.0, 51.0, 53.0], "no gain", "nothing says otherwise"),
        ([48.0, 49.0, 50.0], [52.0, 53.0, 54.0], "no gain", "came out"),
        ([52.0, 53.0, 54.0], [48.0, 49.0, 50.0], "no gain", "reversed"),
        ([50.0, 52.0, 54.0], [49.0, 51.0, 53.0], "level", "nothing says otherwise"),
        ([48.0, 49.0, 50.0], [52.0, 53.0, 54.0], "level", "not level"),
        ([50.0], [50.0], "level", "cannot be judged from one seed"),
    ],
)
def test_a_claim_is_decided_by_the_interval(first, second, claim, expected):
    assert decided(difference(first, second), claim) == expected


def test_the_documented_power_is_the_computed_one():
    text = (Path(__file__).parents[3] / "docs/ablations.md").read_text(encoding="utf-8")
    seeds, found = re.findall(r"^\| (?:seeds an arm|true difference[^|]*) \|(.*)\|$", text, re.M)
    pairs = zip(map(int, seeds.split("|")), map(float, found.split("|")), strict=True)
    assert [(count, sds) for count, sds in pairs if round(detectable(count), 1) != sds] == []
