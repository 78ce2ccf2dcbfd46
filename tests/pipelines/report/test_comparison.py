import pytest
from scipy import stats

from pipelines.report.comparison import SDS_NEEDED, difference


def test_interval_and_pooled_deviation_are_the_textbook_ones():
    first, second = [71.2, 70.4, 72.1], [66.0, 67.3, 65.1]
    found = difference(first, second)
    interval = stats.ttest_ind(first, second).confidence_interval(0.95)
    assert found.low == pytest.approx(interval.low, abs=2e-3)
    assert found.high == pytest.approx(interval.high, abs=2e-3)
    assert found.sds == pytest.approx(found.points / found.sd)
    assert found.verdict == "higher"


def test_a_difference_inside_the_noise_is_no_win():
    assert difference([70.0, 72.0, 74.0], [69.0, 71.0, 73.0]).verdict == "noise"
    assert not difference([70.0, 72.0, 74.0], [69.0, 71.0, 73.0]).counts


def test_two_seeds_need_more_than_three_standard_deviations():
    found = difference([74.0, 75.0], [71.5, 72.5])
    assert found.sds > SDS_NEEDED
    assert found.verdict == "noise"
    assert difference([84.0, 85.0], [71.5, 72.5]).verdict == "higher"


def test_the_sign_is_first_minus_second():
    assert difference([60.0, 60.4, 60.2], [70.0, 70.3, 70.1]).verdict == "lower"


def test_no_claim_without_spread():
    assert difference([90.0], [50.0]).verdict == "one seed"
    assert difference([90.0, 91.0, 92.0], [50.0]).verdict == "one seed"
    assert difference([56.3, 56.3], [50.0, 50.0]).verdict == "no spread"
    assert difference([], [50.0, 51.0]) is None
