"""What a name of params.yaml would take, from settings alone and, of a user's own tasks, their files."""

import dataclasses
import json
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from electra.files import write_json
from electra.pretraining.flops import encoder_flops
from pipelines.cli import main
from pipelines.commands import estimate
from pipelines.config.params import Params, load
from pipelines.runtime.roofline import CARDS, PASS, PRODUCT
from pipelines.stages.ablation import plan_arms
from tests.conftest import ROOT, SMOKE, copy_text

ROWS = 30


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """No step is timed: tests/pipelines/commands/test_new.py does it once."""
    monkeypatch.setattr(estimate, "step_seconds", lambda *of: 0.1)


@pytest.fixture
def shipped() -> Params:
    return load(ROOT / "params.yaml")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The smoke model with two ablations, a task of one's own, and a published folder that is not there."""
    monkeypatch.chdir(tmp_path)
    copy_text(tmp_path)
    values = YAML(typ="safe").load(SMOKE)
    mood = {"train": "t.jsonl", "dev": "t.jsonl", "labels": [0, 1]}
    values["tasks"]["own"] = {"kind": "own", "tasks": {"mood": mood}}
    values["recipes"]["own"] = {"defaults": {"length": 16, "epochs": 2, "seeds": [1, 2, 3], "both_orders": True}}
    values["published"]["elsewhere"] = {"folder": "nowhere"}
    arms = ["pretrained", "scratch"]
    values["finetunings"]["own"] = {"model": "smoke", "tasks": "own", "recipe": "own", "arms": arms}
    values["finetunings"]["elsewhere"] = {"model": "elsewhere", "tasks": "own", "recipe": "own"}
    few = {"tasks": ["cola"], "seeds": 2, "finetune": {"defaults": {"length": 16}}}
    base = {"model": "smoke", "tokens": "smoke", "data": "smoke", "recipe": "smoke"}
    for name, changed in {"objectives": {"objective.name": "mlm"}, "weights": {"encoder.layers": 2}}.items():
        entry = {"title": name, "base": base, "protocol": few, "arms": {"same": {}, "other": changed}}
        values["ablations"][name] = entry
    Path("params.yaml").write_text(json.dumps(values))
    rows = ({"sentence": f"row {n}", "label": n % 2} for n in range(ROWS))
    Path("t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


def test_a_gpu_that_was_measured_is_said_in_place_of_its_range(shipped, tmp_path, monkeypatch):
    """The rate is that of the most alike of the networks that gpu-check has timed."""
    monkeypatch.chdir(tmp_path)
    plain = estimate.pretraining("small", shipped)
    assert "\n  H100: 1.8 to 2.6 hours, $4.52 to $6.46\n" in plain and "measured" not in plain
    rates = {"flops": PRODUCT * CARDS["h100"].flops, "bandwidth": PASS * CARDS["h100"].bandwidth, "memory": 80e9}
    rows = [{"reached": 0.5, "intensity": 1.6e14}, {"reached": 0.25, "intensity": 4e14}, {"verdict": "ok"}]
    found = {"device": {"gpu": "NVIDIA H100 80GB HBM3"}, "rates": rates, "checks": rows}
    write_json(estimate.MEASURED, found)
    said = estimate.pretraining("small", shipped)
    assert "\n  NVIDIA H100 80GB HBM3, as gpu-check measured it: 3.6 hours\n" in said
    assert "\n  H100:" not in said and "\n  H200: 78 minutes" in said
    write_json(estimate.MEASURED, {"device": {"device": "cpu"}, "checks": []})
    assert estimate.pretraining("small", shipped).split("without")[0] == plain.split("without")[0]


def test_tokens_are_of_all_phases_prices_are_settings_and_small_cards_are_given_slices(shipped: Params) -> None:
    told = estimate.pretraining("mini", shipped)
    assert "12,000 steps read at most 25 M tokens" in told  # 9,600 x 64 x 32 + 2,400 x 16 x 128
    dear = dataclasses.replace(shipped, gpu_prices=dataclasses.replace(shipped.gpu_prices, h100=25.0))
    assert "H100: 49 to 70 hours, $1,231 to $1,759\n" in estimate.pretraining("base", dear)
    assert "RTX 4090: 10 to 14 days, $120 to $172, pretrain.accumulate: 4\n" in estimate.pretraining("base", dear)


def test_operations_are_those_of_every_row_epoch_order_arm_and_seed(here: Path) -> None:
    params = load()
    flops = 3 * ROWS * 2 * 2 * 2 * 3 * encoder_flops(params.models["smoke"].encoder, 16, 200, "matmul")
    said = estimate.finetuning("own", params)
    assert f"time: {flops:.2g} floating" in said and "1 task (mood)" in said and "for 1 kept model\n" in said
    assert estimate.rows_of("mood", "own", params) == ROWS and estimate.rows_of("rte", "smoke", params) == 1_000
    assert estimate.text_bytes(params, "smoke") == Path("text/a.txt").stat().st_size
    assert estimate.text_bytes(params, "absent") == 0


def test_a_name_says_all_of_its_trainings_and_what_is_not_there(here: Path, capsys) -> None:
    assert main(["estimate", "smoke"]) == 0
    said = capsys.readouterr().out
    assert "20 steps read at most 0 M tokens" in said and "H100: a minute, less than a cent" in said
    assert "disk: 0.0 GB" in said and "CPU cores here" in said and "| weights |" in said
    assert "smoke, fine-tuning: 10 tasks" in said and "own, fine-tuning: 1 task" in said
    assert main(["estimate", "own"]) == 0
    assert capsys.readouterr().out.startswith("own, fine-tuning")
    assert main(["estimate", "elsewhere"]) == 0
    assert "published.elsewhere.folder" in capsys.readouterr().out
    assert main(["estimate", "absent"]) == 64


def test_arms_of_an_earlier_ablation_and_finished_ones_take_nothing(here, monkeypatch):
    def rows(*names: str) -> list[list[str]]:
        return [line.split(" | ") for line in estimate.ablations(names, params).splitlines()[2:]]

    params = load()
    objectives, weights = rows("objectives", "weights")
    assert objectives[1:3] == ["4", "4"] and weights[1:3] == ["4", "2"]
    (alone,) = rows("weights")
    assert float(alone[3]) > float(weights[3]) > 0
    monkeypatch.setattr(estimate, "arm_folder", lambda arm, params: here / "runs" / arm.key)
    for arm in plan_arms("weights", params, 200):
        write_json(here / "runs" / arm.key / "arm.json", {})
    (finished,) = rows("weights")
    assert finished[1:4] == ["4", "0", "0"]
