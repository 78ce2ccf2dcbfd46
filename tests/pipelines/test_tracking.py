"""Tracking: what a stage says arrives, a resumed stage goes on in its run, and no failure reaches the stage."""

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from electra.stopping import Interrupted
from pipelines import tracking
from pipelines.tracking import PARENT, Tracker, facts, flatten, open_run, recorder
from pipelines.tracking.delivery import Delivery
from pipelines.tracking.spool import Spool
from tests.conftest import ROOT, copy_project, environment


@pytest.fixture(scope="session")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An MLflow database with its tables, made once: it takes seconds."""
    path = tmp_path_factory.mktemp("mlflow") / "mlflow.db"
    old = os.environ["MLFLOW_TRACKING_URI"]
    os.environ["MLFLOW_TRACKING_URI"] = f"sqlite:///{path}"
    try:
        recorder.client()
    finally:
        os.environ["MLFLOW_TRACKING_URI"] = old
    return path


@pytest.fixture
def store(migrated: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A fresh database, and a client of it."""
    path = tmp_path / "mlflow.db"
    shutil.copy(migrated, path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{path}")
    yield recorder.client()


def runs(store: Any) -> dict[str, Any]:
    """By name; without the commit, which the name of a workflow ends with."""
    client, experiment = store
    return {re.sub(r" [0-9a-f]{8}$", "", run.info.run_name): run for run in client.search_runs([experiment])}


def points(store: Any, run: Any, key: str) -> list[tuple[int, float]]:
    return [(point.step, point.value) for point in store[0].get_metric_history(run.info.run_id, key)]


class Lines:
    """A recorder in this process, fed like the one behind the pipe."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []

    def send(self, message: dict[str, Any]) -> None:
        self.sent.append(message)


def told(messages: list[dict[str, Any]], folder: Path) -> bool:
    """What a stage says until its end, and a recorder that begins then; whether everything arrived."""
    spool, ended = Spool(folder), threading.Event()
    for message in messages:
        spool.append(message)
    ended.set()
    return Delivery(spool, recorder.Recorder, ended, git=recorder.about).run()


def opening(**more: Any) -> dict[str, Any]:
    return {
        "what": "open",
        "run": "",
        "name": "pretrain@tiny",
        "params": {"a.b": "1"},
        "tags": {"stage": "pretrain", "data": "sample world"},
        "uri": os.environ["MLFLOW_TRACKING_URI"],
        "parent": os.environ.get(PARENT, ""),
        "workflow": ["test-1", "dvc repro"],
        "upstream": [],
        **more,
    }


def metric(step: int | None, run: str = "", **values: float) -> dict[str, Any]:
    return {"what": "metrics", "run": run, "step": step, "values": values, "time": 1.0}


CLOSE = {"what": "close", "run": "", "status": "FINISHED"}


def test_settings_are_flattened() -> None:
    assert flatten({"a": {"b": 1, "c": {}}, "d": [1, 2], "e": "x", "f": None}) == {
        "a.b": "1",
        "a.c": "{}",
        "d": "[1, 2]",
        "e": "x",
        "f": "null",
    }


def test_without_tracking_everything_is_a_no_op(tmp_path: Path) -> None:
    with open_run("glue", "tiny", {}, {}, tracking="none", run_folder=tmp_path / "runs") as tracker:
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


def test_runs_are_nested_and_complete(store: Any, tmp_path: Path) -> None:
    (tmp_path / "curve.csv").write_text("step,loss\n")
    told(
        [
            opening(),
            metric(1, loss=2.0),
            metric(2, loss=1.0),
            {"what": "dataset", "run": "", "name": "rows", "digest": "a" * 64, "context": "train"},
            {"what": "artifact", "run": "", "file": str(tmp_path / "curve.csv"), "folder": ""},
            {"what": "open", "run": "cola", "name": "cola", "params": {"rate": "0.1"}},
            metric(None, run="cola", **{"score, %": 0.5}),
            metric(None, auc=0.75),
            {"what": "tags", "run": "cola", "values": {"status": "ok"}},
            {"what": "close", "run": "cola", "status": "FINISHED"},
            CLOSE,
        ],
        tmp_path / "spool",
    )
    found = runs(store)
    assert set(found) == {"dvc repro", "pretrain@tiny", "cola"}
    stage, child, above = found["pretrain@tiny"], found["cola"], found["dvc repro"]
    assert above.data.tags["mlflow.source.name"] == "dvc repro"
    assert above.info.run_name.endswith(f" {above.data.tags['mlflow.source.git.commit'][:8]}")
    assert above.data.metrics == {"pretrain/auc": 0.75} and stage.data.metrics["auc"] == 0.75
    for run in found.values():
        assert run.data.tags["mlflow.user"] and run.data.tags["host"]
    assert stage.data.tags["mlflow.parentRunId"] == found["dvc repro"].info.run_id
    assert child.data.tags["mlflow.parentRunId"] == stage.info.run_id
    assert child.data.tags["status"] == "ok"
    assert child.data.tags["data"] == stage.data.tags["data"] == "sample world"
    assert {run.info.status for run in found.values()} == {"FINISHED"}
    assert stage.data.params == {"a.b": "1"}
    assert points(store, stage, "loss") == [(1, 2.0), (2, 1.0)]
    assert child.data.metrics == {"score_ _": 0.5}
    assert stage.inputs.dataset_inputs[0].dataset.digest == "a" * 36
    assert len(stage.data.tags["mlflow.source.git.commit"]) == 40
    assert stage.data.tags["git.dirty"] in {"true", "false"}


def test_the_counts_of_data_are_no_headline_of_their_workflow(store: Any, tmp_path: Path) -> None:
    told([opening(tags={"stage": "tokens", "name": "tiny"}), metric(None, rows=60), CLOSE], tmp_path / "spool")
    found = runs(store)
    assert found["pretrain@tiny"].data.metrics == {"rows": 60} and found["dvc repro"].data.metrics == {}


def test_the_average_of_an_arm_is_a_headline(store: Any, tmp_path: Path) -> None:
    arm = {"what": "open", "run": "wide", "name": "wide", "params": {}}
    numbers = [metric(None, run="wide", cola=40.0), metric(None, run="wide", average=50.0)]
    told([opening(tags={"stage": "ablation", "name": "size"}), arm, *numbers, CLOSE], tmp_path / "spool")
    assert runs(store)["dvc repro"].data.metrics == {"ablation/size/wide/average": 50.0}


def test_the_experiment_is_marked_as_one_of_model_training(store: Any) -> None:
    mlflow, experiment = recorder.client()
    assert mlflow.get_experiment(experiment).tags["mlflow.experimentKind"] == "custom_model_development"


def test_a_killed_stage_goes_on_in_its_run_without_doubled_points(store: Any, tmp_path: Path) -> None:
    folder = tmp_path / "spool"
    child = {"what": "open", "run": "cola", "name": "cola", "params": {}}
    first = [opening(), child, metric(1, run="cola", score=1.0), *(metric(step, loss=1.0) for step in range(5))]
    assert told(first, folder)
    assert runs(store)["pretrain@tiny"].info.status == "KILLED"
    error = {**CLOSE, "status": "FAILED", "error": "OSError: no"}
    assert told([opening(workflow=["test-2", "dvc repro again"]), error], folder)
    assert runs(store)["pretrain@tiny"].data.tags["error"] == "OSError: no"
    again = [opening(workflow=["test-3", "the third"]), child, metric(2, run="cola", score=2.0)]
    assert told([*again, *(metric(step, loss=2.0) for step in range(3, 8)), CLOSE], folder)
    found = runs(store)
    assert set(found) == {"dvc repro", "dvc repro again", "the third", "pretrain@tiny", "cola"}
    stage = found["pretrain@tiny"]
    assert points(store, stage, "loss") == [*((s, 1.0) for s in range(5)), *((s, 2.0) for s in (5, 6, 7))]
    assert points(store, found["cola"], "score") == [(1, 1.0), (2, 2.0)]
    assert stage.info.status == "FINISHED" and "error" not in stage.data.tags
    assert stage.data.tags["mlflow.parentRunId"] == found["the third"].info.run_id
    assert not folder.exists()


def test_a_stage_that_ended_begins_a_new_run(store: Any, tmp_path: Path) -> None:
    for _ in range(2):
        assert told([opening(), CLOSE], tmp_path / "spool")
    assert [run.info.run_name for run in store[0].search_runs([store[1]])].count("pretrain@tiny") == 2


def test_a_flows_run_is_the_parent_and_is_left_to_the_flow(
    store: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent = recorder.open_parent("pretrain tiny", {"model": "tiny"}, "prefect-1", store)
    assert recorder.open_parent("pretrain tiny", {}, "prefect-1", store) == parent
    monkeypatch.setenv(PARENT, parent)
    told([opening(), CLOSE], tmp_path / "spool")
    found = runs(store)
    assert set(found) == {"pretrain tiny", "pretrain@tiny"}
    assert found["pretrain tiny"].info.status == "RUNNING"
    hashes = {"pretrain@tiny": {"build/models/tiny": "abc.dir"}}
    monkeypatch.setattr(facts, "dvc_hashes", lambda folder: hashes)
    monkeypatch.chdir(tmp_path)
    with monkeypatch.context() as away:
        away.setattr(tracking, "_record", lambda folder: subprocess.Popen(["true"], stdin=subprocess.PIPE))
        tracking.end_workflow(parent, "FINISHED")  # the store does not answer
    assert runs(store)["pretrain tiny"].info.status == "RUNNING"
    monkeypatch.setattr(facts, "dvc_hashes", lambda folder: {})  # by then another commit is checked out
    assert recorder.sync(tmp_path / "runs" / tracking.FOLDER) == []
    assert not list((tmp_path / "runs" / tracking.FOLDER).iterdir())
    found = runs(store)
    assert found["pretrain tiny"].info.status == "FINISHED"
    assert found["pretrain@tiny"].data.tags["dvc.out.build/models/tiny"] == "abc.dir"


def test_a_recorder_that_takes_long_is_not_waited_for_at_a_flows_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = [sys.executable, "-c", "import time; time.sleep(60)"]
    started = subprocess.Popen(slow, stdin=subprocess.PIPE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(facts, "dvc_hashes", lambda folder: {})
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


def test_what_a_stage_reads_is_tagged_with_dvcs_hashes(
    store: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(facts, "dvc_hashes", lambda folder: {"tokens@x": {"build/tokens/x": "123.dir"}})
    told([opening(upstream=["tokens@x", "tasks@y"]), CLOSE], tmp_path / "spool")
    assert runs(store)["pretrain@tiny"].data.tags["dvc.in.build/tokens/x"] == "123.dir"


def test_what_the_store_refuses_costs_one_line_and_nothing_else(
    store: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = {"what": "artifact", "run": "", "file": str(tmp_path / "absent.png"), "folder": "figures"}
    assert told([opening(), broken, metric(1, loss=1.0), broken, CLOSE], tmp_path / "spool")
    assert runs(store)["pretrain@tiny"].data.metrics == {"loss": 1.0}
    assert capsys.readouterr().err.count("warning: tracking: left out") == 1


def test_a_run_that_was_deleted_is_not_gone_on_in(store: Any, tmp_path: Path) -> None:
    told([opening()], tmp_path / "spool")
    store[0].delete_run(runs(store)["pretrain@tiny"].info.run_id)
    told([opening(), CLOSE], tmp_path / "spool")
    assert runs(store)["pretrain@tiny"].info.status == "FINISHED"


def test_an_answer_that_was_lost_doubles_neither_runs_nor_points(store: Any, tmp_path: Path) -> None:
    folder = tmp_path / "spool"
    said = [opening(), *(metric(step, loss=1.0) for step in range(5)), metric(None, score=0.5)]
    assert told(said, folder)
    state = Spool(folder).state()
    for forgotten in (
        {"offset": 0},
        {"offset": 0, "runs": {}},
    ):  # the store has it all, the recorder was killed before it knew
        Spool(folder).save(state | forgotten)
        assert told([], folder)
    stage = runs(store)["pretrain@tiny"]
    assert points(store, stage, "loss") == [(step, 1.0) for step in range(5)]
    assert points(store, stage, "score") == [(0, 0.5)]


STAGE = """
import os, sys, time
from pathlib import Path
from pipelines.tracking import open_run
with open_run("pretrain", "x", {{}}, {{}}, tracking="mlflow", run_folder=Path("runs/x")) as tracker:
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
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        recorder.sync(tmp_path / "runs" / "tracking")  # whatever its own recorder had no time for
        if (run := runs(store).get("pretrain@x")) and run.info.status != "RUNNING":
            break
        time.sleep(0.3)
    assert run.info.status == "KILLED"


@pytest.mark.slow
def test_a_run_of_dvc_tells_what_it_stands_on(store: Any, tmp_path: Path) -> None:
    """Through the real command line: what docs/operate.md promises of a run's tags."""
    folder = copy_project(tmp_path / "project")
    params = folder / "params.yaml"
    params.write_text(params.read_text().replace("tracking: none", "tracking: mlflow"))
    values = environment(
        folder, MLFLOW_TRACKING_URI=os.environ["MLFLOW_TRACKING_URI"], ELECTRA_TAGS='{"mlflow.user": "anna"}'
    )
    command = [sys.executable, "-m", "dvc", "repro", "pipelines/dvc.yaml:pretrain@smoke"]
    done = subprocess.run(command, cwd=folder, env=values, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    recorder.sync(folder / "runs" / tracking.FOLDER)  # what a busy machine had no time for
    found = runs(store)
    stage, above = found["pretrain@smoke"], found["dvc repro pretrain@smoke"]
    lock = facts.dvc_hashes(folder)
    tags = stage.data.tags
    assert tags["data"] == "smoke" and tags["mlflow.user"] == "anna"
    assert tags["mlflow.source.name"] == "python -m pipelines pretrain smoke"
    assert tags["dvc.in.build/tokens/smoke"] == lock["tokens@smoke"]["build/tokens/smoke"]
    assert found["tokens@smoke"].data.tags["dvc.out.build/tokens/smoke"] == lock["tokens@smoke"]["build/tokens/smoke"]
    assert [each.dataset.name for each in stage.inputs.dataset_inputs] == ["tokens/smoke"]
    assert {key for key in above.data.metrics if key.startswith("pretrain/")}
    assert tags["mlflow.parentRunId"] == above.info.run_id and above.info.status == "FINISHED"


def test_a_workflow_is_the_dvc_that_runs_or_the_day() -> None:
    key, title = tracking._workflow()
    assert key.startswith(("by-hand-", "dvc-"))
    assert title
