"""Start a stage in several processes: their number, how they end, and the options of
docs/many-gpus.md at tiny size.
"""

import contextlib
import signal
import socket
import subprocess
import sys
import time
from types import SimpleNamespace
from unittest.mock import Mock

import psutil
import pytest
import torch
from torch.distributed.elastic.multiprocessing.api import SignalException
from torch.distributed.elastic.multiprocessing.errors import ProcessFailure
from torch.distributed.elastic.rendezvous import RendezvousError

from electra.errors import BadConfig, NonFinite, SourceUnreachable, Stopped
from electra.files import read_json
from pipelines.cli import main, processes
from pipelines.cli.processes import needs_several
from tests.support.command_lines import parse
from tests.support.project import edit, environment, free_port, until

OPTIONS = {"nproc_per_node": 1, "nnodes": 1, "max_restarts": 0, "rdzv_endpoint": ""}


def test_several_processes_or_machines_are_several():
    assert not needs_several(OPTIONS | {"max_restarts": 1})
    assert needs_several(OPTIONS | {"nproc_per_node": 2})
    assert needs_several(OPTIONS | {"nnodes": 2, "rdzv_endpoint": "node1:29400"})


def test_options_of_pretrain_come_from_torchruns_variables(monkeypatch):
    options = {"nproc_per_node": 8, "nnodes": 4, "rdzv_endpoint": "node1:29400", "max_restarts": ""}
    for name, value in options.items():
        monkeypatch.setenv(f"PET_{name.upper()}", str(value))
    params = parse(["pretrain", "x", "--nnodes", "5"])
    expected = options | {"nnodes": 5, "max_restarts": 0}
    assert {key: params[key] for key in expected} == expected


def test_machines_that_cannot_meet_are_refused(monkeypatch):
    with pytest.raises(BadConfig, match="--rdzv-endpoint: is missing; with several machines it is"):
        needs_several(OPTIONS | {"nnodes": 2})
    with pytest.raises(BadConfig, match="--rdzv-endpoint: The port number"):
        processes.launch([], OPTIONS | {"rdzv_endpoint": "a:70000"}, "pretrain-x")
    monkeypatch.setattr(processes, "MEETING", 0)
    with pytest.raises(SourceUnreachable, match="nobody listens there"):
        processes.find_rendezvous("192.0.2.1", 1)
    monkeypatch.setattr(processes, "MEETING", 60)
    monkeypatch.setattr(processes, "ANSWER", 0.1)
    monkeypatch.setattr(torch.distributed, "TCPStore", Mock(side_effect=RuntimeError))
    with (
        socket.create_server(("127.0.0.1", 0)) as other,
        pytest.raises(SourceUnreachable, match="something else than this program answers there"),
    ):
        processes.find_rendezvous(*other.getsockname())


@pytest.mark.parametrize(
    "fault, error, sentence",
    [
        (RendezvousError("timed out"), SourceUnreachable, r"meet \(timed out\); give the first"),
        (SignalException("", signal.SIGTERM), Stopped, "pretrain-x: stopped by SIGTERM; run"),
    ],
)
def test_machines_that_do_not_meet_or_are_stopped_are_a_sentence(
    fault, error, sentence, monkeypatch
):
    launch = Mock(side_effect=fault)
    monkeypatch.setattr("torch.distributed.launcher.api.elastic_launch", launch)
    with pytest.raises(error, match=sentence):
        processes.launch([], OPTIONS, "pretrain-x")


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


@pytest.mark.parametrize("other", [ENDED, failure(-15), failure(1)])
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
    edit(project / "params.yaml", "steps: 20", "steps: 60")
    return project


def never_end(project):
    """Give the model so many steps that it never ends."""
    edit(project / "params.yaml", "steps: 60", "steps: 100000")


def start(project, *options, **more):
    words = [sys.executable, "-m", "pipelines", "pretrain", "smoke", *options]
    return subprocess.Popen(
        words, cwd=project, env=environment(project), stderr=subprocess.PIPE, text=True, **more
    )


def finish(process, code, timeout=240):
    """Wait for the end of a process with an exit code, and return its errors."""
    error = process.communicate(timeout=timeout)[1]
    assert process.returncode == code and "Traceback" not in error, error
    return error


def wait_for(process, project, file):
    """Wait until a process has written a file of its run."""
    runs = project / "runs/pretrain"
    until(lambda: list(runs.glob(f"*/{file}")) or process.poll() is not None, seconds=120)


def kill_second(process):
    """Kill the second process of a run, and return all of them."""
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
def test_one_machine_with_a_dead_process_then_two_machines(ready):
    process = start(ready, "--nproc-per-node", "2")
    wait_for(process, ready, "metrics.jsonl")
    workers = kill_second(process)
    assert "process 1 was ended by SIGKILL; run the same command" in finish(process, 75)
    assert not psutil.wait_procs(workers, timeout=10)[1]

    meet = ("--nproc-per-node", "1", "--nnodes", "2", "--rdzv-endpoint", f"127.0.0.1:{free_port()}")
    for agent in [start(ready, *meet) for _ in range(2)]:
        finish(agent, 0)
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
    if ignored:  # as by nohup
        process = start(ready, preexec_fn=lambda: signal.signal(number, signal.SIG_IGN))
    else:
        never_end(ready)
        process = start(ready)
    wait_for(process, ready, "step-*")
    process.send_signal(number)
    error = finish(process, 0 if ignored else 75, timeout=60)
    assert ignored or f"stopped by signal {int(number)}" in error


def test_two_processes_save_at_the_end_of_a_job(ready):
    never_end(ready)
    process = start(ready, "--nproc-per-node", "2")
    wait_for(process, ready, "step-*")
    for worker in workers_of(process):
        worker.send_signal(signal.SIGUSR1)
    process.send_signal(signal.SIGUSR1)
    finish(process, 75)


@pytest.fixture
def silent():
    """The address of something that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.slow
def test_a_rendezvous_port_that_is_taken_is_a_sentence(project, silent):
    process = start(project, "--nnodes", "2", "--rdzv-endpoint", silent)
    assert finish(process, 69, timeout=60).splitlines()[-1] == (
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
    endpoint = {
        "for an answer": silent,
        "for the first machine": f"192.0.2.1:{free_port()}",  # not an address of this machine
        "for the second machine": f"127.0.0.1:{free_port()}",
    }[waits]
    process = start(project, "--nnodes", "2", "--rdzv-endpoint", endpoint)
    time.sleep(8)
    process.send_signal(number)
    finish(process, 75, timeout=15)


@pytest.mark.slow
def test_a_death_is_restarted_from_the_last_checkpoint(ready):
    error = finish(start(ready, "--nproc-per-node", "3"), 64)
    assert error.count("error: pretrain.batch: is 8, which 3 processes") == 1, error
    process = start(ready, "--max-restarts", "1", "--nproc-per-node", "2")
    wait_for(process, ready, "step-5")
    kill_second(process)
    assert "resuming at step" in finish(process, 0)
