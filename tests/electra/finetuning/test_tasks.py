"""Settings of fine-tuning, for each arm."""

from electra.finetuning.tasks import (
    GLUE,
    PAPER_AVERAGE,
    FinetuneConfig,
    ScratchConfig,
    SquadConfig,
)


def test_the_arm_from_scratch_changes_only_what_it_names():
    scratch = ScratchConfig(learning_rate=1e-3)
    config = FinetuneConfig(
        learning_rate=1e-4, seeds=(5,), ensemble=True, keep_models="all", scratch=scratch
    )
    # seeds and what is kept bear on no single run
    assert config.for_arm("pretrained") == FinetuneConfig(learning_rate=1e-4)
    assert config.for_arm("scratch") == FinetuneConfig(learning_rate=1e-3)


def test_only_training_rows_are_drawn_and_turned():
    every = {"length": 64, "stride": 9, "question_length": 5}
    drawn = every | {"both_orders": True, "max_train_rows": 7}
    config = SquadConfig(**drawn, batch=3)
    assert config.layout(train=True) == SquadConfig(**drawn)
    assert config.layout(train=False) == SquadConfig(**every)


def test_the_average_is_the_papers():
    """Spearman of STS, Matthews of CoLA, else accuracy, and no WNLI."""
    first = {name: GLUE[name].metrics[0] for name in PAPER_AVERAGE}
    assert (first.pop("stsb"), first.pop("cola")) == ("spearman", "matthews")
    assert [*first.values()] == ["accuracy"] * 6


def test_glue_has_as_many_training_rows_as_its_files():
    """Compare their sum, which a wrong digit in any of the nine changes."""
    assert sum(task.train_rows for task in GLUE.values()) == 949_733
