"""Metrics by hand and by scikit-learn, and when a discriminator is called weak."""

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score

from electra.pretraining.dataloader import BatchLoader
from electra.pretraining.distributed import World
from electra.pretraining.evaluation import area_under_curve, evaluate, metrics, weakness
from electra.pretraining.model import Pretraining
from tests.support.pretraining import SPECIAL, VOCAB, config, data, train
from tests.support.steps import CPU


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
        "replaced_rate": 0.375,
        "disc_loss": 0.5,
        "disc_baseline": 0.6615632,  # -3/8 log 3/8 - 5/8 log 5/8
        "disc_accuracy": 0.625,  # wrong: one that was missed, two that are original
        "disc_majority": 0.625,
        "disc_precision": 0.5,
        "disc_recall": 2 / 3,
    }
    assert metrics(sums) == pytest.approx(expected)
    sums = {"chosen": 4, "mlm_loss": 6.0, "sample_correct": 1, "main_correct": 2, "main_loss": 2.0}
    expected = {"mlm_loss": 1.5, "sample_accuracy": 0.25, "main_accuracy": 0.5, "main_loss": 0.5}
    assert metrics(sums) == expected
    assert metrics({**sums, "tokens": 8})["main_loss"] == 0.25  # asked at all of them


def test_an_evaluation_is_without_dropout_and_training_goes_on_with_it(tmp_path):
    loader = BatchLoader(data().valid, config(), CPU, "valid noise")

    def read(*batches):
        return evaluate(model, batches, "joint", len(batches), World(0, 1, CPU), "fp32")

    trained = train(tmp_path)
    model = trained.model
    assert read(loader.batch(0), loader.batch(1)).items() <= trained.history[-1].items()
    model = Pretraining(config(), VOCAB, SPECIAL).train()
    first, second = loader.batch(0), loader.batch(1)
    both = read(first, second)
    assert both == read(first, second) and model.training
    outputs = model.eval()(first)
    real = torch.arange(24) < first.lengths_B[:, None]
    auc = area_under_curve(outputs.logits_BT[real].numpy(), outputs.replaced_BT[real].numpy())
    assert read(first)["disc_auc"] == auc
    sums = outputs.sums
    assert read(first)["mlm_accuracy"] == (sums["mlm_correct"] / sums["chosen"]).item()
    assert both["loss"] == pytest.approx((read(first)["loss"] + read(second)["loss"]) / 2)


@pytest.mark.parametrize(
    "auc, share, tokens, cause",
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
    record = {"disc_auc": auc, "disc_loss": 0.4 * share, "disc_baseline": 0.4, "tokens": tokens}
    sentence = weakness({**record, "disc_recall": 0.125}, 1_000_000)
    figures = f"(AUC {auc:.2f}, recall 0.12, loss {share:.0%} of"
    if cause:
        assert cause in sentence and figures in sentence
    else:
        assert not sentence
