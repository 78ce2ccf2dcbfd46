"""Several processes of a stage: how many, how their end is told, and the commands of docs/many-gpus.md at tiny size."""

import contextlib
import json
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from electra.errors import BadConfig, NonFinite, Stopped
from pipelines.cli import main
from pipelines.runtime import processes
from pipelines.runtime.processes import several, torchrun_variables
from tests.conftest import ROOT, environment
from tests.electra.pretraining.test_distributed import free_port
from tests.test_docs import commands


def test_torchruns_variables_come_from_options_then_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert torchrun_variables({}) == {} and not several({"PET_MAX_RESTARTS": "1"})
    monkeypatch.setenv("PET_NPROC_PER_NODE", "4")
    assert torchrun_variables({"nproc_per_node": None}) == {"PET_NPROC_PER_NODE": "4"}
    given = {"nproc_per_node": 8, "nnodes": "4", "rdzv_endpoint": "node1:29400", "max_restarts": 3}
    variables = torchrun_variables(given)
    assert variables["PET_NPROC_PER_NODE"] == "8" and several(variables)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert torchrun_variables({}) == variables, "as they pass through DVC"


@pytest.mark.parametrize(
    ("option", "value", "sentence"),
    [
        ("nnodes", "2", "--rdzv-endpoint: is missing"),
        ("nproc_per_node", "many", "--nproc-per-node: is 'many'"),
        ("max_restarts", "-1", "--max-restarts: is '-1'"),
        ("nproc_per_node", "0", "--nproc-per-node: is '0'; expected a number from 1 to 256"),
        ("nproc_per_node", "9" * 5000, "--nproc-per-node: is '999"),
        ("nnodes", "1000000", "--nnodes: is '1000000'"),
        ("rdzv_endpoint", "a:b:c", "--rdzv-endpoint: is 'a:b:c'; expected HOST:PORT"),
        ("rdzv_endpoint", "host:70000", "--rdzv-endpoint: is 'host:70000'"),
    ],
)
def test_a_number_of_processes_that_is_none_is_refused(option: str, value: str, sentence: str) -> None:
    with pytest.raises(BadConfig, match=sentence):
        torchrun_variables({option: value})


def failure(code: int, sentence: str = "") -> Any:
    return SimpleNamespace(
        exitcode=code, message=sentence, error_file_data={"x": 1} if sentence else {}, signal_name=lambda: "SIGKILL"
    )


@pytest.mark.parametrize(
    ("failures", "code", "sentence"),
    [
        ({0: failure(75, "another process has ended"), 1: failure(-9)}, 75, "process 1 was ended by SIGKILL; run the"),
        ({0: failure(75, "another process has ended"), 1: failure(74, "disk full")}, 74, "error: disk full"),
        ({0: failure(-15), 1: failure(-9)}, 75, "process 1 was ended by SIGKILL; run the"),
        ({0: failure(75, "stopped by signal 15"), 1: failure(-15)}, 75, "error: stopped by signal 15"),
        ({0: failure(70)}, 70, ""),  # a bug has shown its traceback
    ],
)
def test_the_first_cause_is_told_once(failures, code, sentence, capsys):
    assert processes.explain(failures, "pretrain-x") == code
    told = capsys.readouterr().err
    assert sentence in told and told.count("error: ") == bool(sentence)


def launched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give this process the environment of one of two that torch elastic has started."""
    for name, value in {"TORCHELASTIC_RUN_ID": "x", "WORLD_SIZE": "2"}.items():
        monkeypatch.setenv(name, value)


def test_a_process_tells_its_mistake_to_the_launcher(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(tmp_path / "error.json"))
    processes.report(NonFinite("step 2", "loss nan"))  # a variable left over: there was no launch
    assert capsys.readouterr().err == "error: step 2: loss nan\n" and not (tmp_path / "error.json").exists()
    launched(monkeypatch)
    processes.report(NonFinite("step 3", "loss nan"))
    assert json.loads((tmp_path / "error.json").read_text())["message"]["message"] == "step 3: loss nan"
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("error", "code"), [(BadConfig("x", "is 64"), 64), (Stopped("x", "another has ended"), 0)])
def test_a_mistake_is_told_again_after_a_restart_and_a_stop_is_not(error, code, tmp_path, monkeypatch):
    launched(monkeypatch)
    attempts = [tmp_path / f"attempt_{number}" / "1" / "error.json" for number in range(2)]
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(attempts[0]))
    assert processes.earlier_mistake() == 0
    processes.report(error)
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(attempts[1]))
    assert main(["pretrain", "smoke"]) == code if code else processes.earlier_mistake() == 0
    assert attempts[1].exists() == bool(code)


@pytest.fixture
def ready(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose rows are made; its model takes 60 steps."""
    monkeypatch.chdir(project)
    assert main(["corpus", "smoke"]) == main(["tokens", "smoke"]) == 0
    (project / "params.yaml").write_text((project / "params.yaml").read_text().replace("steps: 20", "steps: 60", 1))
    return project


def start(project: Path, *options: str) -> subprocess.Popen[str]:
    words = [sys.executable, "-m", "pipelines", "pretrain", "smoke", *options]
    return subprocess.Popen(words, cwd=project, env=environment(project), stderr=subprocess.PIPE, text=True)


def kill_second(process: subprocess.Popen[str], runs: Path, after: str) -> list[psutil.Process]:
    """Kill the second process of a run once a file of it is there; returns all of them."""
    deadline = time.monotonic() + 120
    while not list(runs.glob(after)) and time.monotonic() < deadline:
        time.sleep(0.05)
    workers = [child for child in psutil.Process(process.pid).children(recursive=True) if rank(child)]
    next(child for child in workers if rank(child) == "1").kill()
    return workers


def rank(process: psutil.Process) -> str:
    with contextlib.suppress(psutil.Error):
        return process.environ().get("RANK", "") if "pretrain" in process.cmdline() else ""
    return ""


@pytest.mark.slow
def test_the_documented_commands_one_machine_with_a_dead_process_then_two(ready: Path) -> None:
    lines = [line.split() for line in commands(ROOT / "docs" / "many-gpus.md")]
    one, several = (line for line in lines if line[:2] == ["electra", "pretrain"])
    assert "--nproc-per-node" in one and {"--nnodes", "--nproc-per-node", "--rdzv-endpoint"} < {*several}
    process = start(ready, "--nproc-per-node", "2")
    workers = kill_second(process, ready / "runs" / "pretrain", "*/metrics.jsonl")
    said = process.communicate(timeout=120)[1]
    assert process.returncode == 75 and "process 1 was ended by SIGKILL; run the same command" in said, said
    assert not psutil.wait_procs(workers, timeout=10)[1]

    meet = ("--nproc-per-node", "1", "--nnodes", "2", "--rdzv-endpoint", f"127.0.0.1:{free_port()}")
    for agent in [start(ready, *meet) for _ in range(2)]:
        said = agent.communicate(timeout=240)[1]
        assert agent.returncode == 0, said
    done = json.loads((ready / "build" / "models" / "smoke" / "results.json").read_text())
    assert done["step"] == 60 and (ready / "build" / "models" / "smoke" / "generator").is_dir()


@pytest.mark.slow
def test_a_death_is_restarted_from_the_last_checkpoint_and_a_mistake_is_not(ready: Path) -> None:
    three = start(ready, "--max-restarts", "1", "--nproc-per-node", "3")
    said = three.communicate(timeout=240)[1]
    assert three.returncode == 64 and said.count("error: pretrain.batch: is 8, which 3 processes") == 1, said
    process = start(ready, "--max-restarts", "1", "--nproc-per-node", "2")
    kill_second(process, ready / "runs" / "pretrain", "*/step-5")
    said = process.communicate(timeout=240)[1]
    assert process.returncode == 0 and "resuming at step" in said, said
