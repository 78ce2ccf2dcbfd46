"""The events of a stage, and its waiting for MLflow."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from electra.errors import Stopped
from electra.files import write_atomic
from electra.stopping import Interrupted
from pipelines import tracking
from pipelines.tracking import Tracker, open_run, recorder, uploader
from pipelines.tracking.event_log import EventLog
from tests.conftest import ROOT
from tests.pipelines.tracking.events import points, runs, stage


def test_without_tracking_everything_is_a_no_op(tmp_path):
    with open_run("glue", "tiny", tracking="none", run_folder=tmp_path / "runs") as tracker:
        tracker.metrics(1, {"a": 1.0})
        tracker.artifact(tmp_path / "nothing.png")
        with tracker.child("cola", {}) as child:
            child.summary({"a": 1.0})
    assert not (tmp_path / "runs").exists()


def test_a_tracker_reports_what_happened():
    events = []
    tracker = Tracker(SimpleNamespace(send=events.append))
    settings = {"rate": {"peak": 1e-3, "phases": {}}, "d": [1, 2], "e": "x", "f": None}
    with tracker.child("cola", settings) as child, child.child("seed1", {}) as seed:
        seed.metrics(3, {"loss": 1, "text": "dropped"})
    order = ["open cola", "open cola/seed1", "metrics cola/seed1", "close cola/seed1", "close cola"]
    assert [f"{event['what']} {event['run']}" for event in events] == order
    params = {"rate.peak": "0.001", "rate.phases": "{}", "d": "[1, 2]", "e": "x", "f": "null"}
    assert events[0]["params"] == params
    assert events[2]["values"] == {"loss": 1.0}
    stops = (Stopped("x: stopped"), KeyboardInterrupt(), Interrupted(15))
    for error, status in (*((stop, "KILLED") for stop in stops), (OSError(), "FAILED")):
        with pytest.raises(type(error)), tracker.child("a", {}):
            raise error
        assert events[-1]["status"] == status
        assert events[-1]["error"].startswith(type(error).__name__)


def test_a_login_in_the_address_of_the_store_is_not_written(tmp_path, monkeypatch, no_uploader):
    store = "http://me:s3cret@127.0.0.1:9"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store)
    with (
        pytest.raises(OSError),
        open_run("glue", "x", tracking="mlflow", run_folder=tmp_path / "runs/x"),
    ):
        raise OSError(f"no answer from {store}")
    (log,) = (tmp_path / "runs" / tracking.FOLDER).iterdir()
    text = (log / "events.jsonl").read_text()
    assert "***@127" in text and "s3cret" not in text
    addresses = []
    monkeypatch.setattr("mlflow.set_tracking_uri", addresses.append)
    experiment = SimpleNamespace(experiment_id="1", lifecycle_stage="active")
    client = SimpleNamespace(get_experiment_by_name=lambda name: experiment)
    monkeypatch.setattr("mlflow.MlflowClient", lambda: client)
    recorder.client(EventLog(log).read(0, 1)[0][0]["uri"])
    assert addresses == [store], "whoever sends it has the login"


def test_a_record_that_waits_keeps_files_and_store_when_its_project_moves(
    tmp_path, monkeypatch, no_uploader
):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "sqlite:///mlflow.db")
    old = tmp_path / "old"
    old.mkdir()
    (old / "a.csv").write_text("of this run")
    with open_run("glue", "x", tracking="mlflow", run_folder=old / "runs/x") as tracker:
        tracker.artifact(old / "a.csv")
    write_atomic(old / "a.csv", "of the next run")
    (log,) = old.rename(tmp_path / "new").glob(f"runs/{tracking.FOLDER}/*")
    opening, file, _ = EventLog(log).read(0, 9)[0]
    assert Path(file["file"]).name == "a.csv" and Path(file["file"]).read_text() == "of this run"
    monkeypatch.setattr(tracking, "ROOT", tmp_path / "new")
    assert tracking.uri(opening["uri"]) == f"sqlite:///{tmp_path}/new/mlflow.db"


def test_a_forked_worker_sends_nothing(tmp_path, monkeypatch):
    sender = tracking.Sender(tmp_path / "log")
    monkeypatch.setattr(os, "getpid", lambda: 0)
    sender.send({"what": "open"})
    assert not (tmp_path / "log").exists()


def test_an_uploader_that_takes_long_is_not_waited_for(tmp_path, monkeypatch, capsys):
    started = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(60)"], stdin=subprocess.PIPE
    )
    monkeypatch.setattr(tracking, "dvc_hashes", lambda folder: {"ours": {}, "theirs": {}})
    monkeypatch.setattr(tracking, "start_uploader", lambda folder: started)
    monkeypatch.setattr(tracking, "WORKFLOW_SECONDS", 0.1)
    try:
        tracking.end_workflow("a-run", "FINISHED", tmp_path, ["ours"])
        assert started.poll() is None  # it goes on, and what it has not sent stays in the log
        text = next((tmp_path / "runs").rglob("*.jsonl")).read_text()
        assert "a-run" in text and '"hashes": {"ours": {}}' in text
        monkeypatch.setattr(tracking, "CLOSE_SECONDS", 0.1)
        with open_run("glue", "x", tracking="mlflow", run_folder=tmp_path / "runs/x"):
            pass
        assert started.poll() is not None, "a stage leaves none behind"
        assert "MLflow did not answer in time; `electra sync` sends" in capsys.readouterr().err
    finally:
        started.kill()
        started.wait()


def test_a_relative_store_is_one_in_the_projects_folder(monkeypatch):
    absolute = [
        "sqlite:////data/m.db",
        "/data/mlruns",
        "file:///data/mlruns",
        "http://host:5000",
        "postgresql+psycopg2://me@host/db",
        "databricks",
    ]
    database = f"sqlite:///{ROOT}/mlflow.db"
    stores = {"": database, "sqlite:///mlflow.db": database, "./mlruns": f"{ROOT}/mlruns"}
    for address, expected in (stores | {store: store for store in absolute}).items():
        monkeypatch.setenv("MLFLOW_TRACKING_URI", address)
        assert tracking.uri() == expected


def test_what_a_person_starts_by_hand_is_not_mixed_with_what_others_do(
    monkeypatch, tmp_path, no_uploader
):
    keys = set()
    for user in ("anna", "ben"):
        monkeypatch.setenv("LOGNAME", user)
        with open_run("glue", "x", tracking="mlflow", run_folder=tmp_path / user / "x"):
            pass
        (folder,) = (tmp_path / user / tracking.FOLDER).iterdir()
        keys.add(EventLog(folder).read(0, 1)[0][0]["workflow"][0])
    assert len(keys) == 2


@pytest.mark.slow
def test_twenty_thousand_points_reach_mlflow_from_a_stage(store, tmp_path):
    process = stage(tmp_path, 20_000, os.environ["MLFLOW_TRACKING_URI"])
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0 and out == "trained\ndone\n", err
    if err:  # a machine too busy for the seconds that a stage gives the store
        assert "pipelines sync" in err and uploader.sync(tmp_path / "runs" / "tracking") == []
    assert len(points(store, runs(store)["pretrain@x"], "loss")) == 20000
