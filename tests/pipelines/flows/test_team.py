"""A run in parts, each handed to a free worker."""

import uuid
from typing import Any

import pytest

from pipelines.versioning import workspace
from pipelines.versioning.dvc_runner import StageFailed
from tests.pipelines.flows.conftest import Dvc


@pytest.mark.slow
def test_a_team_shares_the_road_and_a_part_that_fails_stops_no_other(dvc: Dvc, monkeypatch: pytest.MonkeyPatch) -> None:
    from prefect.client.schemas.objects import FlowRun
    from prefect.states import Completed, Failed

    from pipelines.flows import team as module
    from pipelines.flows.team import team

    asked: list[tuple[str, str, str]] = []
    keys: set[str] = set()
    bad: set[str] = set()

    def elsewhere(name: str, *, parameters: Any, work_queue_name: str, idempotency_key: str, **more: Any) -> FlowRun:
        assert name == "part/electra" and parameters["model"] == "smoke"
        assert more["flow_run_name"] == f"part smoke {parameters['part']}".strip()
        asked.append((",".join(parameters["stages"]), parameters["part"], work_queue_name))
        keys.add(idempotency_key)
        state = Failed(message="no") if parameters["stages"][0] in bad else Completed()
        return FlowRun(flow_id=uuid.uuid4(), state=state)

    monkeypatch.setattr(module, "run_deployment", elsewhere)
    monkeypatch.setattr(workspace, "resolve", lambda commit: "")
    whole = ["pretrain@smoke", "glue@smoke", "squad@smoke", "ablation@a", "ablation@b"]
    assert team("smoke") == [*whole, "report"]
    parts = {
        *(("tokens@smoke", "cpu"), ("tasks@smoke", "cpu"), ("pretrain@smoke", "gpu")),
        *(("glue@smoke", "gpu"), ("squad@smoke", "gpu"), ("arm@a/one-seed1", "gpu"), ("arm@b/two-seed1", "gpu")),
        *(("arm@a/one-seed1,ablation@a", "gpu"), ("arm@a/one-seed1,arm@b/two-seed1,ablation@b", "gpu")),
        (",".join([*whole, "report"]), "cpu"),
    }
    assert {(stages, queue) for stages, _, queue in asked} == parts and len(asked) == len(parts) == len(keys)
    order = [stages for stages, _, _ in asked]
    assert order.index("tokens@smoke") < order.index("pretrain@smoke") < order.index("glue@smoke")
    assert [stages for stages, part, _ in asked if not part] == [order[-1]], "the last part's results are the run's"

    asked.clear()
    bad |= {"arm@a/one-seed1", "glue@smoke"}
    with pytest.raises(StageFailed, match="1 of 5 parts failed: glue@smoke"):
        team("smoke")
    assert ("ablation@a", "ablation@a", "gpu") in asked, "the ablation tries an arm that failed, and notes it"
    assert asked[-1] == ("pretrain@smoke,squad@smoke,ablation@a,ablation@b", "", "cpu")
    bad |= {"pretrain@smoke", "tasks@smoke"}
    asked.clear()
    with pytest.raises(StageFailed, match="5 of 5 parts failed"):
        team("smoke")
    assert not {"glue@smoke", "squad@smoke", "arm@a/one-seed1"} & {stages for stages, _, _ in asked}
