"""When a run saves or evaluates: every so many steps that lie far enough apart by the clock, and at
its end. And its log of the time between.
"""

import pytest

from electra.optim.adamw import set_learning_rate
from electra.pretraining import trainer
from electra.pretraining.phases import learning_rate_at
from electra.storage import checkpoint
from tests.electra.helpers import config, data, train


@pytest.fixture(autouse=True)
def slow_steps(monkeypatch):
    now = [0.0]

    def at_each_step(optimizer, rate, original=set_learning_rate):
        now[0] += 4.0  # a step takes four seconds
        original(optimizer, rate)

    monkeypatch.setattr(trainer, "set_learning_rate", at_each_step)
    monkeypatch.setattr("time.monotonic", lambda: now[0])


def train_keeping_all(run, **settings):
    return train(run, config(pretrain__keep_checkpoints=10, **settings))


@pytest.mark.parametrize("minutes, expected", [(0, [6, 12, 18, 20]), (0.75, [12, 20])])
def test_checkpoints_are_minutes_apart(minutes, expected, tmp_path):
    train_keeping_all(tmp_path, pretrain__min_save_interval_minutes=minutes)
    assert checkpoint.steps(tmp_path) == expected


def test_evaluations_are_minutes_apart_and_bear_on_no_weight(tmp_path):
    """The curve has other points; shared ones, the networks and all that a resume reads are the
    same to the byte.
    """
    often = train_keeping_all(tmp_path / "often", pretrain__eval_every=3)
    rare = train_keeping_all(
        tmp_path / "rare", pretrain__eval_every=3, pretrain__min_eval_interval_minutes=0.5
    )
    curves = [{record.pop("step"): record for record in run.history} for run in (often, rare)]
    assert list(curves[0]) == [0, 3, 6, 9, 12, 15, 18, 20] and list(curves[1]) == [0, 9, 18, 20]
    for step, record in curves[1].items():
        assert all(
            value == curves[0][step][name] for name, value in record.items() if name != "train_loss"
        )
    losses = [curves[0][step]["train_loss"] for step in (3, 6, 9)]
    assert curves[1][9]["train_loss"] == pytest.approx(sum(losses) / 3), "since the one before"
    for step in checkpoint.steps(tmp_path / "rare"):
        for file in ("model", "optimizer"):
            ours, theirs = (
                tmp_path / run / f"step-{step}/{file}.safetensors" for run in ("often", "rare")
            )
            assert ours.read_bytes() == theirs.read_bytes()


def test_the_log_has_the_speed_and_rate_of_the_steps_before_it(tmp_path):
    settings = config(pretrain__eval_every=3)
    log = {}
    train(tmp_path, settings, log=lambda step, numbers: log.setdefault(step, {}).update(numbers))
    rows = data().train
    for step in (5, 10, 15, 20):
        assert log[step]["train/learning_rate"] == learning_rate_at(settings, step - 1, 20)
        speed = 8 * rows.tokens / len(rows) / 4.0
        assert log[step]["train/tokens_per_second"] == pytest.approx(speed, rel=0.01)
