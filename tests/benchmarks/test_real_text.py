"""The comparison on real text: arms cost alike, and costs add up over starts."""

import argparse
import dataclasses
from pathlib import Path

import pytest

from benchmarks import real_text
from benchmarks.harness import local_params
from electra.errors import Stopped
from electra.files import write_json
from electra.pretraining.flops import training_flops

PARAMS = local_params()
VOCAB = 8192


def arm(name, seed=1, network=""):
    options = argparse.Namespace(network=network, steps=400, tasks=["cola", "rte", "squad2"])
    return real_text.with_arm(PARAMS, options, name, seed)


def flops(entry):
    name, params = entry
    return training_flops(params.models[name].electra(), VOCAB, "matmul")


def test_arms_spend_equal_flops():
    name, params = arm("electra")
    preset = PARAMS.models[real_text.MODEL]
    steps = dataclasses.replace(preset.pretrain, seed=1, steps=400)
    assert params.models[name] == dataclasses.replace(preset, pretrain=steps)
    mlm_name, mlm = arm("mlm")
    assert mlm.models[mlm_name].objective.name == "mlm"
    for other in (arm("mlm"), *(arm("electra", network=each) for each in real_text.NETWORKS)):
        assert flops(other) == pytest.approx(flops((name, params)), rel=0.01), other[0]


def test_cost_of_a_stopped_pretraining_counts(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name, params = arm("electra")
    results = tmp_path / "build/models" / name / "results.json"
    ends = [Stopped("stopped"), None]

    def run_stages(params, **stages):
        sum(range(3_000_000))
        if error := ends.pop(0):
            raise error
        write_json(results, {"steps": 400, "seed": 1, "loss": 1.0})
        results.with_name("curve.csv").write_text("step,disc_auc,tokens\n0,0.5,\n9,0.6,90\n")

    monkeypatch.setattr(real_text, "run_stages", run_stages)
    with pytest.raises(Stopped):
        real_text.pretrain(params, name)
    (costs,) = Path("runs/real-text").iterdir()
    before = float(costs.read_text())
    found = real_text.pretrain(params, name)
    assert 0 < before < found.pop("seconds")
    curve = [{"disc_auc": 0.5}, {"tokens": 90.0, "disc_auc": 0.6}]
    assert found == {"steps": 400, "seed": 1, "curve": curve}
