"""Headline numbers: taken from the right places, and the report's checksums change with any result."""

import json
from pathlib import Path

import pytest

from electra.errors import BadConfig, BadInput, CorruptFile
from pipelines.config.params import load
from pipelines.stages.summary import of_ablation, of_model, summarise

PRETRAIN = {"mlm_accuracy": 0.5, "disc_auc": 0.9, "disc_recall": None, "flops": 1e12, "loss": 3.0}
GLUE = {
    "tasks": {"cola": {"metric": "matthews", "pretrained": {"mean": 50.0}, "scratch": {"mean": 10.0}}},
    "average": {"name": "mean", "pretrained": {"mean": 60.0}},
}
SQUAD = {"versions": {"2.0": {"pretrained": {"f1": {"mean": 70.0}, "exact": {"mean": 1.0}}}}}


def test_a_models_numbers() -> None:
    assert of_model(PRETRAIN, GLUE, SQUAD) == {
        "mlm_accuracy": 0.5,
        "disc_auc": 0.9,
        "flops": 1e12,
        "pretrained": {"cola": 50.0, "squad2.0_f1": 70.0, "average": 60.0},
        "scratch": {"cola": 10.0},
    }


def test_an_arm_that_failed_has_no_number() -> None:
    arms = {"electra": {"average": {"mean": 1.5}}, "mlm": {"status": "failed: x", "average": None}, "other": {}}
    assert of_ablation({"arms": arms}) == {"electra": 1.5}


def results() -> None:
    Path("results/smoke").mkdir(parents=True)
    for stage, values in (("pretrain", PRETRAIN), ("glue", GLUE), ("squad", SQUAD)):
        Path(f"results/smoke/{stage}.json").write_text(json.dumps(values))


def test_files(here: Path) -> None:
    params = load()
    with pytest.raises(BadConfig, match="did you mean smoke"):
        summarise("smokey", params)
    with pytest.raises(BadInput, match=r"results/smoke/pretrain\.json"):
        summarise("smoke", params)
    results()
    summarise("smoke", params)
    assert json.loads(Path("results/summary/smoke.json").read_text())["disc_auc"] == 0.9
    before = Path("build/selected/smoke").read_text()
    Path("results/smoke/glue.json").write_text(json.dumps({**GLUE, "note": 1}))
    summarise("smoke", params)
    changed = Path("build/selected/smoke").read_text()
    assert changed != before
    for read in ("results/smoke/pretrain.csv", "build/models/smoke/examples.json", "build/squad/smoke/MANIFEST.json"):
        Path(read).parent.mkdir(parents=True, exist_ok=True)
        Path(read).write_text("now there")
        summarise("smoke", params)
        assert Path("build/selected/smoke").read_text() != changed, read
        changed = Path("build/selected/smoke").read_text()


@pytest.mark.parametrize(
    "spoilt", ["[]", "3", '{"tasks": 3}', '{"tasks": {"cola": []}}', '{"tasks": {}, "average": {"pretrained": {}}}']
)
def test_a_record_that_no_stage_wrote_is_a_sentence(spoilt: str, here: Path) -> None:
    results()
    Path("results/smoke/glue.json").write_text(spoilt)
    with pytest.raises(CorruptFile, match="is malformed"):
        summarise("smoke", load())
