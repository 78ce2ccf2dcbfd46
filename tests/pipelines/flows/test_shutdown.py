"""A Prefect server that vanishes: the flow's work is done, and one sentence and an exit code of its own say so."""

import contextvars
import os
import subprocess
import sys
import threading
import time

import httpx
import pytest

from pipelines.flows import shutdown
from tests.conftest import ROOT, environment


def test_only_a_server_out_of_reach_is_one() -> None:
    wrapped = RuntimeError("the flow crashed")
    wrapped.__cause__ = httpx.ConnectError("refused")
    for error in (httpx.ReadTimeout("late"), wrapped, RuntimeError("Failed to reach API at x")):
        assert shutdown.unreachable(error)
    for other in (None, ValueError("no"), httpx.InvalidURL("x")):
        assert not shutdown.unreachable(other)


def test_a_page_is_not_waited_for_and_its_own_errors_are_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def leave(error: Exception) -> None:
        raise error

    shutdown.tell(leave, httpx.ConnectError("refused"))
    with pytest.raises(ValueError, match="of its own"):
        shutdown.tell(leave, ValueError("of its own"))
    place: contextvars.ContextVar[str] = contextvars.ContextVar("place")
    place.set("this run")  # as Prefect knows whose page it is
    found: list[str] = []
    shutdown.tell(lambda: found.append(place.get()))
    assert found == ["this run"]
    monkeypatch.setattr(shutdown, "TELLING", 0.1)
    started = time.monotonic()
    shutdown.tell(threading.Event().wait, 60)
    assert time.monotonic() - started < 30


STUCK = """
import threading
from pipelines.flows import shutdown
threading.Thread(target=threading.Event().wait).start()  # as Prefect's threads do, it tries for ever
shutdown.SECONDS = 0.2
shutdown.limit()
"""


def test_a_process_that_is_done_ends_even_when_threads_are_stuck() -> None:
    values = environment(ROOT, PREFECT_API_URL="http://127.0.0.1:9/api")
    done = subprocess.run(
        [sys.executable, "-c", STUCK], env=values, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 69
    assert done.stderr.splitlines() == [done.stderr.strip()] and done.stderr.startswith(
        "error: http://127.0.0.1:9/api: the server"
    )


def test_it_ends_where_nobody_reads_what_it_says() -> None:
    """The worker was killed, too."""
    values = environment(ROOT, PREFECT_API_URL="http://127.0.0.1:9/api")
    process = subprocess.Popen([sys.executable, "-c", STUCK], env=values, stderr=subprocess.PIPE)
    assert process.stderr is not None
    process.stderr.close()
    try:
        assert process.wait(60) == 69
    finally:
        process.kill()


def test_a_flow_whose_server_vanished_says_so_and_does_not_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    from pipelines import flows
    from pipelines.flows import pretrain

    class Ended(Exception):
        pass

    def end(code: int) -> None:
        raise Ended(code)

    def flow(*_: object, **__: object) -> None:
        assert flows.ALONE in os.environ
        raise httpx.ConnectError("refused")

    monkeypatch.setattr(flows, "choose_server", lambda: None)
    monkeypatch.setattr(os, "_exit", end)
    monkeypatch.setattr(pretrain, "pretrain", flow)
    with pytest.raises(Ended, match="69"):
        flows.start("pretrain", "x")
    assert flows.ALONE not in os.environ
