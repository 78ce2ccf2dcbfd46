"""When a discriminator is called weak, and what is given as the cause."""

import pytest

from electra.pretraining.evaluation import weakness


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
