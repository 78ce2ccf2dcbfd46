"""A stage tells what happened, and neither a dead store nor a slow one costs it anything."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from electra.stopping import Interrupted
from pipelines import tracking
from pipelines.tracking import Start, Tracker, flatten, lineage, open_run, recorder
from tests.conftest import ROOT, environment, until
from tests.pipelines.tracking.told import points, runs


class Lines:
    """A recorder in this process, fed like the one behind the pipe."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []

    def send(self, message: dict[str, Any]) -> None:
        self.sent.append(message)


def test_settings_are_flattened() -> None:
    assert flatten({"a": {"b": 1, "c": {}}, "d": [1, 2], "e": "x", "f": None}) == {
        "a.b": "1",
        "a.c": "{}",
        "d": "[1, 2]",
        "e": "x",
        "f": "null",
    }


def test_without_tracking_everything_is_a_no_op(tmp_path: Path) -> None:
    with open_run(Start("glue", "tiny"), tracking="none", run_folder=tmp_path / "runs") as tracker:
        tracker.metrics(1, {"a": 1.0})
        tracker.figure(tmp_path / "nothing.png")
        with tracker.child("cola", {}) as child:
            child.summary({"a": 1.0})
    assert not (tmp_path / "runs").exists()


def test_a_tracker_says_what_happened() -> None:
    lines = Lines()
    tracker = Tracker(lines)  # type: ignore[arg-type]
    with tracker.child("cola", {"rate": {"peak": 1e-3}}) as child, child.child("seed1", {}) as seed:
        seed.metrics(3, {"loss": 1, "text": "dropped"})  # type: ignore[dict-item]
    with pytest.raises(RuntimeError), tracker.child("rte", {}):
        raise RuntimeError
    with pytest.raises(Interrupted), tracker.child("mnli", {}):
        raise Interrupted(15)
    said = [(message["what"], message["run"]) for message in lines.sent]
    assert said == [
        ("open", "cola"),
        ("open", "cola/seed1"),
        ("metrics", "cola/seed1"),
        ("close", "cola/seed1"),
        ("close", "cola"),
        ("open", "rte"),
        ("close", "rte"),
        ("open", "mnli"),
        ("close", "mnli"),
    ]
    assert lines.sent[0]["params"] == {"rate.peak": "0.001"}
    assert lines.sent[2]["values"] == {"loss": 1.0}
    assert [message["status"] for message in lines.sent[-3::2]] == ["FAILED", "KILLED"]


def test_a_recorder_that_takes_long_is_not_waited_for_at_a_flows_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = [sys.executable, "-c", "import time; time.sleep(60)"]
    started = subprocess.Popen(slow, stdin=subprocess.PIPE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(lineage, "dvc_hashes", lambda folder: {})
    monkeypatch.setattr(tracking, "_record", lambda folder: started)
    monkeypatch.setattr(tracking, "WORKFLOW_SECONDS", 0.1)
    monkeypatch.setattr(tracking, "CLOSE_SECONDS", 30.0)
    begun = time.monotonic()
    try:
        tracking.end_workflow("a-run", "FINISHED")
        assert time.monotonic() - begun < 20
        assert started.poll() is None  # it goes on, and what it has not told lies in the spool
        assert "a-run" in next((tmp_path / "runs").rglob("*.jsonl")).read_text()
    finally:
        started.kill()
        started.wait()


STAGE = """
import os, sys, time
from pathlib import Path
from pipelines.tracking import Start, open_run
with open_run(Start("pretrain", "x"), tracking="mlflow", run_folder=Path("runs/x")) as tracker:
    for step in range(20000):
        tracker.metrics(step, {{"loss": 1.0}})
    {then}
print("the stage is done", flush=True)
"""


def stage(tmp_path: Path, then: str, **more: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", STAGE.format(then=then)],
        cwd=tmp_path,
        env=environment(ROOT, **more),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.slow
def test_through_the_pipe_twenty_thousand_points_cost_the_stage_nothing(store: Any, tmp_path: Path) -> None:
    then = "took = time.process_time(); print(took, flush=True)"
    process = stage(tmp_path, then, MLFLOW_TRACKING_URI=os.environ["MLFLOW_TRACKING_URI"])
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0 and "the stage is done" in out, err
    if err:  # a machine too busy for the seconds that a stage gives the store
        assert "pipelines sync" in err and recorder.sync(tmp_path / "runs" / "tracking") == []
    assert len(points(store, runs(store)["pretrain@x"], "loss")) == 20000


@pytest.mark.slow
@pytest.mark.parametrize("uri", ["sqlite:////dev/null/mlflow.db", "http://127.0.0.1:9"])
def test_a_dead_store_never_stops_a_stage(uri: str, tmp_path: Path) -> None:
    values = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0", "MLFLOW_HTTP_REQUEST_TIMEOUT": "2"}
    out, err = stage(tmp_path, "pass", MLFLOW_TRACKING_URI=uri, **values).communicate(timeout=120)
    assert "the stage is done" in out
    assert err.count("warning: tracking:") == 1
    assert len(err.splitlines()) == 1, err


@pytest.mark.slow
def test_a_stage_that_is_killed_is_recorded_as_killed(store: Any, tmp_path: Path) -> None:
    uri = os.environ["MLFLOW_TRACKING_URI"]
    process = stage(tmp_path, "print('up', flush=True); time.sleep(60)", MLFLOW_TRACKING_URI=uri)
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGKILL)
    process.wait()

    def ended() -> str:
        recorder.sync(tmp_path / "runs" / "tracking")  # whatever its own recorder had no time for
        run = runs(store).get("pretrain@x")
        return run.info.status if run and run.info.status != "RUNNING" else ""

    assert until(ended) == "KILLED"


def test_a_workflow_is_the_dvc_that_runs_or_the_day() -> None:
    key, title = tracking._workflow()
    assert key.startswith(("by-hand-", "dvc-"))
    assert title
