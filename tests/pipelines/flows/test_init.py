"""The server that flows run on, and a flow from the command line."""

import contextlib
import re
from unittest.mock import Mock

import pytest
from prefect.settings import PREFECT_API_URL
from prefect.states import Completed, Failed

from electra.errors import BadConfig
from pipelines import flows
from pipelines.flows import training
from pipelines.versioning.dvc_runner import StageFailed
from tests.support.project import git_project, run


def test_the_server_is_prefect_tomls_where_it_answers(monkeypatch):
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    connect = Mock(side_effect=[contextlib.nullcontext(), ConnectionRefusedError])
    monkeypatch.setattr("socket.create_connection", connect)
    url = PREFECT_API_URL.value()
    with flows.chosen_server():
        assert PREFECT_API_URL.value() == url
    with flows.chosen_server():
        assert PREFECT_API_URL.value() is None, "Prefect starts a temporary server"
    assert connect.call_args.args == (("127.0.0.1", 4200),)


@pytest.mark.parametrize("content", [None, b"[api]\nurl = 7", b"[apj]\n", b"api = 1", b"\xff"])
def test_a_damaged_prefect_toml_is_a_sentence(tmp_path, monkeypatch, content):
    monkeypatch.setattr(flows, "ROOT", tmp_path)
    if content is not None:
        (tmp_path / "prefect.toml").write_bytes(content)
    with pytest.raises(BadConfig, match=r"prefect\.toml: names no server"):
        flows.is_answering()


def test_a_flow_ends_with_the_exit_code_of_its_failure(monkeypatch):
    monkeypatch.setattr(flows, "chosen_server", contextlib.nullcontext)
    flow = Mock(side_effect=LookupError("a bug"))
    monkeypatch.setattr(training, "pretrain", flow)
    with pytest.raises(LookupError):
        flows.start("pretrain", "smoke")
    flow.side_effect = [
        Completed(data={}),
        Failed(data=StageFailed("x: no", 65)),
        Failed(data=ValueError("a bug")),
    ]
    settings = {"models.smoke.pretrain.steps": 9}
    codes = [flows.start("pretrain", "smoke", given) for given in ({}, settings, {})]
    assert codes == [0, 65, 1]
    commits = [(call.kwargs["commit"], call.kwargs["settings"]) for call in flow.call_args_list]
    assert commits[1:] == [("", {}), ("HEAD", settings), ("", {})]


@pytest.mark.slow
def test_a_flow_ends_well_from_the_command_line_without_a_server(tmp_path):
    """Exit code 0, and nothing that looks like a fault."""
    folder = git_project(tmp_path / "project")
    done = run(folder, "-m", "pipelines", "flow", "pretrain", "smoke")
    text = done.stdout + done.stderr
    assert not re.search("Traceback|ERROR|error:|dvc push", text), text
    assert "20/20 steps" in text and "Finished in state Completed()" in text
    done = run(folder, "-m", "pipelines", "flow", "pretrain", "base", code=69)
    text = done.stdout + done.stderr
    assert text.count("nowhere/*.jsonl") == 1 and "Traceback" not in text, text
