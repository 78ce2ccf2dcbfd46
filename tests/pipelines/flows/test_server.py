"""A Prefect server that vanishes: the flow's work is done, and one sentence and an exit code of its
own say so.
"""

import http.server
import os
import re
import subprocess
import sys
import threading
from types import SimpleNamespace
from unittest.mock import Mock

import httpx
import pytest
from prefect.exceptions import ObjectNotFound
from prefect.states import Cancelled, Running

from pipelines.flows import server
from tests.conftest import ROOT, environment


def test_only_a_server_out_of_reach_is_one():
    wrapped = RuntimeError("the flow crashed")
    wrapped.__cause__ = httpx.ConnectError("refused")
    for error in (httpx.ReadTimeout("late"), wrapped, RuntimeError("Failed to reach API at x")):
        assert server.is_unreachable(error)
    for other in (None, ValueError("no"), httpx.InvalidURL("x")):
        assert not server.is_unreachable(other)


def test_a_page_that_no_server_takes_is_let_go_and_its_own_errors_are_raised():
    def create(error):
        raise error

    server.send(create, httpx.ConnectError("refused"))
    busy = httpx.HTTPStatusError(
        "busy", request=httpx.Request("POST", "http://x"), response=httpx.Response(503)
    )
    server.send(create, busy)
    with pytest.raises(ValueError, match="of its own"):
        server.send(create, ValueError("of its own"))


STUCK = """
import os, threading, time
from pipelines.flows import server
threading.Thread(target=threading.Event().wait).start()  # as Prefect's threads do, it tries for ever
server.SECONDS = 0.2
server.alone = True
server.end_if_unreachable()
if {answers}:
    time.sleep(3)
    os._exit(0)
"""


@pytest.mark.parametrize("read", [True, False])
def test_a_process_that_is_done_ends_whatever_threads_are_stuck_and_whoever_reads(read):
    values = environment(ROOT, PREFECT_API_URL="http://127.0.0.1:9/api")
    command = [sys.executable, "-c", STUCK.format(answers=False)]
    with subprocess.Popen(command, env=values, stderr=subprocess.PIPE, text=True) as process:
        if not read:  # the worker was killed, too
            process.stderr.close()
        try:
            assert process.wait(60) == 69
            assert not read or re.fullmatch(
                r"error: http://127.0.0.1:9/api: the server .*\n", process.stderr.read()
            )
        finally:
            process.kill()


def test_a_process_whose_server_answers_is_never_ended():
    class Healthy(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"true")

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Healthy) as healthy:
        threading.Thread(target=healthy.serve_forever, daemon=True).start()
        values = environment(ROOT, PREFECT_API_URL=f"http://127.0.0.1:{healthy.server_port}/api")
        command = [sys.executable, "-c", STUCK.format(answers=True)]
        assert subprocess.run(command, env=values, timeout=120).returncode == 0
        healthy.shutdown()


def test_a_deleted_run_is_not_a_server_out_of_reach():
    client = Mock()
    client.read_flow_run.side_effect = [
        ObjectNotFound(Exception("404")),
        *(SimpleNamespace(state=state) for state in (Cancelled(), Running())),
        httpx.ConnectError("refused"),
    ]
    states = [server.current_state(client, "x") for _ in range(3)]
    assert states == ["DELETED", "CANCELLED", "RUNNING"]
    with pytest.raises(httpx.ConnectError):
        server.current_state(client, "x")


def test_a_flow_whose_server_vanished_says_so_and_does_not_crash(monkeypatch):
    from pipelines import flows
    from pipelines.flows import training

    class Ended(Exception):
        pass

    def end(code):
        raise Ended(code)

    def flow(*_, **__):
        assert server.alone
        raise httpx.ConnectError("refused")

    monkeypatch.setattr(flows, "is_answering", lambda: True)
    monkeypatch.setattr(os, "_exit", end)
    monkeypatch.setattr(training, "pretrain", flow)
    with pytest.raises(Ended, match="69"):
        flows.start("pretrain", "x")
    assert not server.alone
