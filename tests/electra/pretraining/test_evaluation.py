"""The metrics of pre-training by hand, when a discriminator is called weak, and the cause given."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from electra.pretraining.evaluation import area_under_curve, metrics, weakness


@pytest.mark.parametrize(
    ("auc", "share", "tokens", "cause"),
    [
        (0.90, 0.60, 9e6, None),
        # one network for both, as benchmarks/notes/real-text-recipe.md has it
        (0.67, 0.94, 9e6, None),
        (0.62, 0.96, 0.7e6, "it has read 0.7 M tokens, and needs some 5 M: raise pretrain.steps"),
        (0.60, 0.98, 5e8, "it has read its text 500 times: use more text"),
        (0.90, 0.99, 9e6, "lower pretrain.learning_rate"),
    ],
)
def test_a_weak_discriminator_has_a_cause(auc, share, tokens, cause):
    record = {
        "disc_auc": auc,
        "disc_recall": 0.0,
        "disc_loss": 0.4 * share,
        "disc_baseline": 0.4,
        "tokens": tokens,
    }
    found = weakness(record, 1_000_000)
    assert (cause in found) if cause else found == ""


def test_no_discriminator_is_never_weak():
    assert weakness({"mlm_loss": 9.0, "tokens": 1e9}, 1_000_000) == ""


@pytest.mark.parametrize("levels", [1, 3, 1000])
def test_auc_counts_ties_half_as_scikit_learn_does(levels):
    draw = np.random.default_rng(0)
    for _ in range(20):
        scores = (draw.integers(0, levels, 60) / levels).astype(np.float32)
        positive = draw.random(60) < 0.3
        expected = roc_auc_score(positive, scores)
        assert area_under_curve(scores, positive) == pytest.approx(expected, abs=1e-6)
    assert area_under_curve(scores, np.ones(60, bool)) == 0.5  # one class alone


def test_metrics_of_the_discriminator_from_counts_by_hand():
    """Eight tokens, three replaced; four were called so, two of them rightly."""
    sums = {"tokens": 8.0, "replaced": 3.0, "said_replaced": 4.0, "found": 2.0, "disc_loss": 4.0}
    rate = 3 / 8
    entropy = -rate * np.log(rate) - (1 - rate) * np.log(1 - rate)
    expected = {
        "replaced_rate": rate,
        "disc_loss": 0.5,
        "disc_baseline": entropy,
        "disc_accuracy": 5 / 8,  # three are wrong: two false alarms and one miss
        "disc_majority": 5 / 8,
        "disc_precision": 2 / 4,
        "disc_recall": 2 / 3,
    }
    assert metrics(sums) == pytest.approx(expected)
