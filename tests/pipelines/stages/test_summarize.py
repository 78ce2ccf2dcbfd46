"""Numbers in git: copied from verified folders, with the headline taken from the right places."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from unittest.mock import MagicMock

import pytest

from electra.errors import BadConfig, CorruptFile, UserError
from electra.files import read_json
from electra.storage.manifest import write_manifest
from pipelines.config.params import PublishedConfig, load
from pipelines.stages import report
from pipelines.stages.summarize import (
    find_before,
    headline,
    record_results,
    stage_numbers,
    summarize,
)
from pipelines.tracking import NOTE
from tests.support.project import ROOT, SMOKE, run

WITHOUT_TORCH = """
import sys
from pipelines.stages.summarize import record_results
for stage in ("corpus", "tokens", "report"):
    record_results(stage, "mine", None)
assert "torch" not in sys.modules
"""

PRETRAIN = {"mlm_accuracy": 0.5, "disc_auc": 0.9, "disc_recall": None, "flops": 1e12, "loss": 3.0}
GLUE = {
    "tasks": {
        "cola": {"metric": "matthews", "pretrained": {"mean": 50.0}, "scratch": {"mean": 10.0}}
    },
    "average": {"name": "mean", "pretrained": {"mean": 60.0}},
}
SQUAD = {"versions": {"2.0": {"pretrained": {"mean": 70.0}}}}
FOLDERS = {name: name for name in ("corpus", "tokens", "tasks", "glue", "squad")} | {
    "pretrain": "models"
}


def test_a_models_numbers():
    assert headline({"pretrain": PRETRAIN, "glue": GLUE, "squad": SQUAD}) == {
        "mlm_accuracy": 0.5,
        "disc_auc": 0.9,
        "flops": 1e12,
        "pretrained": {"cola": 50.0, "squad2.0_f1": 70.0, "average": 60.0},
        "scratch": {"cola": 10.0},
    }


def test_the_numbers_of_a_run_sort_by_task_and_metric():
    arm = {"scores": [82.0, 80.0], "all": {"matthews": [82.0, 80.0], "accuracy": [91.0, 90.0]}}
    task = {"metric": "matthews", "pretrained": arm, "baselines": {"chance": 0.0}}
    average = {"name": "mean", "pretrained": {"scores": [82.0, 80.0]}}
    assert stage_numbers("glue", {"tasks": {"cola": task}, "average": average}) == {
        "cola": {
            "matthews/pretrained": 81.0,
            "matthews/pretrained_sd": pytest.approx(2**0.5),
            "matthews/chance": 0.0,
            "accuracy/pretrained": 90.5,
            "accuracy/pretrained_sd": pytest.approx(0.5**0.5),
        },
        "average/pretrained": 81.0,
        "average/pretrained_sd": pytest.approx(2**0.5),
    }
    assert list(stage_numbers("squad", {"versions": {"2.0": task}})) == ["squad2"]
    mlm = {"glue": {"cola": [10.0]}, "average": {"scores": [10.0]}}
    failed = {"status": "failed", "average": None}
    numbers = stage_numbers("ablation", {"arms": {"mlm": mlm, "electra": failed}})
    assert numbers == {"mlm": {"average": 10.0, "cola": 10.0}}


def test_an_arm_that_failed_has_no_number():
    arms = {"electra": {"average": {"mean": 1.5}}, "mlm": {"average": None}, "other": {}}
    assert headline({"ablation": {"arms": arms}}) == {"electra": 1.5}


def leave(stage, values):
    """Write the outputs of a stage of `smoke`."""
    folder = Path("build") / FOLDERS[stage] / "smoke"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.json").write_text(values if isinstance(values, str) else json.dumps(values))
    if stage == "pretrain":
        (folder / "curve.csv").write_text("step\n1\n")
    write_manifest(folder, name="smoke")
    return folder


@pytest.fixture
def made(here):
    for stage, values in (("pretrain", PRETRAIN), ("glue", GLUE), ("squad", SQUAD)):
        leave(stage, values)
    for stage in ("corpus", "tokens", "tasks"):
        leave(stage, {"kind": stage})


@pytest.mark.usefixtures("made")
def test_the_numbers_of_a_model_and_of_all_that_it_rests_on(monkeypatch):
    monkeypatch.setattr("pipelines.stages.summarize.find_before", lambda *_: "smoke")
    summarize("smoke", load())
    results = Path("results")
    assert {path.stem for path in (results / "smoke").iterdir()} == {*FOLDERS, "before"}
    assert read_json(results / "smoke/glue.json") == GLUE
    assert read_json(results / "smoke/corpus.json") == {"kind": "corpus"}
    assert (results / "curves/smoke.csv").read_text() == "step\n1\n"
    assert read_json(results / "summary/smoke.json")["disc_auc"] == 0.9
    shutil.rmtree("build/squad")  # a source may have none
    shutil.rmtree("results")
    params = load()
    tuned = replace(params.finetunings["smoke"], model="theirs")
    published = {"theirs": PublishedConfig(folder="x")}  # of which there are no numbers
    summarize("smoke", replace(params, finetunings={"smoke": tuned}, published=published))
    assert {path.stem for path in (results / "smoke").iterdir()} == {"tasks", "glue", "before"}
    assert "squad2.0_f1" not in read_json(results / "summary/smoke.json")["pretrained"]


@pytest.mark.usefixtures("made")
def test_a_run_gets_its_numbers_cards_and_a_note_that_begins_with_the_mean_of_the_tasks():
    card = Path("build/glue/smoke/cola/README.md")
    card.parent.mkdir()
    card.write_text("a card")
    average = {"name": "mean", "pretrained": {"mean": 60.0, "scores": [60.0]}}
    values = GLUE | {"average": average, "label": "sample world"}
    leave("glue", values)
    tracker = MagicMock()
    record_results("glue", "smoke", tracker)
    first = "pretrained/average 60; pretrained/cola 50; scratch/cola 10"
    tracker.tags.assert_called_with({NOTE: f"sample world: {first}"})
    tracker.summary.assert_called_with(stage_numbers("glue", values))
    copy = Path("runs/glue-smoke/cards/cola/README.md")
    tracker.artifact.assert_called_with(copy, "cards/cola")
    assert copy.read_text() == "a card"


def test_weights_that_a_pre_training_starts_from_are_found_by_their_folder(here):
    text = SMOKE.replace("save_every: 5}", "save_every: 5, init_from: start}")
    published = "published: {theirs: {folder: start/discriminator}, others: {folder: elsewhere}}"
    text = text.replace("published: {}", published)
    others = """finetunings:
  apart: {model: others, tasks: smoke, recipe: smoke}
  unlike: {model: theirs, tasks: smoke, recipe: paper}
  before: {model: theirs, tasks: smoke, recipe: smoke}
"""
    Path("params.yaml").write_text(text.replace("finetunings:\n", others))
    params = load()
    assert find_before("smoke", params) == "before"
    assert find_before("base", params) == find_before("before", params) == ""


def test_a_name_or_a_folder_that_is_not_there(here):
    with pytest.raises(BadConfig, match="did you mean smoke"):
        summarize("smokey", load())
    with pytest.raises(UserError, match=r"build/glue/smoke.*electra glue smoke"):
        summarize("smoke", load())
    with pytest.raises(BadConfig, match="no finetunings entry 'table5'"):
        report.run("table5", load(ROOT / "params.yaml"), None)
    assert not Path("results").exists()


@pytest.mark.usefixtures("made")
def test_damaged_numbers_are_not_copied():
    path = Path("build/squad/smoke/results.json")
    path.write_bytes(path.read_bytes().replace(b"70", b"71"))
    with pytest.raises(CorruptFile, match=r"build/squad/smoke/results\.json: has sha256"):
        summarize("smoke", load())


@pytest.mark.parametrize("spoilt", ["[]", '{"tasks": {"cola": []}}'])
@pytest.mark.usefixtures("made")
def test_a_record_that_no_stage_wrote_is_a_sentence(spoilt):
    leave("glue", spoilt)
    with pytest.raises(CorruptFile, match="is malformed"):
        summarize("smoke", load())


def test_a_stage_without_scores_does_not_import_torch():
    run(ROOT, "-c", WITHOUT_TORCH)
