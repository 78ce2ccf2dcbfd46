import pytest
from scipy import stats

from pipelines.report.comparison import decided, difference


@pytest.mark.parametrize(
    ("first", "second"),
    [([71.2, 70.4, 72.1], [66.0, 67.3, 65.1]), ([70.0, 79.0, 90.0, 81.0], [69.0, 69.1])],
)
def test_the_interval_is_welchs(first, second):
    found = difference(first, second)
    interval = stats.ttest_ind(first, second, equal_var=False).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high))


@pytest.mark.parametrize(
    ("first", "second", "verdict"),
    [
        ([84.0, 85.0], [71.5, 72.5], "higher"),
        ([60.0, 60.4, 60.2], [70.0, 70.3, 70.1], "lower"),
        ([60.0, 60.4, 60.2], [70.0, 70.0, 70.0], "lower"),
        ([70.0, 72.0, 74.0], [69.0, 71.0, 73.0], "cannot tell yet"),
        ([70.0, 72.0, 74.0], [70.1, 72.1, 74.1], "cannot tell yet"),
        ([74.0, 75.0], [71.5, 72.5], "cannot tell yet"),
        # with pooled variances 0.4 to 8.4; but all of the spread is one arm's
        ([50.0, 54.0, 58.0, 54.0], [49.5, 49.6, 49.7, 49.6], "cannot tell yet"),
        ([90.0], [50.0], "cannot tell yet"),
        ([90.0, 91.0, 92.0], [50.0], "cannot tell yet"),
        ([56.3, 56.3], [50.0, 50.0], "cannot tell yet"),
    ],
)
def test_what_may_be_said_of_a_difference(first, second, verdict):
    found = difference(first, second)
    assert found.verdict == verdict and found.counts is (verdict in {"higher", "lower"})
    assert difference([], second) is None


@pytest.mark.parametrize(
    ("claim", "above", "below"),
    [
        ("above", "came out", "reversed"),
        ("no gain", "reversed", "came out"),
        ("level", "reversed", "reversed"),
    ],
)
def test_a_claim_is_decided_by_the_same_rule(claim, above, below):
    high, low = [52.0, 53.0, 54.0], [48.0, 49.0, 50.0]
    assert (
        decided(difference(high, low), claim) == above
        and decided(difference(low, high), claim) == below
    )
    assert decided(difference([50.0, 52.0, 54.0], [49.0, 51.0, 53.0]), claim) == "cannot tell yet"
    assert decided(difference([50.0], [49.0, 51.0]), claim) == "cannot tell yet"
