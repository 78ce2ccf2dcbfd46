"""The contents of a fingerprint: every setting is classified."""

import dataclasses

from electra.pretraining.config import NOT_IN_FINGERPRINT, PretrainConfig, fingerprinted_settings
from electra.storage.fingerprint import describe, differences
from tests.support.pretraining import config

# Adding a setting means deciding here, or in NOT_IN_FINGERPRINT, whether it bears on the result.
BEARING = set(
    """
length batch steps phases learning_rate generator_lr_scale warmup weight_decay beta1 beta2 eps bias_correction schedule
decay_share max_grad_norm accumulate seed precision eval_every eval_batches
""".split()
)


def test_every_setting_of_pre_training_is_classified():
    fields = {field.name for field in dataclasses.fields(PretrainConfig)}
    assert fields == BEARING | NOT_IN_FINGERPRINT
    settings = fingerprinted_settings(config())
    assert settings["pretrain"].keys() == BEARING
    assert settings.keys() == {"encoder", "generator", "objective", "pretrain"}


def test_differences_are_read_as_dotted_keys():
    old = {"config": {"pretrain": {"steps": 800, "steps_": {}}, "x": None}, "train": "1"}
    new = {"config": {"pretrain": {"steps": {"flops": 1.5}}, "x": None}, "train": "2"}
    sentence = "pretrain.steps 800 -> none, pretrain.steps_ {} -> none, train 1 -> 2, "
    assert describe(differences(old, new)) == f"{sentence}pretrain.steps.flops none -> 1.5"
    assert describe({"train": ["0" * 36, "1" * 37]}) == f"train {'0' * 36} -> {'1' * 12}…"
