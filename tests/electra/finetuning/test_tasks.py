"""Settings of fine-tuning, for each arm."""

from electra.config import build
from electra.finetuning.tasks import FinetuneConfig, SquadConfig


def test_the_arm_from_scratch_changes_only_what_it_names():
    config = build(
        FinetuneConfig,
        {"learning_rate": 1e-4, "seeds": [5], "scratch": {"learning_rate": 1e-3}},
        "x",
    )
    assert config.for_arm("pretrained").learning_rate == 1e-4
    assert config.for_arm("scratch").learning_rate == 1e-3
    assert config.for_arm("scratch").layer_decay == config.layer_decay
    # seeds bear on no single run
    assert config.for_arm("pretrained").seeds == FinetuneConfig().seeds


def test_only_training_rows_are_drawn_and_turned():
    every = {"length": 64, "stride": 9, "question_length": 5}
    drawn = every | {"both_orders": True, "max_train_rows": 7}
    config = SquadConfig(**drawn, batch=3)
    assert config.layout(train=True) == SquadConfig(**drawn)
    assert config.layout(train=False) == SquadConfig(**every)
