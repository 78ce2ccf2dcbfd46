"""The flows of a model: their stages, their pages, and what is tried again. DVC is a stand-in."""

from pathlib import Path
from typing import Any

import pytest

from electra.errors import BadConfig
from pipelines.versioning.dvc_runner import StageFailed
from tests.conftest import SMOKE
from tests.pipelines.flows.conftest import Dvc, artifacts


def test_the_models_of_the_checkout_are_offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pipelines.flows import training

    monkeypatch.setattr(training, "ROOT", tmp_path)
    assert training.models() == []  # the run itself says what is wrong with params.yaml
    (tmp_path / "params.yaml").write_text(SMOKE.replace("published: {}", "published: {theirs: {folder: x}}"))
    assert training.models() == ["smoke", "base", "theirs"]
    (tmp_path / "params.yaml").write_text("models: [")
    assert training.models() == []


def test_each_flow_has_its_stages() -> None:
    from pipelines.flows.training import stages_of

    ablations = {"a": {"model": "m"}, "b": {"model": "other"}}
    tuned = {"m": {"model": "m"}, "m2": {"model": "m"}, "x": {"model": "other"}}
    params = {"published": {}, "finetunings": tuned, "ablations": ablations, "run": {"models": ["m"]}}
    road = ["pretrain@m", "glue@m", "squad@m", "glue@m2", "squad@m2"]
    assert stages_of("pretrain", "m", params) == road[:1]
    assert stages_of("finetune", "m", params) == road
    assert stages_of("ablations", "m", params) == ["ablation@a"]
    assert stages_of("workflow", "m", params) == [*road, "ablation@a", "report"]
    assert stages_of("finetune", "other", params | {"published": {"other": {}}})[0] == "published@other"
    assert "report" not in stages_of("workflow", "other", params)
    with pytest.raises(BadConfig, match="none of the model 'third'"):
        stages_of("ablations", "third", params)


@pytest.mark.slow
def test_several_machines_meet_and_one_of_them_asks_dvc(dvc: Dvc, monkeypatch: pytest.MonkeyPatch) -> None:
    from pipelines.flows import steps
    from pipelines.flows.training import ablations, pretrain

    joined: list[tuple[Any, ...]] = []
    monkeypatch.setattr(steps, "run", lambda command, name, place, *_: joined.append((command[2:], place.variables)))
    where = {"nproc_per_node": 8, "nnodes": 2, "rdzv_endpoint": "node1:29400", "max_restarts": 3}
    assert pretrain("smoke", **where) == {"pretrain@smoke": "ran"}
    assert pretrain("smoke", **where, joins=True) == {"pretrain@smoke": "joined"}
    variables = {"PET_NPROC_PER_NODE": "8", "PET_NNODES": "2", "PET_MAX_RESTARTS": "3"}
    variables |= {"PET_RDZV_ENDPOINT": "node1:29400"}
    assert dvc.processes == [variables] and joined == [(["pipelines", "pretrain", "smoke"], variables)]
    with pytest.raises(BadConfig, match="rdzv-endpoint"):
        pretrain("smoke", nnodes=2)
    with pytest.raises(BadConfig, match="one process"):
        ablations("smoke", nproc_per_node=2)


@pytest.mark.slow
def test_the_workflow_is_every_stage_and_a_failed_ablation_stops_no_other(dvc: Dvc) -> None:
    from pipelines.flows.training import workflow

    stages = ["pretrain@smoke", "glue@smoke", "squad@smoke", "ablation@a", "ablation@b", "report"]
    assert workflow("smoke") == dict.fromkeys(stages, "ran")
    assert dvc.calls == stages
    pages = artifacts()
    first = {key: pages[key].splitlines()[4] for key in ("glue-smoke", "ablation-a")}
    assert first == {"glue-smoke": "| pretrained.average | 91.25 |", "ablation-a": "| one | 90.5 |"}
    dvc.calls.clear()
    dvc.failures = {"ablation@a": [StageFailed("ablation@a", "no arm", 65)]}
    with pytest.raises(StageFailed, match="no arm"):
        workflow("smoke")
    assert dvc.calls == stages[:-1], "no report of what is not complete"


@pytest.mark.slow
def test_a_killed_stage_is_tried_again_and_a_mistake_or_an_unreachable_source_is_not(dvc: Dvc) -> None:
    from pipelines.flows.training import finetune, workflow

    dvc.failures = {"pretrain@smoke": [StageFailed("x", "killed", 137), StageFailed("x", "stopped", 75)]}
    finetune("smoke")
    assert dvc.calls == ["pretrain@smoke"] * 3 + ["glue@smoke", "squad@smoke"]
    dvc.calls.clear()
    dvc.failures = {"pretrain@smoke": [StageFailed("pretrain@smoke", "models.smoke.x: is not a parameter", 64)]}
    with pytest.raises(StageFailed, match="is not a parameter"):
        finetune("smoke")
    assert dvc.calls == ["pretrain@smoke"]
    with pytest.raises(StageFailed, match=r"nowhere/\*\.jsonl"):
        workflow("base")
    assert dvc.calls == ["pretrain@smoke"], "DVC was not asked"
