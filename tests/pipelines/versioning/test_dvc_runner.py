"""The door to DVC: lines as they come, a deadline that works in threads, and nobody left behind."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest

from pipelines.versioning import dvc_runner
from pipelines.versioning.dvc_runner import Checkout, Outcome, StageFailed, child, end, text
from tests.support.project import ROOT, environment, until

HERE = Checkout(ROOT)
SLEEPER = "import time, sys; print('up', flush=True); time.sleep(60)"
STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"
PARENT = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', {code!r}]); {then}"


def python(code):
    return [sys.executable, "-c", code]


def test_outcome_reads_what_dvc_says():
    outcome = Outcome()
    lines = """Running stage 'pipelines/dvc.yaml:corpus@sample_world':
Stage 'report' is cached - skipping run, checking out outputs
error: corpora.x: there is no such file
ERROR: failed to reproduce 'x': failed to run: python -m pipelines pretrain base, exited with 69
To track the changes with git, run:
\tgit add pipelines/dvc.lock
Use `dvc push` to send your updates to remote storage.""".splitlines()
    logged = list(filter(outcome.read, lines))
    assert logged == lines[:2], "DVC's advice is for a person at a terminal"
    assert outcome.ran == ["corpus@sample_world"]
    assert outcome.errors[0] == "corpora.x: there is no such file"
    assert outcome.exit_code == 69


def test_only_what_the_user_must_correct_is_not_worth_a_retry():
    assert all(StageFailed("x: y", code).for_the_user for code in (64, 65, 69))
    assert not any(StageFailed("x: y", code).for_the_user for code in (70, 75, 137, -9, 255))


def test_text_is_what_a_terminal_would_show():
    assert text(b"10%\r20%\r\x1b[32m30%\x1b[0m done \n") == "30% done"
    assert text(b"\xff") == "\ufffd"


def test_a_deadline_works_in_a_thread_and_on_a_silent_child():
    with ThreadPoolExecutor() as pool:
        stopped = pool.submit(dvc_runner.run, python(SLEEPER), "x", HERE, seconds=0.5)
        with pytest.raises(StageFailed, match="its time limit") as caught:
            stopped.result(20)
    assert caught.value.exit_code == 75
    assert caught.value.for_the_user, "another try would have the same limit"


def test_grandchildren_end_with_the_block_though_their_parent_is_dead():
    with child(python(PARENT.format(code=SLEEPER, then="pass")), HERE) as process:
        assert process.stdout.readline() == b"up\n"
        process.wait(20)
        assert running(SLEEPER)
    assert not running(SLEEPER)


@pytest.mark.slow
@pytest.mark.parametrize("way", [signal.SIGKILL, signal.SIGTERM])
def test_a_stage_saves_when_the_flow_is_stopped(tmp_path, way):
    """Even if the flow is killed, or its whole group is while the stage is saving."""
    saved = tmp_path / "saved"
    stage = (
        "import pathlib, signal, sys, time\n"
        "def save(*_):\n"
        f"    time.sleep(2); pathlib.Path({str(saved)!r}).touch(); sys.exit()\n"
        "signal.signal(signal.SIGTERM, save)\n"
        "print('up', flush=True); time.sleep(60)"
    )
    between = PARENT.format(code=stage, then="import time; time.sleep(60)")
    engine = (
        "import signal, sys\nfrom pathlib import Path\n"
        "from pipelines.versioning.dvc_runner import Checkout, child\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))\n"
        f"with child([sys.executable, '-c', {between!r}], Checkout(Path.cwd())) as process:\n"
        "    for line in process.stdout:\n"
        "        print(line.decode(), end='', flush=True)\n"
    )
    with subprocess.Popen(
        python(engine),
        stdout=subprocess.PIPE,
        env=environment(ROOT),
        text=True,
        start_new_session=True,
    ) as process:
        while process.stdout.readline() != "up\n":
            pass
        os.killpg(process.pid, way)
        time.sleep(1)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    until(saved.exists, 60)
    until(lambda: not running(stage), 60)


def test_a_process_that_does_not_stop_when_asked_is_ended():
    with subprocess.Popen(
        python(STUBBORN), stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        process.stdout.readline()
        end(process.pid, patience=0.5)
        assert process.wait(20) == -signal.SIGKILL


def running(code):
    """Return the processes that run this code."""
    pids = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if code in process.cmdline() and process.status() != psutil.STATUS_ZOMBIE:
                pids.append(process.pid)
    return pids


# ------------------------------------------------------------------ with a real DVC


@pytest.fixture
def small(tmp_path):
    """A folder with two DVC stages, the second of which fails."""
    (tmp_path / ".dvc").mkdir()
    (tmp_path / ".dvc" / "config").write_text("[core]\n    no_scm = true\n    analytics = false\n")
    (tmp_path / "dvc.yaml").write_text(
        "stages:\n"
        "  good: {cmd: 'echo hello; echo $HANDED > out', outs: [out]}\n"
        "  bad: {cmd: 'echo \"error: params.yaml: models.x: no\" >&2; exit 64'}\n"
    )
    return tmp_path


def test_a_stage_runs_then_is_cached(small):
    logged = []
    outcome = dvc_runner.repro("good", Checkout(small, {"HANDED": "down"}), logged.append)
    assert outcome.ran == ["good"]
    assert "hello" in "\n".join(logged)
    assert (small / "out").read_text() == "down\n"
    assert dvc_runner.repro("good", Checkout(small), logged.append).ran == []


def test_a_failure_is_the_stages_own_sentence_and_code(small):
    with pytest.raises(StageFailed) as caught:
        dvc_runner.repro("bad", Checkout(small))
    assert str(caught.value) == "bad: params.yaml: models.x: no" and caught.value.exit_code == 64


@pytest.mark.slow
@pytest.mark.parametrize("damaged", [".dvc/tmp/rwlock", ".dvc-site/repo/*/links/cache.db"])
def test_damage_to_dvcs_own_state_is_told_with_its_repair(small, damaged):
    checkout = Checkout(small, {"DVC_SITE_CACHE_DIR": str(small / ".dvc-site")})
    dvc_runner.repro("good", checkout)
    (file,) = small.glob(damaged)
    file.write_bytes(b"\x84" * 200)
    with pytest.raises(StageFailed, match=r"delete \.dvc/tmp/rwlock and the folders"):
        dvc_runner.repro("good", checkout)
    (small / ".dvc/tmp/rwlock").unlink()
    for folder in (small / ".dvc-site/repo").iterdir():
        shutil.rmtree(folder)
    assert dvc_runner.repro("good", checkout).ran == []
