"""Metrics against scikit-learn and scipy, and their values where those warn, refuse or return NaN."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn import metrics as theirs

from electra.finetuning.metrics import (
    METRICS,
    accuracy,
    f1,
    macro_f1,
    matthews,
    pearson,
    ranks,
    score,
    spearman,
)


@pytest.mark.parametrize("classes", [2, 3, 5])
@pytest.mark.parametrize("seed", range(5))
def test_classification_equals_scikit_learn(classes, seed):
    draw = np.random.default_rng(seed)
    predicted, label = draw.integers(0, classes, (2, 200)).astype(float)
    assert accuracy(predicted, label) == pytest.approx(
        100 * theirs.accuracy_score(label, predicted), abs=1e-9
    )
    assert matthews(predicted, label) == pytest.approx(
        100 * theirs.matthews_corrcoef(label, predicted), abs=1e-9
    )
    expected = 100 * theirs.f1_score(label, predicted, average="macro")
    assert macro_f1(predicted, label) == pytest.approx(expected, abs=1e-9)
    if classes == 2:
        assert f1(predicted, label) == pytest.approx(
            100 * theirs.f1_score(label, predicted), abs=1e-9
        )


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("ties", [False, True])
def test_correlations_equal_scipy(seed, ties):
    draw = np.random.default_rng(seed)
    predicted, label = draw.normal(size=(2, 300))
    label = label + predicted
    if ties:
        predicted, label = predicted.round(), label.round()
    assert pearson(predicted, label) == pytest.approx(
        100 * stats.pearsonr(predicted, label)[0], abs=1e-9
    )
    assert spearman(predicted, label) == pytest.approx(
        100 * stats.spearmanr(predicted, label)[0], abs=1e-9
    )
    assert (ranks(label) == stats.rankdata(label)).all()


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=30))
@settings(max_examples=100, deadline=None)
def test_every_metric_is_defined_on_any_rows(pairs):
    predicted, label = np.array(pairs, dtype=float).T
    for name in METRICS:
        value = score(name, predicted, label)
        assert np.isfinite(value) and -100 <= value <= 100


def test_degenerate_input_counts_as_zero():
    ones, mixed = np.ones(4), np.array([0.0, 1.0, 1.0, 0.0])
    assert matthews(ones, mixed) == matthews(mixed, ones) == matthews(ones, ones) == 0
    assert f1(np.zeros(4), np.zeros(4)) == 0
    assert pearson(ones, mixed) == spearman(mixed, ones) == 0
    assert pearson(np.array([1.0]), np.array([2.0])) == 0
