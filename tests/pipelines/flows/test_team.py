"""A run in parts, each handed to a free worker."""

import contextlib
import uuid
from datetime import timedelta
from types import SimpleNamespace

import httpx
import pytest
from prefect.client.schemas.objects import FlowRun
from prefect.exceptions import ObjectNotFound, PrefectHTTPStatusError
from prefect.states import Completed, Crashed, Failed, Running, Scheduled
from prefect.types._datetime import now

from pipelines.flows import server
from pipelines.flows import team as module
from pipelines.versioning import workspace
from pipelines.versioning.dvc_runner import StageFailed


@pytest.mark.slow
def test_a_team_shares_the_road_and_a_part_that_fails_stops_no_other(dvc, monkeypatch):
    handed_out = []
    keys = set()
    bad = set()

    def elsewhere(name, *, parameters, work_queue_name, idempotency_key, **more):
        assert name == "part/electra" and parameters["model"] == "smoke"
        assert more["flow_run_name"] == f"part smoke {parameters['part']}".strip()
        handed_out.append((",".join(parameters["stages"]), parameters["part"], work_queue_name))
        keys.add(idempotency_key)
        state = Failed(message="no") if parameters["stages"][0] in bad else Completed()
        return FlowRun(flow_id=uuid.uuid4(), state=state)

    monkeypatch.setattr(module, "run_deployment", elsewhere)
    monkeypatch.setattr(workspace, "resolve", lambda commit: "")
    trained = ["pretrain@smoke", "glue@smoke", "squad@smoke", "ablation@a", "ablation@b"]
    assert module.team("smoke") == [*trained, "report"]
    parts = {
        (stage, "cpu")
        for stage in ("tokens@smoke", "tasks@smoke", *trained, ",".join([*trained, "report"]))
    }
    assert {(stages, queue) for stages, _, queue in handed_out} == parts and len(handed_out) == len(
        parts
    ) == len(keys)
    order = [stages for stages, _, _ in handed_out]
    assert order.index("tokens@smoke") < order.index("pretrain@smoke") < order.index("glue@smoke")
    assert [stages for stages, part, _ in handed_out if not part] == [order[-1]], (
        "the last part's results are the run's"
    )

    handed_out.clear()
    bad |= {"glue@smoke"}
    with pytest.raises(StageFailed, match="1 of 5 parts failed: glue@smoke"):
        module.team("smoke")
    assert handed_out[-1] == ("pretrain@smoke,squad@smoke,ablation@a,ablation@b", "", "cpu")
    bad |= {"pretrain@smoke", "tasks@smoke"}
    handed_out.clear()
    with pytest.raises(StageFailed, match="5 of 5 parts failed"):
        module.team("smoke")
    assert not {"glue@smoke", "squad@smoke"} & {stages for stages, _, _ in handed_out}


@pytest.mark.parametrize("code, waits", [(500, True), (404, False)])
def test_a_part_waits_for_a_server_that_has_no_time_for_an_answer(code, waits):
    """Prefect's server says 500 when its database is slow; the part is being done meanwhile."""
    request = httpx.Request("GET", "http://127.0.0.1:4200/api/flow_runs/1")
    error = httpx.HTTPStatusError(
        "", request=request, response=httpx.Response(code, request=request)
    )
    state = Failed(data=PrefectHTTPStatusError.from_httpx_error(error))
    assert module.is_server_gone(None, None, state) is waits


def run_in(state, count=1):
    return FlowRun(flow_id=uuid.uuid4(), state=state, run_count=count)


def test_a_part_whose_worker_was_killed_is_waited_for(monkeypatch):
    """It is crashed for half a minute, until another worker may take it."""
    states = iter([Crashed(), Scheduled(), Running(), Completed()])
    client = SimpleNamespace(read_flow_run=lambda _: run_in(next(states)))
    monkeypatch.setattr(module, "get_client", lambda **_: contextlib.nullcontext(client))
    monkeypatch.setattr(module, "run_deployment", lambda *_, **__: run_in(Running()))
    monkeypatch.setattr(server, "POLL", 0.0)
    monkeypatch.setattr(module, "flow_run", SimpleNamespace(id="x", tags=[]))
    given = {"commit": "", "settings": {}}
    part = ("pretrain@x", ["pretrain@x"], "gpu", None, "x", given)
    module.hand_out.fn(*part)
    states = iter([Crashed(), Failed(message="no")])
    with pytest.raises(StageFailed, match="pretrain@x: did not end well: no"):
        module.hand_out.fn(*part)

    def forget(_):
        raise ObjectNotFound(Exception("404"))

    client.read_flow_run = forget
    with pytest.raises(StageFailed, match="pretrain@x: its flow run was deleted"):
        module.hand_out.fn(*part)


def test_a_part_that_dies_too_often_or_is_left_alone_is_over():
    long_ago = Crashed(timestamp=now("UTC") - timedelta(hours=1))
    over = [(Crashed(), 1), (Crashed(), 6), (long_ago, 1), (Running(), 6), (Failed(), 1)]
    assert [module.has_ended(run_in(*case)) for case in over] == [False, True, True, False, True]
