"""What hangs below the flow's run in MLflow, and what a dead MLflow costs."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pipelines import tracking
from pipelines.flows import steps
from pipelines.versioning import dvc_runner, workspace
from pipelines.versioning.dvc_runner import StageFailed
from tests.pipelines.flows.conftest import ABLATION, Dvc


@pytest.mark.slow
def test_stages_hang_below_the_flows_run(dvc: Dvc, monkeypatch: pytest.MonkeyPatch) -> None:
    import prefect

    from pipelines.flows.training import finetune
    from pipelines.tracking import recorder

    Path("params.yaml").write_text(ABLATION.replace("tracking: none", "tracking: mlflow"))
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
    for failures in ([StageFailed("x", "no", 65)], [StageFailed("x", "stopped", 75)] * 3):
        dvc.failures = {"pretrain@smoke": failures}
        with pytest.raises(StageFailed):
            finetune("smoke")
    assert closed == [("parent of finetune smoke", status) for status in ("FINISHED", "FAILED", "KILLED")]

    def dead(*_: Any, **__: Any) -> str:
        raise OSError("no store")

    monkeypatch.setattr(recorder, "open_parent", dead)
    dvc.parents.clear()
    assert finetune("smoke")["pretrain@smoke"] == "ran" and dvc.parents == [None] * 3


def test_mlflow_takes_a_part_of_the_last_seconds_and_does_not_decide_how_a_flow_ends(tmp_path, monkeypatch, capsys):
    from pipelines.flows import shutdown, steps
    from pipelines.tracking import recorder

    def end(*_: Any) -> None:
        order.append("MLflow")
        raise ValueError("dvc.lock is half written")

    order: list[str] = []
    monkeypatch.setattr(recorder, "open_parent", lambda *_, **__: "a run")
    monkeypatch.setattr(shutdown, "limit", lambda: order.append("the limit begins"))
    monkeypatch.setattr(tracking, "end_workflow", end)
    request, place = workspace.Request("tiny", "", ()), dvc_runner.Place(tmp_path)
    running = steps.Running(request, place, {"tracking": "mlflow"})
    with steps.parent_run("pretrain", running):
        assert running.parent == "a run"
    assert order == ["the limit begins", "MLflow"]
    assert "half written" in capsys.readouterr().err
    assert tracking.WORKFLOW_SECONDS < shutdown.SECONDS / 2


def test_a_login_in_the_servers_address_is_no_tag(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "flow_run", SimpleNamespace(tags=[], ui_url="http://me:s3cret@host:4200/runs/1"))
    assert steps.tags(workspace.Request("smoke", "", ()))["prefect.url"] == "http://***@host:4200/runs/1"
