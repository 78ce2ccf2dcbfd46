"""When a run saves: at the multiples of `save_every` that lie far enough apart by the clock, and at its end."""

import pytest

from electra.pretraining import trainer
from electra.pretraining.trainer import pretrain
from electra.storage import checkpoint
from tests.electra.helpers import config, data


@pytest.mark.parametrize(("minutes", "expected"), [(0, [6, 12, 18, 20]), (0.75, [12, 20])])
def test_checkpoints_are_minutes_apart(minutes, expected, tmp_path, monkeypatch):
    now = [0.0]

    def at_each_step(optimizer, rate, original=trainer.set_rate):
        now[0] += 4.0  # a step takes four seconds
        original(optimizer, rate)

    monkeypatch.setattr(trainer, "set_rate", at_each_step)
    monkeypatch.setattr(trainer.time, "monotonic", lambda: now[0])
    settings = config(pretrain__save_minutes=minutes, pretrain__keep=10)
    pretrain(settings, data(), tmp_path, {}, log=lambda step, numbers: None)
    assert checkpoint.steps(tmp_path) == expected
