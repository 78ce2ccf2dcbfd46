"""A Prefect server that vanishes: the flow's work is done, and one sentence and an exit code of its
own say so.
"""

import contextlib
import http.server
import os
import re
import signal
import subprocess
import sys
import threading
from types import SimpleNamespace
from unittest.mock import Mock

import httpx
import pytest
from prefect.exceptions import ObjectNotFound
from prefect.states import Cancelled, Crashed, Failed, Running, Scheduled

from pipelines import flows
from pipelines.flows import server, training
from tests.support.project import ROOT, environment


def test_only_a_server_out_of_reach_is_one():
    wrapped = RuntimeError("the flow crashed")
    wrapped.__cause__ = httpx.ConnectError("refused")
    for error in (httpx.ReadTimeout("late"), wrapped, RuntimeError("Failed to reach API at x")):
        assert server.is_unreachable(error)
    for other in (None, ValueError("no"), httpx.InvalidURL("x")):
        assert not server.is_unreachable(other)


def test_a_page_that_no_server_takes_is_let_go_and_its_own_errors_are_raised():
    def answer(code):
        """Prefect's server says 500 when its database is slow."""
        request = httpx.Request("POST", "http://x")
        return httpx.HTTPStatusError("", request=request, response=httpx.Response(code))

    create = Mock(side_effect=[httpx.ConnectError("refused"), answer(500), answer(404)])
    server.send(create, key="x")
    server.send(create, key="x")
    with pytest.raises(httpx.HTTPStatusError):
        server.send(create, key="x")


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


@pytest.mark.parametrize(
    "end, word", [(Cancelled(), "cancelled"), (ObjectNotFound(Exception("404")), "deleted")]
)
def test_a_run_that_nobody_wants_stops_and_one_that_was_taken_for_dead_goes_on(
    monkeypatch, end, word
):
    looks = [httpx.ConnectError("refused"), Running(), Crashed(), Scheduled(), end]
    client = Mock()
    client.read_flow_run.side_effect = [
        look if isinstance(look, Exception) else SimpleNamespace(state=look) for look in looks
    ]
    stopped = threading.Event()
    kill = Mock(side_effect=lambda *_: stopped.set())
    monkeypatch.setattr(os, "kill", kill)
    monkeypatch.setenv("PREFECT__FLOW_RUN_ID", "7")
    monkeypatch.setattr(server, "flow_run", SimpleNamespace(id="7"))
    monkeypatch.setattr(server, "POLL", 0.01)
    monkeypatch.setattr(server, "get_client", lambda **_: contextlib.nullcontext(client))
    log = []
    with server.stopped_when_unwanted(log.append):
        assert stopped.wait(60)
    kill.assert_called_once_with(os.getpid(), signal.SIGTERM)
    assert [call.args[0] for call in client.set_flow_run_state.call_args_list] == ["7", "7"]
    assert log[2:] == [f"this run was {word}: it stops, and what it saved stays"]


class Ended(Exception):
    """The end of this process."""


@pytest.mark.parametrize("answer", ["raised", "returned"])
def test_a_flow_whose_server_vanished_says_so_and_does_not_crash(monkeypatch, capsys, answer):
    def flow(*_, **__):
        assert server.alone
        error = httpx.ConnectError("refused")
        if answer == "returned":
            return Failed(data=error)
        raise error

    monkeypatch.setattr(flows, "is_answering", lambda: True)
    end = Mock(side_effect=Ended)
    monkeypatch.setattr(os, "_exit", end)
    monkeypatch.setattr(training, "pretrain", flow)
    with pytest.raises(Ended):
        flows.start("pretrain", "x")
    end.assert_called_once_with(69)
    assert not server.alone and "the server has gone" in capsys.readouterr().err
