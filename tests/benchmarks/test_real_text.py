"""The comparison on real text reads what the stages write: made-up results of two models, one of two phases."""

import json
from pathlib import Path

import pytest

from benchmarks import real_text
from pipelines.params import load
from tests.conftest import SMOKE

MLM = SMOKE.replace("  base:\n", "  more:\n").replace("model: base,", "model: more,")


def write(path: Path, values: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(values if isinstance(values, str) else json.dumps(values))


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "params.yaml", MLM)
    for name, length in (("smoke", 16), ("more", 32)):
        facts = dict.fromkeys(real_text.FACTS, 100) | {"length": length, "steps": 200}
        facts |= {"phases": [{"length": 16, "steps": 100}, {"length": 32, "steps": 100}]} if name == "more" else {}
        write(tmp_path / f"results/{name}/pretrain.json", facts)
        points = "0,0,0.5,0.0,\n50,,,,9.0\n100,100,0.75,0.25,8.0\n101,120,0.8,0.3,7.0\n"
        write(tmp_path / f"results/{name}/pretrain.csv", "step,tokens,disc_auc,disc_recall,train_loss\n" + points)
        arms = {
            "pretrained": {"scores": [60.0, 62.0, 61.0], "failed": []},
            "scratch": {"scores": [40.0, 41.0, 42.0], "failed": []},
        }
        task = {"metric": "matthews", "train_rows": 9, "dev_rows": 5, **arms}
        write(tmp_path / f"results/{name}/glue.json", {"tasks": {"cola": task, "rte": task | {"metric": "accuracy"}}})
        squad = {"train_rows": 9, "dev_rows": 5} | {arm: {"exact": part, "f1": part} for arm, part in arms.items()}
        write(tmp_path / f"results/{name}/squad.json", {"versions": {"2.0": squad}})
    write(tmp_path / "runs/timings.json", {"pretrain-smoke": {"seconds": 5.0}})
    return tmp_path


def test_a_curve_says_which_rows_were_read(project: Path) -> None:
    found = real_text.pretraining(load().models, "more")
    assert [(point["tokens"], point["length"]) for point in found["curve"]] == [(0, 16), (100, 16), (120, 32)]
    assert found["phases"][1] == {"length": 32, "steps": 100} and found["seconds"] is None
    found = real_text.pretraining(load().models, "smoke")
    assert found["phases"] == [{"length": 16, "batch": 100, "steps": 200}] and found["seconds"] == 5.0


def test_arms_are_told_apart_by_the_rule_of_the_report(project: Path) -> None:
    names = {"electra": "more", "mlm": "smoke", "mlm_long": "smoke"}
    tasks = {title: real_text.judged(values) for title, values in real_text.scores(names).items()}
    assert list(tasks) == [
        "mean of these 2 tasks",
        "CoLA, Matthews correlation",
        "RTE, accuracy",
        "SQuAD 2.0, exact match",
        "SQuAD 2.0, F1",
    ]
    mean = tasks["mean of these 2 tasks"]
    assert mean["electra"] == {"scores": [60.0, 62.0, 61.0], "mean": 61.0, "std": 1.0}
    assert mean["electra - scratch"]["verdict"] == "higher" and mean["electra - scratch"]["points"] == 20.0
    assert mean["electra - mlm"]["points"] == 0.0 and mean["electra - mlm"]["verdict"] == "noise"
    record = {"pretraining": {"electra": real_text.pretraining(load().models, "more")}, "tasks": tasks}
    figure = real_text.draw(record)
    assert len(figure.axes) == 2 and len(figure.axes[1].get_yticklabels()) == 5
