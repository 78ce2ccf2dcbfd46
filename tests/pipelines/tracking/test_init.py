"""The events of a stage, and its waiting for MLflow."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from electra.errors import Stopped
from electra.files import write_atomic
from electra.stopping import Interrupted
from pipelines import tracking
from pipelines.tracking import Tracker, open_run, recorder
from pipelines.tracking.event_log import EventLog
from tests.support.project import ROOT


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
    with tracker.child("cola", settings, 5.0, 6.0) as child, child.child("seed1", {}) as seed:
        seed.metrics(3, {"loss": 1, "text": "dropped"})
        seed.metrics(4, {"valid/loss": 1})
        seed.summary({"valid/loss": 1, "glue": {"rte": 2}})
        seed.dataset("rows", "1f", "train")
        seed.tags({"seeds": 1})
    assert [event["what"] for event in events] == [
        *("open", "open", "metrics", "metrics", "metrics", "dataset", "tags", "close", "close")
    ]
    assert {event["run"] for event in events[1:-1]} == {"cola/seed1"}
    opened, _, loss, _, summary, dataset, tags, _, closed = events
    params = {"rate.peak": "0.001", "rate.phases": "{}", "d": "[1, 2]", "e": "x", "f": "null"}
    assert opened["params"] == params
    assert (opened["time"], closed["time"]) == (5.0, 6.0) and loss["time"] > 1e9
    assert loss["values"] == {"loss": 1.0} and seed.clock.keys() == {4}
    assert (summary["step"], summary["values"]) == (None, {"valid/loss": 1.0, "glue/rte": 2.0})
    assert dataset["digest"] == "1f" and tags["values"] == {"seeds": "1"}
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
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "sqlite:///other.db")
    for settings in ({}, {"a": 1}):
        values = {"params": settings, "run_folder": tmp_path / "new/runs/x"}
        with open_run("glue", "x", tracking="mlflow", **values):
            pass
    assert len([*log.parent.iterdir()]) == 3, "a log is for one store and for its settings"


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
    start = Mock(return_value=started)
    monkeypatch.setattr(tracking, "start_uploader", start)
    monkeypatch.setattr(tracking, "WORKFLOW_SECONDS", 0.1)
    try:
        tracking.end_workflow("a-run", "FINISHED", tmp_path, ["ours"])
        assert (
            started.poll() is None and started.stdin.closed
        )  # it goes on, and what it has not sent stays in the log
        text = next((tmp_path / "runs").rglob("*.jsonl")).read_text()
        assert "a-run" in text and '"hashes": {"ours": {}}' in text
        monkeypatch.setattr(tracking, "CLOSE_SECONDS", 0.1)
        with open_run("glue", "x", tracking="mlflow", run_folder=tmp_path / "runs/x"):
            pass
        assert started.poll() is not None, "a stage leaves none behind"
        assert start.call_count == 2
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
    def opening(folder):
        """Return what the log of a stage begins with."""
        values = {"params": {"a": 1}, "tags": {"data": "x"}, "run_folder": tmp_path / folder / "x"}
        with open_run("glue", "x", tracking="mlflow", **values):
            pass
        (log,) = (tmp_path / folder / tracking.FOLDER).iterdir()
        return EventLog(log).read(0, 1)[0][0]

    workflows = []
    for user in ("anna", "ben"):
        monkeypatch.setenv("LOGNAME", user)
        event = opening(user)
        assert event["params"] == {"a": "1"} and event["tags"]["data"] == "x"
        workflows.append(event["workflow"])
    assert workflows[0][0] != workflows[1][0] and workflows[0][1].startswith("by hand, 20")

    words = ["python", "-m", "dvc", "repro", "pipelines/dvc.yaml:glue@x"]
    dvc = SimpleNamespace(cmdline=lambda: words, pid=5, create_time=lambda: 1.5)
    process = SimpleNamespace(parents=lambda: [dvc])
    monkeypatch.setattr("psutil.Process", lambda: process)
    monkeypatch.setattr("socket.gethostname", lambda: "host")
    assert opening("dvc")["workflow"] == ["dvc-host-5-1", "dvc repro glue@x"]
    monkeypatch.setenv(tracking.PARENT, "a-run")
    event = opening("flow")
    assert (event["parent"], event["workflow"]) == ("a-run", None)


def test_a_full_disk_costs_a_stage_its_record_and_one_line(tmp_path, capsys):
    (tmp_path / tracking.FOLDER).write_text("a file where a folder of events is expected")
    with open_run("glue", "x", tracking="mlflow", run_folder=tmp_path / "x") as tracker:
        tracker.metrics(1, {"loss": 1.0})
    error = capsys.readouterr().err
    assert error.startswith("warning: tracking: ") and error.count("\n") == 1
    assert error.endswith("; the stage continues without it\n")


def test_an_uploader_that_does_not_start_is_not_tried_again(tmp_path, monkeypatch, capsys):
    start = Mock(side_effect=OSError("no memory"))
    monkeypatch.setattr(tracking, "start_uploader", start)
    with open_run("glue", "x", tracking="mlflow", run_folder=tmp_path / "x"):
        pass
    assert start.call_count == 1 == capsys.readouterr().err.count("no memory")
