"""What a name of params.yaml would take, from settings alone and, of a user's own tasks, their files."""

import dataclasses
import json
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from electra.files import write_json
from electra.pretraining.corruption import SpecialIds
from electra.pretraining.flops import encoder_flops
from electra.pretraining.model import Pretraining
from pipelines.cli import main
from pipelines.commands import estimate
from pipelines.config.params import Params, load
from pipelines.stages.ablation import plan_arms
from tests.conftest import ROOT, SMOKE, copy_text

ROWS = 30


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


def test_parameters_are_those_of_the_networks(shipped: Params) -> None:
    config, special = shipped.models["tiny"].electra(), SpecialIds(pad=0, cls=1, sep=2, mask=3)
    for sharing in ("embeddings", "none", "tokens"):
        config = dataclasses.replace(config, objective=dataclasses.replace(config.objective, sharing=sharing))
        model = Pretraining(config, 800, special)
        assert estimate.parameters(config, 800) == sum(parameter.numel() for parameter in model.parameters())


def test_slices_take_less_memory_and_more_layers_and_longer_phases_more(shipped: Params) -> None:
    config = shipped.models["base"].electra()
    whole = estimate.memory(config, 10**8, 30_522)
    halves = dataclasses.replace(config, pretrain=dataclasses.replace(config.pretrain, accumulate=2))
    assert 0.4 * whole < estimate.memory(halves, 10**8, 30_522) < 0.6 * whole
    deeper = dataclasses.replace(config, encoder=dataclasses.replace(config.encoder, layers=24))
    assert estimate.memory(deeper, 10**8, 30_522) > 1.8 * whole
    model = shipped.models["mini_plus"].electra()  # 27,000 x 64 x 32 and 3,500 x 16 x 128
    assert "30,500 steps read 62 M tokens" in estimate.pretraining("mini_plus", shipped)
    short, long = model.pretrain.phases
    phases = (dataclasses.replace(short, batch=64), dataclasses.replace(long, batch=32))
    wider = dataclasses.replace(model, pretrain=dataclasses.replace(model.pretrain, phases=phases))
    assert estimate.memory(wider, 0, 8192) > estimate.memory(model, 0, 8192) + 1e6


def test_operations_are_those_of_every_row_epoch_order_arm_and_seed(here: Path) -> None:
    params = load()
    flops = 3 * ROWS * 2 * 2 * 2 * 3 * encoder_flops(params.models["smoke"].encoder, 16, 200, "matmul")
    said = estimate.finetuning("own", params)
    assert f"time: {flops:.2g} floating" in said and "1 task (mood)" in said and "for 1 kept model\n" in said
    assert estimate.rows_of("mood", "own", params) == ROWS and estimate.rows_of("rte", "smoke", params) == 1_000
    assert list(estimate.settings_of("smoke", params))[-1] == "squad2"
    assert estimate.text_bytes(params, "smoke") == Path("text/a.txt").stat().st_size
    assert estimate.text_bytes(params, "absent") == 0


def test_a_name_says_all_of_its_trainings_and_what_is_not_there(here: Path, capsys) -> None:
    assert main(["estimate", "smoke"]) == 0
    said = capsys.readouterr().out
    for words in ("20 steps read 0 M tokens", "H100 or H200 a minute", "disk: 0.0 GB", "CPU cores here", "| weights |"):
        assert words in said, words
    assert "smoke, fine-tuning: 10 tasks" in said and "own, fine-tuning: 1 task" in said
    assert main(["estimate", "own"]) == 0
    assert capsys.readouterr().out.startswith("own, fine-tuning")
    assert main(["estimate", "elsewhere"]) == 0
    assert "published.elsewhere.folder" in capsys.readouterr().out
    assert main(["estimate", "absent"]) == 64


def test_arms_of_an_earlier_ablation_and_finished_ones_take_nothing(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def rows(*names: str) -> list[list[str]]:
        return [line.split(" | ") for line in estimate.ablations(names, params).splitlines()[2:]]

    params = load()
    objectives, weights = rows("objectives", "weights")
    assert objectives[1:4] == ["4", "0", "0"] and weights[1:4] == ["4", "0", "2"]
    (alone,) = rows("weights")
    assert float(alone[4]) > float(weights[4]) > 0
    monkeypatch.setattr(estimate, "arm_folder", lambda arm, params: here / "runs" / arm.key)
    for arm in plan_arms("weights", params, 200):
        write_json(here / "runs" / arm.key / "arm.json", {})
        write_json(here / "runs" / arm.key / "tasks/1/a/MANIFEST.json", {"entry": "cola-pretrained-seed1"})
    (finished,) = rows("weights")
    assert finished[1:5] == ["4", "4", "0", "0"]
