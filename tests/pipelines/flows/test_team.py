"""A run in parts, each handed to a free worker."""

import contextlib
import uuid
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import httpx
import pytest
from prefect.client.schemas.objects import FlowRun
from prefect.exceptions import ObjectNotFound
from prefect.states import Completed, Crashed, Failed, Pending, Running, Scheduled
from prefect.types._datetime import now

from pipelines.flows import server
from pipelines.flows import team as module
from pipelines.versioning import workspace
from pipelines.versioning.dvc_runner import StageFailed
from tests.support.project import edit


@pytest.fixture
def worker(alone, monkeypatch):
    """Does every part at once. Keeps its stages, its name and its queue; those of `bad` fail."""
    worker = SimpleNamespace(parts=[], keys=set(), bad=set(), waits=[])

    def run_deployment(name, *, parameters, work_queue_name, idempotency_key, **options):
        stages = ",".join(parameters["stages"])
        assert name == "part/electra" and parameters["model"] == "smoke"
        assert options["flow_run_name"] == f"part smoke {parameters['part']}".strip()
        worker.parts.append((stages, parameters["part"], work_queue_name))
        worker.keys.add(idempotency_key)
        worker.given = parameters["given"]
        state = Failed(message="no") if stages in worker.bad else Completed()
        return FlowRun(flow_id=uuid.uuid4(), state=state)

    def submit(*work, wait_for, return_state):
        """As of a task: it does not begin if one that it waits for has failed."""
        state = Completed()
        if not all(future.state.is_completed() for future in wait_for):
            state = Pending()
        else:
            try:
                module.hand_out.fn(*work)
            except StageFailed as error:
                state = Failed(message=str(error))
        return SimpleNamespace(state=state, wait=lambda: worker.waits.append(len(worker.parts)))

    monkeypatch.setattr(module, "run_deployment", run_deployment)
    monkeypatch.setattr(module.hand_out, "submit", submit)
    monkeypatch.setattr(module, "flow_run", SimpleNamespace(id="x", tags=[]))
    return worker


def test_a_team_shares_the_road_and_a_part_that_fails_stops_no_other(worker, monkeypatch):
    resolve = Mock(return_value="")  # as without git
    monkeypatch.setattr(workspace, "resolve", resolve)
    trained = ["pretrain@smoke", "glue@smoke", "squad@smoke", "ablation@a", "ablation@b"]
    whole = ",".join([*trained, "report"])
    assert module.team.fn("smoke", commit="", hours=2) == [*trained, "report"]
    resolve.assert_called_with("HEAD")
    order = ["tokens@smoke", "pretrain@smoke", "tasks@smoke", *trained[1:]]
    assert worker.parts == [*((stage, stage, "cpu") for stage in order), (whole, "", "cpu")]
    assert worker.waits[0] == len(order), "all are handed out before one is waited for"
    assert len(worker.keys) == len(worker.parts)
    assert worker.given == {"commit": "", "settings": {}, "hours": 2, "nproc_per_node": 1}

    edit(Path("params.yaml"), ", precision: fp32", "")
    for bad, words, last in (
        ("glue@smoke", "1 of 5 .*: glue@smoke; start", ",".join([trained[0], *trained[2:]])),
        ("tokens@smoke", "5 of 5 parts failed", "tasks@smoke"),
        (whole, "results: did not end well", whole),
    ):
        worker.parts.clear()
        worker.bad = {bad}
        with pytest.raises(StageFailed, match=words):
            module.team.fn("smoke")
        assert worker.parts[-1][0] == last
    queues = {stage: queue for stage, _, queue in worker.parts}
    assert queues == dict.fromkeys([*order, whole], "cpu") | dict.fromkeys(trained, "gpu")


def test_a_part_waits_for_a_server_that_does_not_answer():
    for error, waits in ((httpx.ConnectError("refused"), True), (StageFailed("x: no"), False)):
        assert module.is_server_gone(None, None, Failed(data=error)) is waits


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
    for state, count, is_over in (
        (Crashed(), 5, False),
        (Crashed(), 6, True),
        (long_ago, 1, True),
        (Running(), 6, False),
        (Failed(), 1, True),
    ):
        assert module.has_ended(run_in(state, count)) is is_over
