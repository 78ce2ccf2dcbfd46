"""Several processes of a stage: how many, how their end is told, and the commands of docs/many-gpus.md at tiny size."""

import contextlib
import json
import shlex
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from electra.errors import BadConfig, NonFinite, Stopped, UserError
from pipelines.cli import main
from pipelines.runtime import processes
from pipelines.runtime.processes import Layout
from tests.conftest import ROOT, environment
from tests.electra.pretraining.test_distributed import free_port
from tests.test_docs import commands


def test_the_layout_comes_from_options_then_from_torchruns_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not Layout.read({}).several
    monkeypatch.setenv("PET_NPROC_PER_NODE", "4")
    assert Layout.read({"nproc_per_node": None}) == Layout(nproc_per_node=4)
    assert Layout.read({"nproc_per_node": "2"}).nproc_per_node == 2
    with pytest.raises(BadConfig, match="rdzv-endpoint"):
        Layout.read({"nnodes": "2"})
    with pytest.raises(BadConfig, match="--nproc-per-node: is 'many'"):
        Layout.read({"nproc_per_node": "many"})


def test_a_layout_goes_through_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Layout().variables() == {}
    layout = Layout(nproc_per_node=8, nnodes=4, rdzv_endpoint="node1:29400", max_restarts=3)
    for name, value in layout.variables().items():
        monkeypatch.setenv(name, value)
    assert Layout.read({}) == layout
    with pytest.raises(BadConfig, match="--max-restarts: is '-1'"):
        Layout.read({"max_restarts": "-1"})


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
def test_the_first_cause_is_told_once(
    failures: dict[int, Any], code: int, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert processes.explain(failures, "pretrain-x") == code
    told = capsys.readouterr().err
    assert sentence in told and told.count("error: ") == bool(sentence)


def launched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give this process the environment of one of two that torch elastic has started."""
    for name, value in {"TORCHELASTIC_RUN_ID": "x", "WORLD_SIZE": "2"}.items():
        monkeypatch.setenv(name, value)


def test_a_process_tells_its_mistake_to_the_launcher(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(tmp_path / "error.json"))
    processes.report(NonFinite("step 2", "loss nan"))  # a variable left over: there was no launch
    assert capsys.readouterr().err == "error: step 2: loss nan\n" and not (tmp_path / "error.json").exists()
    launched(monkeypatch)
    processes.report(NonFinite("step 3", "loss nan"))
    assert json.loads((tmp_path / "error.json").read_text())["message"]["message"] == "step 3: loss nan"
    assert capsys.readouterr().err == ""


def test_the_launcher_says_the_mistake_as_one_process_would(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from torch.distributed.elastic.multiprocessing.errors import ProcessFailure

    error = BadConfig("pretrain.batch", "is 64", "a multiple of 3")
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(tmp_path / "error.json"))
    launched(monkeypatch)
    processes.report(error)
    failed = ProcessFailure(local_rank=1, pid=1, exitcode=error.exit_code, error_file=str(tmp_path / "error.json"))
    assert processes.explain({1: failed}, "pretrain-x") == error.exit_code
    assert capsys.readouterr().err == f"error: {error}\n"


@pytest.mark.parametrize(("error", "code"), [(BadConfig("x", "is 64"), 64), (Stopped("x", "another has ended"), 0)])
def test_a_mistake_is_told_again_after_a_restart_and_a_stop_is_not(
    error: UserError, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launched(monkeypatch)
    attempts = [tmp_path / f"attempt_{number}" / "1" / "error.json" for number in range(2)]
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(attempts[0]))
    assert processes.told_before() == 0
    processes.report(error)
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(attempts[1]))
    assert main(["pretrain", "smoke"]) == code if code else processes.told_before() == 0
    assert attempts[1].exists() == bool(code)


def tiny(command: str, port: str) -> list[str]:
    """A documented command with the smoke model, and two processes at most."""
    words = shlex.split(command)
    after = {"--nproc-per-node": "1" if "--nnodes" in words else "2", "--nnodes": "2"}
    after["--rdzv-endpoint"] = f"127.0.0.1:{port}"
    return [sys.executable, "-m", "pipelines", "pretrain", "smoke"] + [
        word for name, value in after.items() if name in words for word in (name, value)
    ]


@pytest.mark.slow
def test_the_documented_commands_one_machine_with_a_dead_process_then_two(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, several = (line for line in commands(ROOT / "docs" / "many-gpus.md") if line.startswith("python "))
    monkeypatch.chdir(project)
    assert main(["corpus", "smoke"]) == main(["tokens", "smoke"]) == 0
    (project / "params.yaml").write_text((project / "params.yaml").read_text().replace("steps: 20", "steps: 60", 1))
    port = free_port()

    def start(command: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            tiny(command, port), cwd=project, env=environment(project), stderr=subprocess.PIPE, text=True
        )

    process = start(one)
    curve = project / "runs" / "pretrain-smoke" / "metrics.jsonl"
    deadline = time.monotonic() + 120
    while not (curve.exists() and curve.stat().st_size) and time.monotonic() < deadline:
        time.sleep(0.1)
    workers = [child for child in psutil.Process(process.pid).children(recursive=True) if rank(child)]
    next(child for child in workers if rank(child) == "1").kill()
    told = process.communicate(timeout=120)[1]
    assert process.returncode == 75 and "process 1 was ended by SIGKILL; run the same command" in told, told
    assert not psutil.wait_procs(workers, timeout=10)[1]

    agents = [start(several) for _ in range(2)]
    for agent in agents:
        told = agent.communicate(timeout=240)[1]
        assert agent.returncode == 0, told
    done = json.loads((project / "results" / "smoke" / "pretrain.json").read_text())
    assert done["step"] == 60 and (project / "build" / "models" / "smoke" / "generator").is_dir()


@pytest.mark.slow
def test_a_death_is_restarted_from_the_last_checkpoint_and_a_mistake_is_not(project: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(project)
    assert main(["corpus", "smoke"]) == main(["tokens", "smoke"]) == 0
    (project / "params.yaml").write_text((project / "params.yaml").read_text().replace("steps: 20", "steps: 60", 1))

    def start(count: int) -> subprocess.Popen[str]:
        words = [sys.executable, "-m", "pipelines", "pretrain", "smoke", "--nproc-per-node", str(count)]
        words += ["--max-restarts", "1"]
        return subprocess.Popen(words, cwd=project, env=environment(project), stderr=subprocess.PIPE, text=True)

    three = start(3)
    told = three.communicate(timeout=240)[1]
    assert three.returncode == 64 and told.count("error: pretrain.batch: is 8, which 3 processes") == 1, told

    process, run = start(2), project / "runs" / "pretrain-smoke"
    deadline = time.monotonic() + 120
    while not (run / "step-5").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    next(child for child in psutil.Process(process.pid).children(recursive=True) if rank(child) == "1").kill()
    told = process.communicate(timeout=240)[1]
    assert process.returncode == 0 and "resuming at step" in told, told


def rank(process: psutil.Process) -> str:
    with contextlib.suppress(psutil.Error):
        return process.environ().get("RANK", "") if "pretrain" in process.cmdline() else ""
    return ""
