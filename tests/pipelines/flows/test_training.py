"""The flows of a model: their stages, their pages, and their retries. DVC is a stand-in."""

from pathlib import Path

import pytest

from electra.errors import BadConfig
from pipelines.flows import steps, training
from pipelines.flows.training import flow_stages
from pipelines.tracking import lineage
from pipelines.versioning.dvc_runner import StageFailed
from tests.conftest import SMOKE
from tests.pipelines.flows.conftest import artifacts


def test_the_models_of_the_checkout_are_offered(tmp_path, monkeypatch):
    monkeypatch.setattr(training, "ROOT", tmp_path)
    assert training.models() == []  # the run itself says what is wrong with params.yaml
    (tmp_path / "params.yaml").write_text(
        SMOKE.replace("published: {}", "published: {theirs: {folder: x}}")
    )
    assert training.models() == ["smoke", "base", "theirs"]
    (tmp_path / "params.yaml").write_text("models: [")
    assert training.models() == []


def test_each_flow_has_its_stages():
    ablations = {"a": {"base": {"model": "m"}}, "b": {"base": {"model": "other"}}}
    tuned = {"m": {"model": "m"}, "m2": {"model": "m"}, "x": {"model": "other"}}
    params = {
        "published": {},
        "finetunings": tuned,
        "ablations": ablations,
        "run": {"models": ["m"]},
    }
    road = ["pretrain@m", "glue@m", "squad@m", "glue@m2", "squad@m2"]
    assert flow_stages("pretrain", "m", params) == road[:1]
    assert flow_stages("finetune", "m", params) == road
    assert flow_stages("ablations", "m", params) == ["ablation@a"]
    assert flow_stages("workflow", "m", params) == [*road, "ablation@a", "report"]
    assert (
        flow_stages("finetune", "other", params | {"published": {"other": {}}})[0]
        == "published@other"
    )
    assert "report" not in flow_stages("workflow", "other", params)
    with pytest.raises(BadConfig, match="none of the model 'third'"):
        flow_stages("ablations", "third", params)


@pytest.mark.slow
def test_a_model_for_gpus_is_refused_without_one_unless_it_is_there(dvc, monkeypatch):
    Path("params.yaml").write_text(SMOKE.replace(", precision: fp32", ""))
    monkeypatch.setattr(
        steps,
        "time_here",
        lambda *_: "; pre-training would take, on this machine's 2 CPU cores: a year",
    )
    monkeypatch.setattr(lineage, "gpus", list)
    assert training.pretrain("smoke", commit="") == {"pretrain@smoke": "ran"}
    dvc.would_run = ["pretrain@smoke"]
    with pytest.raises(
        StageFailed, match=r"smoke: this machine has no GPU; .*precision: fp32.*CPU cores: a year$"
    ):
        training.pretrain("smoke", commit="")
    monkeypatch.setattr(lineage, "gpus", lambda: ["H100"])
    assert training.pretrain("smoke", commit="") == {"pretrain@smoke": "ran"}
    with pytest.raises(StageFailed, match=r"nowhere/\*\.jsonl.*CPU cores: a year"):
        training.pretrain("base", commit="")


@pytest.mark.slow
def test_limits_and_counts_are_positive(dvc):
    for given, words in (
        ({"hours": -1}, "hours: is -1"),
        ({"hours": 0}, "hours: is 0"),
        ({"nproc_per_node": 0}, "is 0"),
    ):
        with pytest.raises(BadConfig, match=words):
            training.pretrain("smoke", commit="", **given)
    assert not dvc.calls


def test_each_arm_of_an_ablation_is_one_process(monkeypatch):
    def open_run(*_):
        raise StageFailed("opened", 1)

    monkeypatch.setattr(steps, "opened_run", open_run)
    with pytest.raises(BadConfig, match="one process"):
        training.ablations.fn("smoke", nproc_per_node=2)
    for run, processes in ((training.ablations, 1), (training.pretrain, 2)):
        with pytest.raises(StageFailed, match="opened"):
            run.fn("smoke", nproc_per_node=processes)


@pytest.mark.slow
def test_the_workflow_is_every_stage_and_a_failed_ablation_stops_no_other(dvc):
    stages = ["pretrain@smoke", "glue@smoke", "squad@smoke", "ablation@a", "ablation@b", "report"]
    assert training.workflow("smoke") == dict.fromkeys(stages, "ran")
    order = ["corpus@smoke", "tokens@smoke", "pretrain@smoke", "tasks@smoke", *stages[1:]]
    assert dvc.calls == order, "a task for each stage of DVC, inputs first"
    pages = artifacts()
    first = {key: pages[key].splitlines()[4] for key in ("glue-smoke", "ablation-a")}
    assert first == {"glue-smoke": "| pretrained.average | 91.25 |", "ablation-a": "| one | 90.5 |"}
    dvc.calls.clear()
    dvc.failures = {"ablation@a": [StageFailed("ablation@a: no arm", 65)]}
    with pytest.raises(StageFailed, match="no arm"):
        training.workflow("smoke")
    assert dvc.calls == order[:-1], "no report of what is not complete"


@pytest.mark.slow
def test_a_killed_stage_is_tried_again_and_a_mistake_or_an_unreachable_source_is_not(dvc):
    road = ["corpus@smoke", "tokens@smoke"]
    dvc.failures = {
        "pretrain@smoke": [StageFailed("x: killed", 137), StageFailed("x: stopped", 75)]
    }
    training.finetune("smoke")
    assert dvc.calls == [*road, *["pretrain@smoke"] * 3, "tasks@smoke", "glue@smoke", "squad@smoke"]
    dvc.calls.clear()
    dvc.failures = {
        "pretrain@smoke": [StageFailed("pretrain@smoke: models.smoke.x: is not a parameter", 64)]
    }
    with pytest.raises(StageFailed, match="is not a parameter"):
        training.finetune("smoke")
    assert dvc.calls == [*road, "pretrain@smoke"]
    with pytest.raises(StageFailed, match=r"nowhere/\*\.jsonl"):
        training.workflow("base")
    assert dvc.calls == [*road, "pretrain@smoke"], "DVC was not asked"
