"""The server that flows run on, and a flow from the command line."""

import contextlib
import os
import re
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest
from prefect.settings import PREFECT_API_URL
from prefect.states import Completed, Failed

from electra.errors import BadConfig
from pipelines import flows
from pipelines.flows import training
from pipelines.versioning.dvc_runner import StageFailed
from tests.conftest import git_project


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
    run = Mock(side_effect=LookupError("a bug"))
    monkeypatch.setattr(training, "pretrain", run)
    with pytest.raises(LookupError):
        flows.start("pretrain", "smoke")
    run.side_effect = [
        Completed(data={}),
        Failed(data=StageFailed("x: no", 65)),
        Failed(data=ValueError("a bug")),
    ]
    settings = {"models.smoke.pretrain.steps": 9}
    codes = [flows.start("pretrain", "smoke", given) for given in ({}, settings, {})]
    assert codes == [0, 65, 1]
    commits = [(call.kwargs["commit"], call.kwargs["settings"]) for call in run.call_args_list]
    assert commits[1:] == [("", {}), ("HEAD", settings), ("", {})]


@pytest.mark.slow
def test_a_flow_ends_well_from_the_command_line_in_a_clean_environment(tmp_path):
    """A stranger's shell, no server: exit code 0, and nothing that looks like a fault."""
    folder = git_project(tmp_path / "project")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.defpath])
    values = {
        "HOME": str(tmp_path),
        "PATH": path,
        "LANG": "C.UTF-8",
        "TERM": "xterm",
        "PYTHONPATH": str(folder),
    }

    def run_flow(name):
        command = [sys.executable, "-m", "pipelines", "flow", "pretrain", name]
        done = subprocess.run(command, cwd=folder, env=values, capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    code, text = run_flow("smoke")
    assert code == 0, text
    assert not re.search("Traceback|ERROR|error:|dvc push", text), text
    assert "20/20 steps" in text and "Finished in state Completed()" in text
    code, text = run_flow("base")
    assert code == 69 and text.count("nowhere/*.jsonl") == 1, text
    assert "Traceback" not in text
