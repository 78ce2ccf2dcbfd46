"""Metrics against scikit-learn and scipy, and their values where those warn, refuse or return NaN."""

import numpy as np
import pytest
from scipy import stats
from sklearn import metrics as theirs

from electra.finetuning.metrics import METRICS, score


@pytest.mark.parametrize("classes, known", [(2, 2), (5, 4)])
def test_classification_metrics_equal_scikit_learn(classes, known):
    predicted, label = np.random.default_rng(1).integers(0, classes, (2, 200)).astype(float)
    label %= known  # no row has the last of five
    expected = {
        "accuracy": theirs.accuracy_score(label, predicted),
        "matthews": theirs.matthews_corrcoef(label, predicted),
        "macro_f1": theirs.f1_score(label, predicted, average="macro"),
    }
    if classes == 2:
        expected["f1"] = theirs.f1_score(label, predicted)
    for name, value in expected.items():
        assert score(name, predicted, label) == pytest.approx(100 * value, abs=1e-6)


@pytest.mark.parametrize("digits", [0, 9])
def test_correlations_equal_scipy(digits):
    """With and without ties; numbers whose squares overflow too."""
    predicted, noise = np.random.default_rng(1).normal(size=(2, 300)).round(digits)
    label = predicted + noise
    for name, correlate in (("pearson", stats.pearsonr), ("spearman", stats.spearmanr)):
        expected = pytest.approx(100 * correlate(predicted, label)[0], abs=1e-6)
        assert score(name, predicted, label) == expected
        assert score(name, 1e300 * predicted, label) == expected


def test_degenerate_input_counts_as_zero():
    ones = np.ones(4)
    mixed = np.array([0.0, 1.0, 1.0, 0.0])
    for predicted, label in ((ones, mixed), (mixed, ones), (ones, ones), (ones / 10, mixed)):
        for name in ("matthews", "pearson", "spearman"):
            assert score(name, predicted, label) == 0
    assert score("f1", np.zeros(4), np.zeros(4)) == 0
    assert all(np.isfinite(score(name, np.zeros(1), ones[:1])) for name in METRICS)
