"""When a run saves or evaluates: every so many steps that lie far enough apart by the clock, and at
its end. And its log of the time between.
"""

import pytest

from electra.optim.adamw import set_learning_rate
from electra.pretraining import trainer
from electra.pretraining.phases import learning_rate_at
from electra.storage import checkpoint
from tests.support.pretraining import config, data, train


@pytest.fixture(autouse=True)
def slow_steps(monkeypatch):
    now = [0.0]

    def at_each_step(optimizer, rate, original=set_learning_rate):
        now[0] += 4.0  # a step takes four seconds
        original(optimizer, rate)

    monkeypatch.setattr(trainer, "set_learning_rate", at_each_step)
    monkeypatch.setattr("time.monotonic", lambda: now[0])


def train_and_log(run, **changes):
    """Return the curve and the log of a run, both by step."""
    log = {}

    def add_to_log(step, numbers):
        log.setdefault(step, {}).update(numbers)

    history = train(run, config(**changes), log=add_to_log).history
    return {record["step"]: record for record in history}, log


@pytest.mark.parametrize("minutes, expected", [(0, [6, 12, 18, 20]), (0.75, [12, 20])])
def test_checkpoints_are_minutes_apart(minutes, expected, tmp_path):
    settings = config(pretrain__keep_checkpoints=10, pretrain__min_save_interval_minutes=minutes)
    train(tmp_path, settings)
    assert checkpoint.steps(tmp_path) == expected


def test_evaluations_are_minutes_apart_and_bear_on_no_weight(tmp_path):
    """The curve has other points; shared ones are the same to the bit."""
    often, _ = train_and_log(tmp_path / "often", pretrain__eval_every=3)
    rare, _ = train_and_log(
        tmp_path / "rare", pretrain__eval_every=3, pretrain__min_eval_interval_minutes=0.5
    )
    assert list(often) == [0, 3, 6, 9, 12, 15, 18, 20] and list(rare) == [0, 9, 18, 20]
    losses = [often[step]["train_loss"] for step in (3, 6, 9)]
    assert rare[9]["train_loss"] == pytest.approx(sum(losses) / 3), "since the one before"
    for step, record in rare.items():
        record.pop("train_loss", None)
        assert record.items() <= often[step].items()


def test_the_log_has_the_means_the_speed_and_the_rate_of_the_steps_before_it(tmp_path):
    _, single = train_and_log(tmp_path / "single", pretrain__log_every=1)
    curve, log = train_and_log(tmp_path / "means", pretrain__eval_every=3)

    def mean(name, steps):
        return pytest.approx(sum(single[step][name] for step in steps) / len(steps), rel=1e-6)

    speed = 8 * data().train.tokens / 64 / 4.0
    for step in (5, 10, 15, 20):
        assert log[step]["train/learning_rate"] == learning_rate_at(config(), step - 1, 20)
        assert log[step]["train/tokens_per_second"] == pytest.approx(speed, rel=0.01)
        for name in ("train/loss", "train/grad_norm"):
            assert log[step][name] == mean(name, range(step - 4, step + 1))
    assert log[20].keys() >= {"train/mlm_loss", "train/disc_loss"}
    assert curve[20]["train_loss"] == mean("train/loss", [19, 20])
