"""Units of work in several processes."""

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from electra.errors import BadConfig, BadInput, Stopped
from electra.workers import VARIABLE, rank, run_units, worker_count
from tests.support.project import ROOT, environment, run


def fail(number):
    if number == 3:
        raise BadInput("file:3: is bad")
    return number


def own_process(number):
    return os.getpid()


def die(number):
    if number == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.1)
    return number


@pytest.mark.parametrize("workers", [1, 2])
def test_every_unit_is_done_once_and_an_error_comes_back_whole(workers):
    assert sorted(run_units(abs, range(-2, 0), workers)) == [(0, 2), (1, 1)]
    with pytest.raises(BadInput, match="file:3: is bad"):
        list(run_units(fail, range(6), workers))
    for count in (1, 2):
        processes = [process for _, process in run_units(own_process, range(count), workers)]
        assert (os.getpid() in processes) == (1 in {workers, count})


def test_a_killed_worker_is_a_sentence():
    with pytest.raises(Stopped, match=r"killed from outside.*with a lower finetune\.workers"):
        list(run_units(die, range(6), 2, limit="finetune.workers"))


PROGRAM = """
import time
from electra.workers import run_units

if __name__ == "__main__":
    for _ in run_units(time.sleep, [0, 60, 60], 2):
        print(flush=True)
"""


def test_workers_die_with_their_parent(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, str(tmp_path / "program.py")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment(ROOT)) as parent:
        parent.stdout.readline()
        workers = psutil.Process(parent.pid).children(recursive=True)
        parent.kill()
    _, alive = psutil.wait_procs(workers, timeout=20)
    assert len(workers) >= 2 and not alive


STOPPED = """
import multiprocessing.forkserver, os, signal, threading
from electra.errors import Stopped
from electra.stopping import Interrupted, interruptible
from electra.workers import run_units

if __name__ == "__main__":
    os.setpgrp()
    def stop():
        os.kill(WHO, signal.NUMBER)
    threading.Timer(0.3, stop).start()
    try:
        with interruptible():
            list(run_units(abs, [1, 2, 3], 2, preload=["slow"]))
    except (Interrupted, Stopped) as error:
        print(error)
"""


@pytest.mark.parametrize(
    "who, number, sentence",
    [
        ("os.getpid()", "SIGTERM", "stopped by signal 15"),
        ("0", "SIGINT", "stopped by signal 2"),  # Ctrl-C: every process gets it
        (
            "multiprocessing.forkserver._forkserver._forkserver_pid",
            "SIGTERM",
            "worker: was killed from outside",
        ),
    ],
)
def test_a_stop_while_workers_start_is_quiet(tmp_path, who, number, sentence):
    program = STOPPED.replace("WHO", who).replace("NUMBER", number)
    (tmp_path / "program.py").write_text(program)
    (tmp_path / "slow.py").write_text("import time\ntime.sleep(0.6)\n")
    path = os.pathsep.join([str(tmp_path), str(ROOT)])
    done = run(tmp_path, "program.py", code=None, PYTHONPATH=path)
    assert done.stdout.startswith(sentence) and not done.stderr, done


def test_the_number_of_workers_is_the_machines_business(monkeypatch):
    monkeypatch.setenv(VARIABLE, "4")
    assert worker_count() == 4
    monkeypatch.delenv(VARIABLE)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {5, 7, 9})
    assert worker_count() == 3
    for bad in ("0", "many", "9" * 5000):
        monkeypatch.setenv(VARIABLE, bad)
        with pytest.raises(BadConfig, match=VARIABLE):
            worker_count()


def test_a_rank_without_a_launch_is_none(monkeypatch):
    monkeypatch.setenv("RANK", "1")
    assert rank() == (0, 1)
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert rank() == (0, 1)
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(BadConfig, match="needs valid values of MASTER_ADDR, MASTER_PORT; start"):
        rank()
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.setenv("MASTER_PORT", "29500")
    assert rank() == (1, 2)
    for bad in ("-2", "9" * 5000):
        monkeypatch.setenv("RANK", bad)
        with pytest.raises(BadConfig, match="valid values of RANK;"):
            rank()
