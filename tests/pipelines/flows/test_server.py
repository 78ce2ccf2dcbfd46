"""A Prefect server that vanishes: the flow's work is done, and one sentence and an exit code of its own say so."""

import os
import re
import subprocess
import sys

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


def test_a_page_that_no_server_takes_is_let_go_and_its_own_errors_are_raised() -> None:
    def create(error: Exception) -> None:
        raise error

    shutdown.send(create, httpx.ConnectError("refused"))
    busy = httpx.HTTPStatusError("busy", request=httpx.Request("POST", "http://x"), response=httpx.Response(503))
    shutdown.send(create, busy)
    with pytest.raises(ValueError, match="of its own"):
        shutdown.send(create, ValueError("of its own"))


STUCK = """
import os, threading
from pipelines.flows import shutdown
threading.Thread(target=threading.Event().wait).start()  # as Prefect's threads do, it tries for ever
shutdown.SECONDS = 0.2
os.environ[shutdown.ALONE] = "1"
shutdown.limit()
"""


@pytest.mark.parametrize("read", [True, False])
def test_a_process_that_is_done_ends_whatever_threads_are_stuck_and_whoever_reads(read: bool) -> None:
    values = environment(ROOT, PREFECT_API_URL="http://127.0.0.1:9/api")
    with subprocess.Popen([sys.executable, "-c", STUCK], env=values, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        if not read:  # the worker was killed, too
            process.stderr.close()
        try:
            assert process.wait(60) == 69
            assert not read or re.fullmatch(r"error: http://127.0.0.1:9/api: the server .*\n", process.stderr.read())
        finally:
            process.kill()


def test_a_flow_whose_server_vanished_says_so_and_does_not_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    from pipelines import flows
    from pipelines.flows import training

    class Ended(Exception):
        pass

    def end(code: int) -> None:
        raise Ended(code)

    def flow(*_: object, **__: object) -> None:
        assert shutdown.ALONE in os.environ
        raise httpx.ConnectError("refused")

    monkeypatch.setattr(flows, "choose_server", lambda: None)
    monkeypatch.setattr(os, "_exit", end)
    monkeypatch.setattr(training, "pretrain", flow)
    with pytest.raises(Ended, match="69"):
        flows.start("pretrain", "x")
    assert shutdown.ALONE not in os.environ
