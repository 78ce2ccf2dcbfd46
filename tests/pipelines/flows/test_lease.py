"""Whose a run is: what a process that was given it asks and does (test_prefect.py has two real workers)."""

import contextlib
import threading
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from prefect.client.schemas.objects import FlowRun
from prefect.exceptions import Abort
from prefect.states import Running

from pipelines.flows import lease
from pipelines.flows.lease import ANSWER, ASKS, BEGUN, HOLDER

RUN, WHOLE = str(uuid.uuid4()), str(uuid.uuid4())


class Server:
    """What a run's labels and states are, as Prefect's server keeps them."""

    def __init__(self, **labels: Any) -> None:
        flow = uuid.uuid4()
        self.runs = {id: FlowRun(id=uuid.UUID(id), flow_id=flow, state=Running()) for id in (RUN, WHOLE)}
        self.runs[RUN].labels = {f"electra.{key}": value for key, value in labels.items()}
        self.meanwhile: Callable[[], None] = lambda: None

    @property
    def labels(self) -> dict[str, Any]:
        return self.runs[RUN].labels

    def read_flow_run(self, run: str) -> FlowRun:
        self.meanwhile()
        return self.runs[run]

    def update_flow_run_labels(self, run: str, labels: dict[str, Any]) -> None:
        self.runs[run].labels = {**self.runs[run].labels, **labels}

    def set_flow_run_state(self, run: str, state: Any, force: bool = False) -> None:
        self.runs[run].state = state


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "POLL", 0.02)
    monkeypatch.setattr(lease, "PATIENCE", 0.2)


def test_the_first_takes_a_run_at_once_and_the_next_asks_it() -> None:
    server, said = Server(), list[str]()
    assert lease.take(server, RUN, "one", said.append) == 0
    assert server.labels == {HOLDER: "one", BEGUN: 1} and not said

    def alive() -> None:
        if ASKS in server.labels:
            lease.look(quiet, RUN, "one", None, said.append)

    quiet = Server()  # the same runs, seen by the holder
    quiet.runs, server.meanwhile = server.runs, alive
    with pytest.raises(Abort):
        lease.take(server, RUN, "two", said.append)
    assert server.labels == {HOLDER: "one", BEGUN: 1, ASKS: "two", ANSWER: "two"}
    assert said[0].startswith("one had this run: waits") and said[1].startswith("one lives and does this run")


def test_a_server_that_does_not_answer_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    seen, ended = [0], threading.Event()

    def look(*_: Any) -> None:
        seen[0] += 1
        if seen[0] == 3:
            ended.set()
        raise OSError("no server")

    monkeypatch.setattr(lease, "look", look)
    monkeypatch.setattr(lease, "get_client", lambda **_: contextlib.nullcontext())
    lease.watch(RUN, "one", ended, print)
    assert seen == [3]


def test_only_a_run_of_a_worker_is_asked_about(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PREFECT__FLOW_RUN_ID", raising=False)
    monkeypatch.setattr(lease, "get_client", lambda **_: pytest.fail("there is no server to ask"))
    with lease.held(print):
        pass
