import pytest

from pipelines.report.comparison import Difference, around, compare_scores, decide, predict_next


@pytest.mark.parametrize(
    "first, second, verdict",
    [
        # of two fine-tunings, with a spread that would hide 128 points by Welch's interval
        ([99.25, 100.0], [54.5, 42.5], "higher"),
        ([94.0, 51.75], [50.5, 48.75], "cannot tell yet"),
        ([60.0, 60.4, 60.2], [70.0, 70.0, 70.0], "lower"),
        ([70.0, 72.0, 74.0], [69.0, 71.0, 73.0], "cannot tell yet"),
        # with pooled variances 0.4 to 8.4; but all of the spread is one arm's
        ([50.0, 54.0, 58.0, 54.0], [49.5, 49.6, 49.7, 49.6], "cannot tell yet"),
        ([90.0, 91.0, 92.0], [50.0], "higher"),
        ([90.0], [50.0], "cannot tell yet"),
    ],
)
def test_the_verdict_of_a_difference(first, second, verdict):
    difference = compare_scores(first, second)
    assert difference.verdict == verdict and difference.counts is (verdict in {"higher", "lower"})
    assert compare_scores([], second) is None
    assert not Difference(1.0, 0.0, 2.0).counts, "zero is within"


def test_one_fine_tuning_of_each_arm_has_the_error_of_the_dev_rows():
    difference = compare_scores([90.0], [40.0], rows=400)
    assert (difference.low, difference.high) == pytest.approx((44.4, 55.6), abs=0.1)
    assert compare_scores([61.0], [60.0], rows=400).verdict == "cannot tell yet"
    assert compare_scores([100.0], [99.0], rows=50).verdict == "cannot tell yet"
    assert compare_scores([100.0], [50.0], rows=400).high == 50.0


def test_few_fine_tunings_by_hand():
    # variances 0.28125 and 72 pool to 36.14, so the error is 6.012 = sqrt(36.14 × (1/2 + 1/2)); the
    # 97.5 % point of Student's t with 2 degrees of freedom is 4.3027
    two = compare_scores([99.25, 100.0], [54.5, 42.5])
    assert two.low == pytest.approx(51.125 - 4.3027 * 6.0117, abs=0.01)
    # three of each: variances 1 and 4, error 1.291, Welch's 2.94 degrees of freedom, t 3.2206
    three = compare_scores([71.0, 72.0, 73.0], [50.0, 52.0, 54.0])
    assert (three.low, three.high) == pytest.approx((15.84, 24.16), abs=0.01)
    # another score deviates by the root of 1 + 1/3 standard deviations, its mean by that of 1/3
    scores = [70.0, 72.0, 74.0]
    assert predict_next(scores) == pytest.approx((62.06, 81.94), abs=0.01)
    assert around(scores) == pytest.approx((67.03, 76.97), abs=0.01)
    assert predict_next(scores[:1]) is None


def test_two_arms_at_the_ceiling_may_still_differ():
    difference = compare_scores([100.0, 100.0], [100.0, 100.0], rows=200)
    # 201 of 202 rows, both: 1.96 × sqrt(2 × 0.00495 × 0.99505 / 200)
    assert (difference.low, difference.high) == (pytest.approx(-1.376, abs=0.01), 0.0)


def test_no_interval_leaves_the_scale():
    assert compare_scores([99.0, 100.0, 90.0], [10.0, 50.0, 20.0]).high == pytest.approx(
        100 - 80 / 3
    )
    assert compare_scores([50.0, 20.0], [99.0, 95.0]).low == 35.0 - 100
    assert predict_next([99.0, 90.0])[1] == 100.0 and predict_next([-99.0, -90.0])[0] == -100.0


@pytest.mark.parametrize(
    "claim, above, below",
    [
        ("above", "came out", "reversed"),
        ("no gain", "reversed", "came out"),
        ("level", "reversed", "reversed"),
    ],
)
def test_a_claim_is_decided_by_the_same_rule(claim, above, below):
    high, low = [52.0, 53.0, 54.0], [48.0, 49.0, 50.0]
    assert decide(compare_scores(high, low), claim) == above
    assert decide(compare_scores(low, high), claim) == below
    assert decide(compare_scores(high, high), claim) == "cannot tell yet"
