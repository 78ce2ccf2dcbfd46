"""The benchmark of the step on a made-up size: arms that agree, each in its own process, and the
promised figures.
"""

import argparse
import time

import pytest
import torch

from benchmarks import pretrain_arms, pretrain_step
from pipelines.config.params import load
from tests.support.pretraining import config

SMALL = {
    "encoder__positions": 32,
    "pretrain__batch": 4,
    "pretrain__length": 32,
    "encoder__hidden": 32,
}
CPU = torch.device("cpu")


def turn(arm):
    return pretrain_step.measure(
        arm, config(**SMALL), CPU, blocks=2, steps=1, deadline=time.time() + 60
    )


@pytest.mark.slow
def test_rounds_of_arms_give_ratios_utilisation_and_memory(monkeypatch):
    monkeypatch.setattr(pretrain_step, "probe", lambda device: 1e12)
    rounds = [{arm: turn(arm) for arm in ("ours-fp32", "peer-fp32", "peer-bf16")} for _ in range(2)]
    del rounds[1]["peer-bf16"]  # as after a deadline
    found = pretrain_step.summary(config(**SMALL), rounds, cpu=True)
    assert set(found["ratios"]) == {"peer-fp32 / ours-fp32", "peer-bf16 / ours-fp32"}
    assert all(ratio["process"]["lowest"] > 0 for ratio in found["ratios"].values())
    ours = found["arms"]["ours-fp32"]
    assert 0 < ours["utilisation"] < 1 and ours["first step seconds"] > 0 and "peak bytes" in ours


def test_arms_that_disagree_are_not_timed(monkeypatch):
    losses = pretrain_arms.equal_losses(config(**SMALL), CPU)
    assert losses.keys() == {"ours", "peer", "expert"} and losses["ours"] > 40
    monkeypatch.setattr(pretrain_arms.Peer, "loss", lambda *_: torch.tensor(41.0))
    with pytest.raises(ValueError, match="differ: ours"):
        pretrain_arms.equal_losses(config(**SMALL), CPU)


def test_each_arm_has_processes_of_its_own_until_the_deadline(monkeypatch):
    started = []
    turns = {
        "blocks": [(2.0, 2.0)],
        "bf16 peak": [1e12],
        "first step seconds": 1.0,
        "peak bytes": 5,
    }

    def child(deadline, work):
        started.append(work.args[0])
        return {"error": "CUDA out of memory"} if work.args[0] == "peer-bf16" else dict(turns)

    monkeypatch.setattr(pretrain_step, "child", child)
    arms = ["ours-bf16", "peer-bf16", "compiled-bf16"]
    options = argparse.Namespace(rows=4, length=None, rounds=2, arms=arms, blocks=1, steps=1)
    found = pretrain_step.model("small", options, time.time() + 60)
    # failed arms are not tried again
    assert started[1:] == [*arms, arms[0], arms[2]]
    assert found["errors"] == {"peer-bf16": "CUDA out of memory"} and found["skipped"] == []
    assert found["ratios"]["compiled-bf16 / ours-bf16"]["process"]["median"] == 1
    assert pretrain_step.model("small", options, 0)["skipped"] == arms


def test_batches_of_a_gpu_divide_the_presets(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    for name, rows in pretrain_step.GPU_ROWS.items():
        assert load().models[name].pretrain.batch % rows == 0
        assert pretrain_step.settings(name).pretrain.batch == rows
