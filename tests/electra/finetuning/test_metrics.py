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
def test_classification_metrics_equal_scikit_learn(classes):
    for seed in range(5):
        predicted, label = np.random.default_rng(seed).integers(0, classes, (2, 200)).astype(float)
        pairs = {
            accuracy: theirs.accuracy_score(label, predicted),
            matthews: theirs.matthews_corrcoef(label, predicted),
            macro_f1: theirs.f1_score(label, predicted, average="macro"),
        }
        if classes == 2:
            pairs[f1] = theirs.f1_score(label, predicted)
        for ours, expected in pairs.items():
            assert ours(predicted, label) == pytest.approx(100 * expected, abs=1e-9)


@pytest.mark.parametrize("ties", [False, True])
def test_correlations_equal_scipy(ties):
    for seed in range(5):
        predicted, label = np.random.default_rng(seed).normal(size=(2, 300))
        label = label + predicted
        if ties:
            predicted = predicted.round()
            label = label.round()
        expected = 100 * stats.pearsonr(predicted, label)[0]
        assert pearson(predicted, label) == pytest.approx(expected, abs=1e-9)
        assert pearson(1e300 * predicted, label) == pytest.approx(expected, abs=1e-9)
        expected = 100 * stats.spearmanr(predicted, label)[0]
        assert spearman(predicted, label) == pytest.approx(expected, abs=1e-9)
        assert (ranks(label) == stats.rankdata(label)).all()


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=30))
@settings(max_examples=100, deadline=None)
def test_every_metric_is_defined_on_any_rows(pairs):
    predicted, label = np.array(pairs, dtype=float).T
    for name in METRICS:
        value = score(name, predicted, label)
        assert np.isfinite(value) and -100 <= value <= 100


def test_degenerate_input_counts_as_zero():
    ones = np.ones(4)
    mixed = np.array([0.0, 1.0, 1.0, 0.0])
    for predicted, label in ((ones, mixed), (mixed, ones), (ones, ones), (ones / 10, mixed)):
        assert matthews(predicted, label) == pearson(predicted, label) == 0
        assert spearman(predicted, label) == 0
    assert f1(np.zeros(4), np.zeros(4)) == 0
    assert pearson(np.array([1.0]), np.array([2.0])) == 0
