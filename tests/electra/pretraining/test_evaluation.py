"""Metrics by hand and by scikit-learn, and when a discriminator is called weak."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from electra.pretraining.dataloader import BatchLoader
from electra.pretraining.evaluation import area_under_curve, evaluate, metrics, weakness
from tests.electra.helpers import config, data
from tests.electra.pretraining.step_helpers import CPU, build


def test_auc_is_that_of_scikit_learn_with_ties_and_without():
    numbers = np.random.default_rng(0)
    for distinct in (1, 2, 7, 1000):
        scores = numbers.integers(0, distinct, 200).astype(np.float32)
        positive = numbers.random(200) < 0.3
        assert area_under_curve(scores, positive) == pytest.approx(roc_auc_score(positive, scores))
        assert area_under_curve(scores, positive & False) == 0.5, "one class"


def test_discriminator_metrics_of_eight_tokens():
    """Of 8 tokens 3 are replaced; 4 are said to be, 2 of them rightly."""
    sums = {"tokens": 8, "replaced": 3, "said_replaced": 4, "found": 2, "disc_loss": 4.0}
    expected = {
        "replaced_rate": 3 / 8,
        "disc_loss": 0.5,
        "disc_baseline": -(3 / 8 * np.log(3 / 8) + 5 / 8 * np.log(5 / 8)),
        "disc_accuracy": 5 / 8,  # wrong: one that was missed, two that are original
        "disc_majority": 5 / 8,
        "disc_precision": 2 / 4,
        "disc_recall": 2 / 3,
    }
    assert metrics(sums) == pytest.approx(expected)
    sums = {"chosen": 4, "mlm_loss": 6.0, "sample_correct": 1, "main_correct": 2, "main_loss": 2.0}
    expected = {"mlm_loss": 1.5, "sample_accuracy": 0.25, "main_accuracy": 0.5, "main_loss": 0.5}
    assert metrics(sums) == expected
    assert metrics({**sums, "tokens": 8})["main_loss"] == 0.25  # asked at all of them


def test_an_evaluation_is_without_dropout_and_restores_the_mode():
    model, step = build(config())
    loader = BatchLoader(data().valid, config(), CPU, "valid noise")
    first, second = (loader.batch(number) for number in range(2))
    records = []
    for batches in ([first, second], [first], [second]):
        for training in (True, False):
            model.train(training)
            records.append(evaluate(model, batches, "joint", len(batches), step.world, "fp32"))
            assert model.training is training
        assert records[-2] == records[-1]
    both, one, other = (record["loss"] for record in records[::2])
    assert both == pytest.approx((one + other) / 2)


def test_a_weak_discriminator_has_a_cause():
    for auc, share, tokens, cause in (
        (0.90, 0.60, 9e6, ""),
        # one network for both, as benchmarks/notes/real-text-recipe.md has it
        (0.67, 0.94, 9e6, ""),
        (0.62, 0.96, 0.7e6, "it has read 0.7 M tokens, and needs some 5 M: raise pretrain.steps"),
        (0.60, 0.98, 5e8, "it has read its text 500 times: use more text"),
        (0.90, 0.99, 9e6, "lower pretrain.learning_rate"),
    ):
        record = {"disc_loss": 0.4 * share, "disc_baseline": 0.4, "disc_recall": 0.125}
        sentence = weakness(record | {"disc_auc": auc, "tokens": tokens}, 1_000_000)
        assert cause in sentence and bool(cause) == bool(sentence)
    assert "(AUC 0.90, recall 0.12, loss 99% of" in sentence
    assert weakness({"mlm_loss": 9.0, "tokens": 1e9}, 1_000_000) == "", "no discriminator"
