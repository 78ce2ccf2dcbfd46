"""What a name of params.yaml would take, from settings alone and, of a user's own tasks, their files."""

import json
import re
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from electra.files import write_json
from electra.pretraining.flops import encoder_flops, training_flops
from pipelines.cli import estimate, main
from pipelines.config.params import Params, load
from pipelines.runtime.cost import UTILISATION
from pipelines.stages.ablation import plan_arms
from tests.conftest import ROOT, SMOKE, copy_text

ROWS = 30


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """No step is timed: tests/pipelines/cli/test_new.py does it once."""
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


def test_time_is_operations_by_the_published_range_of_utilisation(shipped: Params) -> None:
    config = shipped.models["base"].electra()
    flops = training_flops(config, 30_522, "matmul")
    low, high = (flops / (989e12 * share) / 3600 for share in UTILISATION)
    assert f"\n  H100: {low:.0f} hours to {high / 24:.1f} days\n" in estimate.pretraining("base", shipped)
    assert "12,000 steps read at most 25 M tokens" in estimate.pretraining("mini", shipped)


def test_small_cards_are_given_slices(shipped: Params) -> None:
    said = estimate.pretraining("base", shipped)
    assert re.search(r"\n  RTX 4090: .*, pretrain.accumulate: 4\n", said)
    assert re.search(r"\n  H100: [^,]*\n", said), "it holds the whole batch"


def test_time_here_is_timed_for_a_small_network_and_computed_for_a_large_one(shipped: Params) -> None:
    assert estimate.time_here("tiny", shipped) == "this machine's CPU: 2 minutes, by steps that were timed now"
    said = estimate.time_here("base", shipped)
    assert re.fullmatch(r"this machine's \d+ CPU cores: [\d.]+( \w+)? to [\d.]+ (days|years)", said)


def test_operations_are_those_of_every_row_epoch_order_arm_and_seed(here: Path) -> None:
    params = load()
    flops = 3 * ROWS * 2 * 2 * 2 * 3 * encoder_flops(params.models["smoke"].encoder, 16, 200, "matmul")
    said = estimate.estimate_finetuning("own", params)
    assert f"time: at most {flops:.2g} floating" in said and "kept: 1" in said
    assert estimate.rows_of("mood", "own", params) == ROWS and estimate.rows_of("rte", "smoke", params) == 1_000
    assert estimate.text_bytes(params, "smoke") == Path("text/a.txt").stat().st_size
    assert estimate.text_bytes(params, "absent") == 0


def test_a_name_says_all_of_its_trainings_and_what_is_not_there(here: Path, capsys) -> None:
    assert main(["estimate", "smoke"]) == 0
    said = capsys.readouterr().out
    assert "20 steps read at most 0 M tokens" in said and "H100: 1 minute" in said
    assert "disk: 0.0 GB" in said and "this machine's CPU: 1 minute" in said and "| weights |" in said
    assert "smoke, fine-tuning (cola" in said and "own, fine-tuning (mood)" in said
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
