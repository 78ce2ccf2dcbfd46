"""Units on a Dask cluster: the same bytes as on one machine, whichever worker is lost on the way."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest

from electra.errors import BadConfig, BadInput, SourceUnreachable, Stopped, UserError
from electra.files import lock_folder, read_json
from pipelines.sources import documents
from pipelines.stages import corpus, dask_cluster, work_units
from pipelines.stages.work_units import UnitKey
from pipelines.versioning.code import code_digest
from tests.support import corpus_stage, tokens_stage
from tests.support.project import ROOT, environment, files_of, until

read_unit = corpus.read_unit
DEAD = "a worker has died"


def make(job, folder):
    if job == 99:
        raise BadInput("file:99: is bad")
    (folder / "file").write_text(f"unit {job}")
    return {"made": 1, "job": job}


def read_or_die(*job):
    """One worker is killed in the middle of a unit."""
    try:
        Path(DEAD).touch(exist_ok=False)
    except FileExistsError:
        return read_unit(*job)
    (job[-1] / "half").write_text("a unit")
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def finish(work, jobs):
    with lock_folder(work):
        return work_units.finish_units(work, UnitKey("f", "c"), make, jobs, "x", "made")


@pytest.fixture
def processes():
    started = []
    yield started
    for process in started:
        process.kill()
        process.wait()


def start(processes, folder):
    """A scheduler and two workers of their own, as on several machines; returns the scheduler's
    address once the workers have met it.
    """
    log = folder / "log"
    known = folder / "scheduler.json"
    common = [f"--scheduler-file={known}", "--no-dashboard"]
    scheduler = ["scheduler", "--host=127.0.0.1", "--port=0"]
    worker = ["worker", "--nthreads=1", "--no-nanny"]
    workers = [[*worker, f"--local-directory={folder / name}"] for name in ("one", "two")]
    for kind, *options in (scheduler, *workers):
        command = [sys.executable, "-m", f"distributed.cli.dask_{kind}", *common, *options]
        with log.open("ab") as out:
            processes.append(
                subprocess.Popen(command, env=environment(ROOT), cwd=folder, stderr=out, stdout=out)
            )
    until(lambda: log.read_text().count("Registered to:") == 2, tell=log.read_text)
    return read_json(known)["address"]


@pytest.mark.slow
def test_two_workers_of_which_one_is_killed_make_the_bytes_of_one_machine(
    tmp_path, processes, monkeypatch, capsys
):
    monkeypatch.setattr(documents, "GROUP_BYTES", 0)
    made = []
    for folder in ("alone", "cluster"):
        here = tmp_path / folder
        here.mkdir()
        monkeypatch.chdir(here)
        corpus_stage.write(here / "text")
        if folder == "cluster":
            monkeypatch.setenv(dask_cluster.VARIABLE, start(processes, tmp_path))
            monkeypatch.setattr(corpus, "read_unit", read_or_die)
        corpus_stage.run(here, corpus_stage.config(here))
        tokens_stage.run(here, here / "out", "rows")
        made.append([files_of(here / name) for name in ("out", "rows")])
    assert made[0] == made[1] and all(len(files) > 2 for files in made[0])
    said = capsys.readouterr().err
    assert " for tcp://127.0.0.1" in said and said.count("100%") == 4, said
    assert sum(process.poll() is not None for process in processes) == 1
    assert [path.parts[-3] for path in tmp_path.rglob(DEAD)] == ["cluster"]


@pytest.mark.slow
def test_the_error_of_a_unit_comes_back_whole_and_what_is_done_is_kept(tmp_path, monkeypatch):
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, local_directory=tmp_path / "dask"
    ) as local:
        monkeypatch.setenv(dask_cluster.VARIABLE, local.scheduler_address)
        with pytest.raises(BadInput, match="file:99: is bad"):
            finish(tmp_path / "work", [0, 1, 2, 99])
        assert [counts["job"] for counts in finish(tmp_path / "work", [0, 1, 2, 3])] == [0, 1, 2, 3]
        monkeypatch.setenv(dask_cluster.VARIABLE, "tcp://127.0.0.1:9")
        assert len(finish(tmp_path / "work", [0, 1, 2, 3])) == 4  # all is done: nobody is asked


def test_no_scheduler_and_no_package_are_a_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr(dask_cluster, "SECONDS", 0.5)
    for address in ("tcp://127.0.0.1:9", "nonsense://x"):
        monkeypatch.setenv(dask_cluster.VARIABLE, address)
        with pytest.raises(
            SourceUnreachable, match=f"no scheduler answers at {address}.*; start it, or unset"
        ):
            finish(tmp_path, [0])
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(BadConfig, match=r"not installed; pip install 'electra-workflow\[dask\]'"):
        finish(tmp_path, [0])


def test_a_cluster_that_fails_is_a_sentence(tmp_path, monkeypatch):
    from distributed import CancelledError, KilledWorker

    client = MagicMock()  # of a cluster whose units all fail
    monkeypatch.setattr("distributed.Client", lambda *_, **__: client)
    monkeypatch.setattr("distributed.as_completed", iter)
    (tmp_path / "mark").touch()
    killed = KilledWorker("unit", SimpleNamespace(address="a"), 3)
    for error, kind, said in (
        (killed, Stopped, "a unit's workers died, again and again"),
        (CancelledError(), SourceUnreachable, "the scheduler at a is gone; what is done is kept"),
    ):
        client.submit().result.side_effect = error
        with pytest.raises(kind, match=said):
            next(dask_cluster.run_units(abs, [1], "a", tmp_path / "mark"))


@pytest.mark.parametrize(
    "wrong, said",
    [
        ("threads", "has 2 threads; start it with --nthreads 1"),
        ("code", "runs other code"),
        ("folder", "does not see nowhere as it is"),
        ("file", r"does not see \. as it is"),
    ],
)
def test_a_worker_that_would_make_other_bytes_is_refused(tmp_path, monkeypatch, wrong, said):
    state = SimpleNamespace(nthreads=2 if wrong == "threads" else 1)
    worker = SimpleNamespace(address="tcp://a:1", state=state)
    monkeypatch.setattr("distributed.get_worker", lambda: worker)
    monkeypatch.chdir(tmp_path)
    Path(".lock").write_text("pid 1 on another" if wrong == "file" else "pid 1 on this")
    folder = "nowhere" if wrong == "folder" else "."
    code = "other" if wrong == "code" else code_digest(dask_cluster.CODE)
    with pytest.raises(UserError, match=f"worker tcp://a:1: {said}"):
        dask_cluster.run_unit((folder, ".lock", "pid 1 on this", code), abs, -1)
