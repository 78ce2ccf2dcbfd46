"""What fine-tunings would take: from settings and, of own tasks, their files."""

import json
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from electra.pretraining.flops import encoder_flops
from pipelines.cli import main
from pipelines.commands.tuning_budget import rows_of, settings_of, tuning_budget
from pipelines.config.params import load
from tests.conftest import SMOKE

ROWS = 30


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The smoke model on a task of one's own, and a published folder that is not there."""
    monkeypatch.chdir(tmp_path)
    values = YAML(typ="safe").load(SMOKE)
    values["tasks"]["own"] = {
        "kind": "own",
        "tasks": {"mood": {"train": "t.jsonl", "dev": "t.jsonl", "labels": [0, 1]}},
    }
    values["recipes"]["own"] = {"defaults": {"length": 16, "epochs": 2, "seeds": [1, 2, 3], "both_orders": True}}
    values["published"]["elsewhere"] = {"folder": "nowhere"}
    values["finetunings"]["own"] = {
        "model": "smoke",
        "tasks": "own",
        "recipe": "own",
        "arms": ["pretrained", "scratch"],
    }
    values["finetunings"]["elsewhere"] = {"model": "elsewhere", "tasks": "own", "recipe": "own"}
    Path("params.yaml").write_text(json.dumps(values))
    Path("t.jsonl").write_text(
        "".join(json.dumps({"sentence": f"row {n}", "label": n % 2}) + "\n" for n in range(ROWS))
    )
    return tmp_path


def test_operations_are_those_of_every_row_epoch_order_arm_and_seed(here: Path) -> None:
    params = load()
    flops = 3 * ROWS * 2 * 2 * 2 * 3 * encoder_flops(params.models["smoke"].encoder, 16, 200, "matmul")
    said = tuning_budget("own", params)
    assert f"at most {flops:.2g} floating" in said and "1 task (mood)" in said and "for 1 kept model\n" in said


def test_rows_come_from_the_file_the_sample_world_or_the_official_split(here: Path) -> None:
    params = load()
    assert rows_of("mood", "own", params) == ROWS and rows_of("rte", "smoke", params) == 1_000
    tasks = settings_of("smoke", params)
    assert list(tasks)[-1] == "squad2" and len(tasks) == 10


def test_a_name_says_all_of_its_fine_tunings_and_what_is_not_there(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["estimate", "smoke"]) == 0
    said = capsys.readouterr().out
    assert "20 steps read" in said and "smoke, fine-tuning: 10 tasks" in said and "own, fine-tuning: 1 task" in said
    assert main(["estimate", "own"]) == 0
    assert capsys.readouterr().out.startswith("own, fine-tuning")
    assert main(["estimate", "elsewhere"]) == 0
    assert "published.elsewhere.folder" in capsys.readouterr().out
    assert main(["estimate", "absent"]) == 64
