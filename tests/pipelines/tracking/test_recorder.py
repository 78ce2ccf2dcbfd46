"""All events of a stage arrive, a resumed stage continues its run, and nothing is duplicated."""

import os
import shutil

import pytest
from mlflow import MlflowClient

from electra.errors import Busy
from electra.files import lock_folder
from pipelines import tracking
from pipelines.tracking import NOTE, PARENT, recorder, uploader
from tests.support.events import (
    CLOSE,
    append,
    losses,
    metric,
    nested,
    opening,
    points,
    runs,
    send,
)


def artifact(file, folder=""):
    return {"what": "artifact", "run": "", "file": str(file), "folder": folder}


def tags(values, run=""):
    return {"what": "tags", "run": run, "values": values}


def test_runs_are_nested_and_complete(store, tmp_path):
    (tmp_path / "curve.csv").write_text("step,loss\n")
    assert send(
        tmp_path / "log",
        opening(),
        *losses([1, 2]),
        {"what": "dataset", "run": "", "name": "rows", "digest": "a" * 64, "context": "train"},
        artifact(tmp_path / "curve.csv"),
        tags({NOTE: "the headline"}),
        nested("cola", rate="0.1"),
        nested("cola2"),
        metric(None, run="cola", **{"score, %": 0.5}),
        metric(None, auc=0.75),
        tags({"status": "ok"}, "cola"),
        {"what": "close", "run": "cola", "time": 5.0, "status": "FINISHED"},
        CLOSE,
    )
    by_name = runs(store)
    assert set(by_name) == {"dvc repro", "pretrain@tiny", "cola", "cola2"}
    stage = by_name["pretrain@tiny"]
    child = by_name["cola"]
    above = by_name["dvc repro"]
    assert stage.data.tags["mlflow.parentRunId"] == above.info.run_id
    assert child.data.tags["mlflow.parentRunId"] == stage.info.run_id
    assert {run.info.status for run in by_name.values()} == {"FINISHED"}
    times = [(run.info.start_time, run.info.end_time) for run in (stage, child, by_name["cola2"])]
    assert times == [(1000, 9000), (2000, 5000), (2000, 9000)]
    assert stage.data.params == {"a.b": "1"} and child.data.params == {"rate": "0.1"}
    assert points(store, stage, "loss") == [(1, 1.0), (2, 2.0)]
    assert child.data.metrics == {"score_ _": 0.5} and child.data.tags["status"] == "ok"
    (rows,) = stage.inputs.dataset_inputs
    assert (rows.dataset.digest, rows.tags[0].value) == ("a" * 36, "train")
    for recorded in by_name.values():
        assert recorded.data.tags["mlflow.user"] and recorded.data.tags["host"]
        assert len(recorded.data.tags["mlflow.source.git.commit"]) == 40
    assert {recorded.data.tags["data"] for recorded in (stage, child)} == {"sample world"}
    assert stage.data.tags["git.dirty"] in {"true", "false"}
    assert above.data.tags["mlflow.source.name"] == "dvc repro"
    assert above.info.run_name.endswith(f" {above.data.tags['mlflow.source.git.commit'][:8]}")
    kind = store[0].get_experiment(store[1]).tags["mlflow.experimentKind"]
    assert kind == "custom_model_development"


def test_a_workflow_shows_settings_numbers_and_files_of_its_stages(store, tmp_path):
    (tmp_path / "results.json").write_text("{}")
    shared = [
        artifact(tmp_path / "results.json"),
        tags({NOTE: "the headline", "card": "of this stage alone"}),
        metric(1, loss=1.0),
        CLOSE,
    ]
    for number, (stage, name, numbers) in enumerate(
        [
            ("tokens", "x", {"rows": 60.0}),
            ("glue", "tiny", {"cola/matthews/pretrained": 81.5}),
            ("glue", "other", {"cola/matthews/pretrained": 51.5}),
            ("squad", "tiny", {"squad2/f1/pretrained": 71.5}),
            ("ablation", "table5", {"mlm/average": 66.0}),
            ("report", "", {}),
        ]
    ):
        labels = {"stage": stage, "name": name}
        event = opening(name=f"{stage}@{name}", tags=labels, params={"epochs": str(number)})
        assert send(tmp_path / f"{number}", event, metric(None, **numbers), *shared)
    by_hand = opening(workflow=["by-hand-1", "by hand"])
    assert send(tmp_path / "by-hand", by_hand, metric(None, auc=0.5), CLOSE)
    assert runs(store)["by hand"].data.metrics == {}, "where anything may be"
    above = runs(store)["dvc repro"]
    assert above.data.metrics == {
        "cola/matthews/pretrained": 81.5,
        "other/cola/matthews/pretrained": 51.5,
        "squad2/f1/pretrained": 71.5,
        "table5/mlm/average": 66.0,
    }
    assert above.data.tags["models"] == "tiny, other" and above.data.params == {
        "glue.epochs": "1",
        "squad.epochs": "3",
    }
    assert above.data.tags[NOTE] == "the headline" and "card" not in above.data.tags
    files = store[0].list_artifacts(above.info.run_id)
    assert {file.path for file in files} == {"glue", "squad", "ablation", "report"}


def test_a_killed_stage_continues_its_run_without_doubled_points(store, tmp_path):
    folder = tmp_path / "log"
    child = nested("cola")
    assert send(folder, opening(), child, metric(1, run="cola", score=1.0), *losses(range(5)))
    assert {run.info.status for run in runs(store).values()} == {"KILLED"}
    error = {**CLOSE, "status": "FAILED", "error": "OSError: no"}
    power_cut = opening(workflow=["test-0", "cut off"])
    assert send(folder, power_cut, opening(workflow=["test-2", "dvc repro again"]), error)
    assert runs(store)["pretrain@tiny"].data.tags["error"] == "OSError: no"
    again = [opening(workflow=["test-3", "the third"]), child, metric(2, run="cola", score=2.0)]
    assert send(folder, *again, *(metric(step, loss=9.0) for step in range(3, 8)), CLOSE)
    by_name = runs(store)
    workflows = {"dvc repro", "cut off", "dvc repro again", "the third"}
    assert set(by_name) == {*workflows, "pretrain@tiny", "cola"}
    assert by_name["cut off"].info.status == "KILLED"
    stage = by_name["pretrain@tiny"]
    expected = [*((step, float(step)) for step in range(5)), (5, 9.0), (6, 9.0), (7, 9.0)]
    assert points(store, stage, "loss") == expected
    assert points(store, by_name["cola"], "score") == [(1, 1.0), (2, 2.0)]
    assert stage.info.status == "FINISHED" and "error" not in stage.data.tags
    assert stage.data.tags["mlflow.parentRunId"] == by_name["the third"].info.run_id
    assert not folder.exists()


def test_a_call_of_more_points_or_settings_than_mlflow_takes_loses_none(
    store, tmp_path, monkeypatch
):
    monkeypatch.setenv("MLFLOW_ENABLE_ASYNC_LOGGING", "true")  # of another project
    events = [metric(step, a=1.0, b=1.0, c=1.0) for step in range(950)]
    params = {f"p{number}": "x" * 7000 for number in range(150)}
    assert send(tmp_path / "log", opening(params=params), *events, CLOSE)
    assert os.environ["MLFLOW_ENABLE_ASYNC_LOGGING"] == "false"
    run = runs(store)["pretrain@tiny"]
    assert [len(points(store, run, key)) for key in "abc"] == [950] * 3
    assert len(run.data.params) == 150 and set(map(len, run.data.params.values())) == {6000}


def test_a_run_with_other_settings_is_another_run_of_the_record(store, tmp_path, capsys):
    """As of a stopped ablation whose model has changed since: the settings of its arms have, its
    own have not.
    """
    for rate in ("1", "2", "1"):
        events = [nested("mlm", rate=rate), metric(1, run="mlm", loss=float(rate))]
        assert send(tmp_path / "log", opening(), *events)
    children = [run for run in store[0].search_runs([store[1]]) if run.info.run_name == "mlm"]
    pairs = sorted((run.data.params["rate"], run.data.metrics["loss"]) for run in children)
    assert pairs == [("1", 1.0), ("2", 2.0)], "and back"
    assert capsys.readouterr().err == ""


def test_a_stage_that_ended_or_whose_run_was_deleted_starts_a_new_run(store, tmp_path):
    for _ in range(2):
        assert send(tmp_path / "log", opening(), CLOSE)
    names = [run.info.run_name for run in store[0].search_runs([store[1]])]
    assert names.count("pretrain@tiny") == 2
    send(tmp_path / "other", opening(name="stopped"))
    store[0].delete_run(runs(store)["stopped"].info.run_id)
    send(tmp_path / "other", opening(name="stopped"), CLOSE)
    assert runs(store)["stopped"].info.status == "FINISHED"


def test_a_flows_run_is_the_parent_and_is_left_to_the_flow(
    store, tmp_path, monkeypatch, no_uploader
):
    parent = recorder.open_parent("pretrain tiny", {"model": "tiny"}, "prefect-1", {}, store)
    store[0].set_terminated(parent, "FAILED")  # and is tried again
    assert recorder.open_parent("pretrain tiny", {}, "prefect-1", {}, store) == parent
    monkeypatch.setenv(PARENT, parent)
    send(tmp_path / "log", opening(), CLOSE)
    by_name = runs(store)
    assert set(by_name) == {"pretrain tiny", "pretrain@tiny"}
    above = by_name["pretrain tiny"]
    assert (above.info.status, above.data.params) == ("RUNNING", {"model": "tiny", "a.b": "1"})
    hashes = {"pretrain@tiny": {"build/models/tiny": "abc.dir"}}
    monkeypatch.setattr(tracking, "dvc_hashes", lambda folder: hashes)
    tracking.end_workflow(parent, "FINISHED", tmp_path)  # the store does not answer
    assert runs(store)["pretrain tiny"].info.status == "RUNNING"
    monkeypatch.setattr(uploader, "dvc_hashes", dict)  # by then another commit is checked out
    assert uploader.sync(tmp_path / "runs" / tracking.FOLDER) == []
    assert not list((tmp_path / "runs" / tracking.FOLDER).iterdir())
    by_name = runs(store)
    assert by_name["pretrain tiny"].info.status == "FINISHED"
    assert by_name["pretrain@tiny"].data.tags["dvc.out.build/models/tiny"] == "abc.dir"


def test_what_the_store_refuses_costs_one_line_and_nothing_else(store, tmp_path, capsys):
    broken = artifact(tmp_path / "absent.png", "figures")
    refused = metric(1, **{"x" * 300: 1.0})
    events = [broken, metric(1, loss=1.0), broken, refused, tags({"a": "b"}), metric(2, loss=2.0)]
    assert send(tmp_path / "log", opening(), *events, CLOSE)
    assert points(store, runs(store)["pretrain@tiny"], "loss") == [(1, 1.0), (2, 2.0)]
    assert capsys.readouterr().err.count("warning: tracking: left out") == 1


def test_what_is_sent_again_doubles_neither_runs_nor_points(store, tmp_path, monkeypatch):
    """As after an uploader was killed before it saved how far it got."""
    folder = tmp_path / "log"
    events = [opening(), *losses(range(5)), metric(None, score=0.5)]

    def send_and_die(self, events, send=recorder.Recorder.send):
        send(self, events)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(recorder.Recorder, "send", send_and_die)
        send(folder, *events)
    log = append(folder)
    for forgotten in ({"offset": 0}, {"offset": 0, "runs": {}}):
        log.save(log.state() | forgotten)
        assert send(folder)
    found = store[0].search_runs([store[1]])
    (run,) = [run for run in found if run.info.run_name == "pretrain@tiny"]
    assert points(store, run, "loss") == [(step, step) for step in range(5)]
    assert points(store, run, "score") == [(0, 0.5)]


def test_a_store_that_was_copied_writes_beside_itself(tmp_path):
    (tmp_path / "old").mkdir()
    client, experiment = recorder.client(f"sqlite:///{tmp_path}/old/mlflow.db")
    old = client.create_run(experiment)
    client.log_text(old.info.run_id, "figure", "figure.txt")
    shutil.copytree(tmp_path / "old", tmp_path / "new")
    # as of sqlite:////$PWD/mlflow.db
    client, experiment = recorder.client(f"sqlite:////{tmp_path}/new/mlflow.db")
    for moved in (client.get_run(old.info.run_id), client.create_run(experiment)):
        assert moved.info.artifact_uri.startswith(f"file://{tmp_path}/new/mlruns/"), moved.info
    assert [file.path for file in client.list_artifacts(old.info.run_id)] == ["figure.txt"]
    theirs = f"sqlite:///{tmp_path}/theirs.db"
    MlflowClient(theirs).create_experiment(recorder.EXPERIMENT, "s3://bucket/mlruns")
    client, experiment = recorder.client(theirs)
    assert client.get_experiment(experiment).artifact_location == "s3://bucket/mlruns"
    shutil.rmtree(tmp_path / "new")
    client, _ = recorder.client(f"sqlite:///{tmp_path}/old/mlflow.db")
    assert client.get_run(old.info.run_id).info.artifact_uri.startswith(
        f"file://{tmp_path}/old/mlruns/"
    )


def test_a_folder_of_any_name_holds_a_store_and_its_files(tmp_path, monkeypatch):
    folder = tmp_path / "a%20b why? проект#1"
    folder.mkdir()
    monkeypatch.setattr(tracking, "ROOT", folder)
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    (folder / "mlflow.db.new").write_bytes(b"of a process that was killed")
    with monkeypatch.context() as patch, lock_folder(folder / "mlruns"), pytest.raises(Busy):
        patch.setattr(recorder, "FIRST_SECONDS", 0.0)
        recorder.client()
    client, experiment = recorder.client()
    run = client.create_run(experiment)
    client.log_text(run.info.run_id, "figure", "figure.txt")
    assert (folder / "mlflow.db").is_file() and list(
        (folder / "mlruns").glob("*/artifacts/figure.txt")
    )
