"""What is tried again, what hangs below the flow's run in MLflow, what a dead store costs."""

import uuid
from pathlib import Path
from typing import Any

import pytest

from pipelines import ROOT, tracking
from pipelines.runtime import dvc_runner, workspace
from pipelines.runtime.dvc_runner import StageFailed
from tests.pipelines.flows.conftest import ABLATION, Dvc


@pytest.mark.slow
def test_a_killed_stage_is_tried_again_and_a_mistake_is_not(dvc: Dvc) -> None:
    from pipelines.flows.pretrain import pretrain

    dvc.failures = [StageFailed("pretrain@smoke", "killed", 137), StageFailed("pretrain@smoke", "stopped", 75)]
    assert pretrain("smoke") == "ran"
    assert len(dvc.calls) == 3
    dvc.calls.clear()
    dvc.failures = [StageFailed("pretrain@smoke", "params.yaml: models.smoke.x: is not a parameter", 64)]
    with pytest.raises(StageFailed, match="is not a parameter"):
        pretrain("smoke")
    assert len(dvc.calls) == 1


@pytest.mark.slow
def test_stages_hang_below_the_flows_run(dvc: Dvc, monkeypatch: pytest.MonkeyPatch) -> None:
    import prefect

    from pipelines.flows.finetune import finetune
    from pipelines.tracking import recorder

    params = Path("params.yaml")
    params.write_text(params.read_text().replace("tracking: none", "tracking: mlflow"))
    closed: list[tuple[str, str]] = []
    opened: list[dict[str, str]] = []

    def open_parent(name: str, params: Any, key: str, facts: dict[str, str]) -> str:
        opened.append(facts)
        return f"parent of {name}"

    monkeypatch.setattr(recorder, "open_parent", open_parent)
    monkeypatch.setattr(tracking, "end_workflow", lambda run, status, *_: closed.append((run, status)))
    with prefect.tags("user:anna", "trial"):
        finetune("smoke")
    assert opened[0]["mlflow.user"] == "anna" and opened[0]["mlflow.source.type"] == "JOB"
    assert dvc.parents == ["parent of finetune smoke"] * 3
    assert closed == [("parent of finetune smoke", "FINISHED")]
    dvc.failures = [StageFailed("pretrain@smoke", "no", 65)]
    with pytest.raises(StageFailed):
        finetune("smoke")
    assert closed[1] == ("parent of finetune smoke", "FAILED")
    dvc.failures = [StageFailed("pretrain@smoke", "stopped", 75)] * 3
    with pytest.raises(StageFailed):
        finetune("smoke")
    assert closed[2] == ("parent of finetune smoke", "KILLED")


@pytest.mark.slow
def test_a_dead_tracking_store_does_not_stop_a_flow(dvc: Dvc, monkeypatch: pytest.MonkeyPatch) -> None:
    from pipelines.flows.pretrain import pretrain
    from pipelines.tracking import recorder

    def dead(*_: Any, **__: Any) -> str:
        raise OSError("no store")

    Path("params.yaml").write_text(ABLATION.replace("tracking: none", "tracking: mlflow"))
    monkeypatch.setattr(recorder, "open_parent", dead)
    assert pretrain("smoke") == "ran"
    assert dvc.parents == [None]


def test_mlflow_takes_a_part_of_the_last_seconds_and_does_not_decide_how_a_flow_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from pipelines import flows
    from pipelines.flows import shutdown, steps
    from pipelines.tracking import recorder

    def told(*_: Any) -> None:
        order.append("MLflow")
        raise ValueError("dvc.lock is half written")

    order: list[str] = []
    monkeypatch.setenv(flows.ALONE, "1")
    monkeypatch.setattr(recorder, "open_parent", lambda *_, **__: "a run")
    monkeypatch.setattr(shutdown, "limit", lambda: order.append("the limit begins"))
    monkeypatch.setattr(tracking, "end_workflow", told)
    place = dvc_runner.Place(tmp_path)
    running = steps.Running(workspace.Request("tiny", "", ()), place, None, {"tracking": "mlflow"})
    with steps.parent_run("pretrain", running):
        assert running.parent == "a run"
    assert order == ["the limit begins", "MLflow"]
    assert "half written" in capsys.readouterr().err
    assert tracking.WORKFLOW_SECONDS < shutdown.SECONDS / 2


def test_nothing_of_prefect_is_cached_or_persisted() -> None:
    from prefect.cache_policies import NO_CACHE

    from pipelines.flows import steps

    for task in (steps.check, steps.run_stage, steps.join_stage, steps.keep):
        assert task.cache_policy == NO_CACHE
        assert task.persist_result is False
    assert steps.run_stage.retries == 2
    assert str(uuid.uuid4()) and dvc_runner.ROOT == ROOT
