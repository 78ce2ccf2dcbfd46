"""The benchmark of the step on a made-up size: its arms agree before they are timed, and its figures are there."""

import time
from dataclasses import replace

import pytest
import torch

from benchmarks import pretrain_arms, pretrain_step
from electra.files import read_json
from tests.electra.helpers import config

SMALL = {"encoder__positions": 32, "pretrain__batch": 4, "pretrain__length": 32, "encoder__hidden": 32}


def test_a_round_of_arms_gives_ratios_utilisation_and_overhead(tmp_path, monkeypatch):
    monkeypatch.setattr(pretrain_step, "probe", lambda device: 1e12)
    arms, out = ["ours-fp32", "peer-fp32", "peer-bf16"], tmp_path / "part.json"
    pretrain_step.run(config(**SMALL), arms, blocks=2, steps=1, out=out, deadline=time.time() + 60)
    found = read_json(out)
    assert set(found["ratios"]) == {"peer-fp32 / ours-fp32", "peer-bf16 / ours-fp32"}
    assert all(ratio["process"]["min"] > 0 for ratio in found["ratios"].values())
    assert 0 < found["arms"]["ours-fp32"]["utilisation"] < 1
    assert set(found["arms"]["ours-fp32"]["overhead"]) == {"data", "logging", "checkpoint", "share"}


def test_arms_that_disagree_are_not_timed(monkeypatch):
    settings = config(**SMALL)
    assert pretrain_arms.equal_losses(settings, torch.device("cpu"))["ours"] > 40
    shifted = replace(settings, objective=replace(settings.objective, discriminator_weight=49.0))
    with pytest.raises(SystemExit, match="differ"):
        pretrain_arms.equal_losses(shifted, torch.device("cpu"))


def test_peers_are_skipped_when_the_time_is_over(tmp_path, monkeypatch):
    monkeypatch.setattr(pretrain_step, "probe", lambda device: 1e12)
    out = tmp_path / "part.json"
    pretrain_step.run(config(**SMALL), ["ours-fp32"], blocks=3, steps=1, out=out, deadline=0)
    assert read_json(out)["skipped"] == ["ours-fp32"]
