"""The learning rate of a step: products of warm-up and decay, and a plateau."""

import pytest

from electra.optim.schedule import learning_rate


def test_product_schedule():
    rates = [learning_rate(t, peak=2.0, warmup=4, steps=10) for t in range(10)]
    assert rates == pytest.approx([2 * (1 - t / 10) * min(1, t / 4) for t in range(10)])
    assert rates[0] == 0


def test_a_decay_never_begins_within_the_warm_up():
    rates = [
        learning_rate(
            t, peak=1.0, warmup=80, steps=100, form="warmup_stable_decay", decay_share=0.5
        )
        for t in range(100)
    ]
    assert rates[:80] == pytest.approx([(t + 1) / 80 for t in range(80)])
    assert rates[80] == 1 and rates[81] < 1


def test_warmup_stable_decay_is_flat_and_ends_by_a_root():
    rates = [
        learning_rate(t, peak=2.0, warmup=4, steps=20, form="warmup_stable_decay", decay_share=0.25)
        for t in range(20)
    ]
    expected = (
        [2 * (t + 1) / 4 for t in range(4)]
        + [2.0] * 11
        + [2 * (1 - (i / 5) ** 0.5) for i in range(5)]
    )
    assert rates == pytest.approx(expected)
