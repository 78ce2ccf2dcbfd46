"""The modern encoder in pre-training: every objective and sharing learns."""

import pytest
import torch

from electra.pretraining.model import Pretraining
from electra.seeds import derive
from tests.electra.helpers import MODERN, SPECIAL, TWO_STAGES, VOCAB, config, train

TOKENS = {"encoder": MODERN, "objective__sharing": "tokens"}
TWIN = {"generator__width": 1.0}
CASES = {
    **{
        name: {**TOKENS, "objective__name": name}
        for name in ("electra", "replace_mlm", "all_tokens_mlm", "mlm")
    },
    "none": {**TOKENS, "objective__sharing": "none"},
    "embeddings": {**TOKENS, **TWIN, "objective__sharing": "embeddings"},
    "all": {**TOKENS, **TWIN, "objective__sharing": "all"},
    "gradient_disentangled": {**TOKENS, "objective__sharing": "gradient_disentangled"},
    "two_stage": {**TOKENS, **TWO_STAGES},
    "adversarial": {**TOKENS, "objective__training": "adversarial"},
    "factorised": {**TOKENS, "encoder": {**MODERN, "embedding": 16}},
    "dropout": {**TOKENS, "encoder": {**MODERN, "dropout": 0.1, "attention_dropout": 0.1}},
    "mimetic": {
        **TOKENS,
        "encoder": {**MODERN, "init": "mimetic"},
        "pretrain__generator_lr_scale": 4.0,
    },
    "neighbours": {**TOKENS, "encoder": {**MODERN, "heads": 1, "init": "neighbours"}},
}
SHORT = {
    "pretrain__warmup": 1,
    "pretrain__learning_rate": 2e-3,
}


@pytest.mark.parametrize("name", CASES)
def test_it_learns_and_every_parameter_has_a_part_in_it(name, tmp_path):
    torch.manual_seed(derive(1, "init"))
    before = dict(Pretraining(config(**CASES[name]), VOCAB, SPECIAL).named_parameters())
    trained = train(tmp_path, config(**CASES[name], **SHORT))
    losses = [record["loss"] for record in trained.history]
    # which has two losses, one after the other
    assert name == "two_stage" or losses[-1] < losses[0]
    still = {
        key for key, value in trained.model.named_parameters() if torch.equal(value, before[key])
    }
    unused = {"discriminator.head"} if name in {"replace_mlm", "all_tokens_mlm", "mlm"} else set()
    assert {".".join(key.split(".")[:2]) for key in still} == unused
