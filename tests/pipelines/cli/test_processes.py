"""Several processes of a stage: how many, how their end is told, and the commands of
docs/many-gpus.md at tiny size.
"""

import contextlib
import re
import signal
import socket
import subprocess
import sys
import time
from types import SimpleNamespace
from unittest.mock import Mock

import psutil
import pytest
from torch.distributed.elastic.multiprocessing.api import SignalException
from torch.distributed.elastic.multiprocessing.errors import ProcessFailure
from torch.distributed.elastic.rendezvous import RendezvousError

from electra.errors import BadConfig, NonFinite, SourceUnreachable, Stopped
from electra.files import read_json
from pipelines.cli import main, processes
from pipelines.cli.processes import needs_several
from tests.conftest import ROOT, environment, free_port, until
from tests.pages import typed
from tests.pipelines.cli.parsing import parse

OPTIONS = {"nproc_per_node": 1, "nnodes": 1, "max_restarts": 0, "rdzv_endpoint": ""}


def test_several_processes_or_machines_are_several():
    assert not needs_several(OPTIONS | {"max_restarts": 1})
    assert needs_several(OPTIONS | {"nproc_per_node": 2})
    assert needs_several(OPTIONS | {"nnodes": 2, "rdzv_endpoint": "node1:29400"})


def test_options_of_pretrain_come_from_torchruns_variables(monkeypatch):
    options = {"nproc_per_node": 8, "nnodes": 4, "rdzv_endpoint": "node1:29400"}
    for name, value in options.items():
        monkeypatch.setenv(f"PET_{name.upper()}", str(value))
    monkeypatch.setenv("PET_MAX_RESTARTS", "")
    params = parse(["pretrain", "x", "--nnodes", "5"])
    expected = options | {"nnodes": 5, "max_restarts": 0}
    assert {key: params[key] for key in expected} == expected


@pytest.mark.parametrize(
    "given, sentence",
    [
        ({"nnodes": 2}, "--rdzv-endpoint: is missing; with several machines it is HOST:PORT"),
        ({"nproc_per_node": 2, "rdzv_endpoint": "a:70000"}, "--rdzv-endpoint: The port number"),
    ],
)
def test_machines_that_cannot_meet_are_refused(given, sentence):
    with pytest.raises(BadConfig, match=sentence):
        assert needs_several(OPTIONS | given)
        processes.launch([], OPTIONS | given, "pretrain-x")


def test_machines_that_do_not_meet_or_are_stopped_are_a_sentence(monkeypatch):
    for fault, error, sentence in (
        (RendezvousError("timed out"), SourceUnreachable, r"meet \(timed out\); give the first"),
        (SignalException("", signal.SIGTERM), Stopped, "pretrain-x: stopped by SIGTERM; run"),
    ):
        launch = Mock(side_effect=fault)
        monkeypatch.setattr("torch.distributed.launcher.api.elastic_launch", launch)
        with pytest.raises(error, match=sentence):
            processes.launch([], OPTIONS, "pretrain-x")
    monkeypatch.setattr(processes, "MEETING", 0)
    with pytest.raises(SourceUnreachable, match="nobody listens there"):
        processes.find_rendezvous("192.0.2.1", 1)


def failure(code, sentence=""):
    return SimpleNamespace(
        exitcode=code,
        message={"message": f"BadInput: {sentence}"} if sentence else "To enable traceback see",
        signal_name=lambda: "SIGKILL",
    )


ENDED = failure(75, "another process has ended")


@pytest.mark.parametrize(
    "failures, code, sentence",
    [
        ({0: ENDED, 1: failure(74, "disk full")}, 74, "error: disk full"),
        ({0: ENDED, 1: failure(-15)}, 75, "error: another process has ended"),
        ({0: failure(70)}, 70, ""),  # a bug has shown its traceback
    ],
)
def test_the_first_cause_is_told_once(failures, code, sentence, capsys):
    assert processes.explain(failures, "pretrain-x") == code
    message = capsys.readouterr().err
    assert sentence in message and message.count("error: ") == bool(sentence)


@pytest.mark.parametrize("other", [ENDED, failure(-15)])
def test_a_death_goes_before_what_it_stops(other):
    with pytest.raises(Stopped, match="pretrain-x: process 1 was ended by SIGKILL; run the same"):
        processes.explain({0: other, 1: failure(-9)}, "pretrain-x")


def test_a_process_tells_its_mistake_to_the_launcher(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(tmp_path / "error.json"))
    processes.report(NonFinite("step 2: loss nan"))  # a variable left over: there was no launch
    assert capsys.readouterr().err == "error: step 2: loss nan\n"
    assert not (tmp_path / "error.json").exists()
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "x")
    monkeypatch.setenv("WORLD_SIZE", "2")
    processes.report(NonFinite("step 3: loss nan"))
    told = ProcessFailure(0, 0, 70, str(tmp_path / "error.json"))
    assert processes.explain({0: told}, "pretrain-x") == 70
    assert capsys.readouterr().err == "error: step 3: loss nan\n"


@pytest.fixture
def ready(project, monkeypatch):
    """A project whose rows are made; its model takes 60 steps."""
    monkeypatch.chdir(project)
    assert main(["corpus", "smoke"]) == main(["tokens", "smoke"]) == 0
    set_steps(project, 60)
    return project


def set_steps(project, steps):
    """Give the model so many steps."""
    params = project / "params.yaml"
    params.write_text(re.sub(r"steps: \d+", f"steps: {steps}", params.read_text(), count=1))


def start(project, *options, before=()):
    words = [*before, sys.executable, "-m", "pipelines", "pretrain", "smoke", *options]
    return subprocess.Popen(
        words, cwd=project, env=environment(project), stderr=subprocess.PIPE, text=True
    )


def wait_until_saved(process, project):
    """Wait for the first checkpoint."""
    steps = "runs/pretrain/*/step-*"
    until(lambda: list(project.glob(steps)) or process.poll() is not None, seconds=120)


def kill_second(process, runs, after):
    """Kill the second process of a run once a file of it is there; returns all of them."""
    until(lambda: list(runs.glob(after)), 120)
    workers = workers_of(process)
    next(child for child in workers if rank(child) == "1").kill()
    return workers


def workers_of(process):
    """Return the processes that train."""
    children = psutil.Process(process.pid).children(recursive=True)
    return [child for child in children if rank(child)]


def rank(process):
    with contextlib.suppress(psutil.Error):
        return process.environ().get("RANK", "") if "pretrain" in process.cmdline() else ""
    return ""


@pytest.mark.slow
def test_the_documented_commands_one_machine_with_a_dead_process_then_two(ready):
    lines = [line.split() for line in typed(ROOT / "docs" / "many-gpus.md")]
    one, several = (line for line in lines if line[:2] == ["electra", "pretrain"])
    assert "--nproc-per-node" in one and {"--nnodes", "--nproc-per-node", "--rdzv-endpoint"} < {
        *several
    }
    process = start(ready, "--nproc-per-node", "2")
    workers = kill_second(process, ready / "runs" / "pretrain", "*/metrics.jsonl")
    error = process.communicate(timeout=120)[1]
    assert (
        process.returncode == 75 and "process 1 was ended by SIGKILL; run the same command" in error
    ), error
    assert not psutil.wait_procs(workers, timeout=10)[1]

    meet = ("--nproc-per-node", "1", "--nnodes", "2", "--rdzv-endpoint", f"127.0.0.1:{free_port()}")
    for agent in [start(ready, *meet) for _ in range(2)]:
        error = agent.communicate(timeout=240)[1]
        assert agent.returncode == 0, error
    model = ready / "build/models/smoke"
    assert read_json(model / "results.json")["step"] == 60 and (model / "generator").is_dir()


@pytest.mark.parametrize(
    "number, ignored",
    [
        (signal.SIGHUP, False),
        pytest.param(signal.SIGHUP, True, marks=pytest.mark.slow),
        pytest.param(signal.SIGUSR1, False, marks=pytest.mark.slow),
        pytest.param(signal.SIGUSR1, True, marks=pytest.mark.slow),
    ],
)
def test_a_closed_terminal_and_the_end_of_a_job_save(ready, number, ignored):
    if not ignored:
        set_steps(ready, 100_000)
    nohup = f"import os, signal, sys; signal.signal({int(number)}, signal.SIG_IGN); os.execv(sys.executable, sys.argv[1:])"
    process = start(ready, before=[sys.executable, "-c", nohup] if ignored else [])
    wait_until_saved(process, ready)
    process.send_signal(number)
    error = process.communicate(timeout=60)[1]
    assert process.returncode == (0 if ignored else 75), error
    assert ignored or f"stopped by signal {int(number)}" in error or "run the same command" in error


def test_two_processes_save_at_the_end_of_a_job(ready):
    set_steps(ready, 100_000)
    process = start(ready, "--nproc-per-node", "2")
    wait_until_saved(process, ready)
    for worker in workers_of(process):
        worker.send_signal(signal.SIGUSR1)
    process.send_signal(signal.SIGUSR1)
    error = process.communicate(timeout=120)[1]
    assert process.returncode == 75 and "Traceback" not in error, error


@pytest.fixture
def silent():
    """The address of something that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def test_a_rendezvous_port_that_is_taken_is_a_sentence(project, silent):
    process = start(project, "--nnodes", "2", "--rdzv-endpoint", silent)
    error = process.communicate(timeout=60)[1]
    assert process.returncode == 69 and error.splitlines()[-1] == (
        f"error: {silent}: something else than this program answers there; give another port"
    )


@pytest.mark.parametrize(
    "waits, number",
    [
        ("for an answer", signal.SIGTERM),
        pytest.param("for the first machine", signal.SIGINT, marks=pytest.mark.slow),
        pytest.param("for the second machine", signal.SIGTERM, marks=pytest.mark.slow),
    ],
)
def test_a_stop_while_machines_wait_for_each_other_works(project, silent, waits, number):
    other = f"192.0.2.1:{free_port()}"  # not an address of this machine
    endpoint = {"for an answer": silent, "for the first machine": other}.get(
        waits, f"127.0.0.1:{free_port()}"
    )
    process = start(project, "--nnodes", "2", "--rdzv-endpoint", endpoint)
    time.sleep(8)
    process.send_signal(number)
    error = process.communicate(timeout=15)[1]
    assert process.returncode == 75 and "Traceback" not in error, error


@pytest.mark.slow
def test_a_death_is_restarted_from_the_last_checkpoint(ready):
    three = start(ready, "--nproc-per-node", "3")
    error = three.communicate(timeout=240)[1]
    assert (
        three.returncode == 64
        and error.count("error: pretrain.batch: is 8, which 3 processes") == 1
    ), error
    process = start(ready, "--max-restarts", "1", "--nproc-per-node", "2")
    kill_second(process, ready / "runs" / "pretrain", "*/step-5")
    error = process.communicate(timeout=240)[1]
    assert process.returncode == 0 and "resuming at step" in error, error
