"""MLflow that goes and comes back: each point is sent once (one that never answers:
`benchmarks.reliability`).
"""

import os
import re
import shutil
import signal
import threading
from pathlib import Path

import pytest

from electra.errors import SourceUnreachable
from electra.files import lock_folder
from pipelines import tracking
from pipelines.tracking import recorder, uploader
from pipelines.tracking.event_log import EventLog
from tests.support.events import (
    CLOSE,
    append,
    losses,
    nested,
    opening,
    points,
    runs,
    send,
)
from tests.support.project import ROOT, largest_file, run, until


class Flaky:
    """A client of MLflow that nobody answers while it is `down`."""

    def __init__(self, client):
        self.client = client
        self.down = False
        self.calls = 0

    def __getattr__(self, name):
        self.calls += 1
        if self.down:
            raise ConnectionError(f"{name}: nobody answers")
        return getattr(self.client, name)


@pytest.fixture
def flaky(store, monkeypatch):
    flaky = Flaky(store[0])

    def client(uri):
        flaky.get_experiment(store[1])
        return flaky, store[1]

    monkeypatch.setattr(recorder, "client", client)
    return flaky


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(uploader, "FLUSH_SECONDS", 0.01)
    monkeypatch.setattr(uploader, "PAUSES", (0.01, 0.02))


class Stage:
    """A stage, and the uploader behind it in a thread."""

    def __init__(self, folder, live=False):
        self.log = EventLog(folder)
        self.ended = threading.Event()
        self.answer = []
        self.thread = threading.Thread(target=self.upload, args=(folder, live), daemon=True)
        self.thread.start()

    def upload(self, folder, live):
        self.answer.append(uploader.upload(EventLog(folder), self.ended, live=live))

    def say(self, *events):
        for event in events:
            self.log.append(event)

    def end(self):
        self.ended.set()
        self.thread.join(60)
        return self.answer[0]


def sent(store, key="loss"):
    """The steps of a metric that MLflow has."""
    run = runs(store).get("pretrain@tiny")
    return [step for step, _ in points(store, run, key)] if run else []


def status(store):
    """Of the stage's run, of which there is one."""
    return str(runs(store)["pretrain@tiny"].info.status)


def test_an_outage_leaves_no_hole_and_is_reported_once(store, flaky, tmp_path, capsys):
    running = Stage(tmp_path / "x")
    running.say(opening(), *losses(range(10)))
    until(lambda: len(sent(store)) == 10)
    flaky.down, before = True, flaky.calls
    running.say(*losses(range(10, 20)))
    until(lambda: flaky.calls > before + 12)
    flaky.down = False
    until(lambda: len(sent(store)) == 20)
    running.say(*losses([20]), CLOSE)
    assert running.end()
    assert sent(store) == list(range(21)) and status(store) == "FINISHED" and len(runs(store)) == 2
    lost, sent_later = capsys.readouterr().err.splitlines()
    assert lost.startswith("warning: ") and "electra sync" in lost
    assert sent_later == "tracking: MLflow has what was kept"
    assert not (tmp_path / "x").exists()


def test_a_batch_whose_answer_is_lost_is_sent_again_whole(store, tmp_path, monkeypatch, capsys):
    lost = []

    def send_and_lose(self, events, send=recorder.Recorder.send):
        send(self, events)
        if not lost:
            lost.append(True)
            raise ConnectionError("nobody answers")

    monkeypatch.setattr(recorder.Recorder, "send", send_and_lose)
    append(tmp_path / "x", opening(), *losses(range(3)), CLOSE)
    running = Stage(tmp_path / "x")
    until(lambda: lost)
    assert running.end()
    assert "left out" not in capsys.readouterr().err
    assert sent(store) == [0, 1, 2] and status(store) == "FINISHED"


def test_a_run_that_mlflow_refuses_is_named_and_its_record_waits(
    store, tmp_path, monkeypatch, capsys
):
    def refuse(*_, **__):
        raise ValueError("no")

    monkeypatch.chdir(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(type(store[0]), "create_run", refuse)
        assert not send(Path("runs/tracking/x"), opening(), CLOSE)
        assert "MLflow refuses the run pretrain@tiny (no); what is unsent stays" in (
            capsys.readouterr().err
        )
        append(Path("runs/flows/a/runs/tracking/y"), opening())
        with pytest.raises(
            SourceUnreachable, match=r"tracking/x: MLflow does not take it \(2 logs"
        ):
            uploader.send_all()


def test_what_was_not_sent_is_sent_at_the_next_start_or_by_sync(store, flaky, tmp_path):
    flaky.down = True
    folder = tmp_path / "x"
    assert not send(folder, opening(), *losses(range(10)))  # killed: there is no close
    assert not send(folder, opening(), *losses(range(5, 15)), CLOSE)
    assert uploader.sync(tmp_path) == [folder]
    flaky.down = False
    assert uploader.sync(tmp_path) == []
    assert sent(store) == list(range(15)) and status(store) == "FINISHED" and not folder.exists()


def test_another_store_gets_everything_and_none_of_the_ids_of_the_first(store, tmp_path):
    log = append(tmp_path / "x", opening(), *losses(range(3)))
    half_sent = {"uri": "sqlite:///first.db", "offset": log.read(0, 3)[1], "runs": {"": "0" * 32}}
    log.save(log.state() | half_sent)
    assert uploader.sync(tmp_path) == []
    assert sent(store) == [0, 1, 2] and status(store) == "KILLED"


def test_a_log_is_sent_by_one_process_at_a_time(tmp_path, capsys):
    log = append(tmp_path / "x", opening())
    with lock_folder(log.folder):
        assert uploader.sync(tmp_path) == []
    assert capsys.readouterr().out == f"{log.folder}: a stage is sending it\n"


def test_the_machines_load_is_recorded_while_a_stage_runs(store, tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_SYSTEM_METRICS_SAMPLING_INTERVAL", "0.1")
    running = Stage(tmp_path / "x", live=True)
    running.say(opening())
    until(lambda: len(sent(store, "system/cpu_utilization_percentage")) > 2, 60)
    running.say(CLOSE)
    assert running.end() and status(store) == "FINISHED"


def test_a_torn_line_costs_that_line_and_a_damaged_state_a_second_sending(store, tmp_path):
    log = append(tmp_path / "x", opening(), *losses([0]))
    size = log.lines.stat().st_size
    with largest_file(size + 9):  # a disk that is full within the line
        log.append(losses([7])[0])
    assert log.read(0, 9)[1] == size
    log.append(losses([1])[0])
    assert [event["what"] for event in log.read(0, 9)[0]] == ["open", "metrics", "metrics"]
    assert len(log.read(0, 2)[0]) == 2
    log.save({**log.state(), "offset": 10})
    assert log.state()["offset"] == 10
    log.notes.write_text(log.notes.read_text().replace("10", "90"))
    assert log.state()["offset"] == 0
    log.append(CLOSE)
    assert uploader.sync(tmp_path) == []
    assert sent(store) == [0, 1]


def test_a_deleted_experiment_ends_the_sending_and_restored_it_takes_everything(
    store, tmp_path, capsys
):
    running = Stage(tmp_path / "x")
    running.say(opening(), *losses(range(5)))
    until(lambda: len(sent(store)) == 5)
    store[0].delete_experiment(store[1])
    running.say(*losses(range(5, 10)))
    running.thread.join(60)
    assert running.answer == [False], "at once, and not when the stage ends"
    running.say(CLOSE)
    assert uploader.sync(tmp_path) == [tmp_path / "x"]
    for line in capsys.readouterr().err.splitlines():
        assert f"mlflow experiments restore --experiment-id {store[1]}" in line
    store[0].restore_experiment(store[1])
    assert uploader.sync(tmp_path) == []
    assert sent(store) == list(range(10)) and status(store) == "FINISHED"


def test_a_run_that_is_deleted_while_its_stage_runs_ends_the_sending(store, tmp_path):
    running = Stage(tmp_path / "x")
    running.say(opening(), *losses(range(5)))
    until(lambda: len(sent(store)) == 5)
    store[0].delete_run(runs(store)["pretrain@tiny"].info.run_id)
    assert running.end(), "killed: there is no close"
    assert {name: run.info.status for name, run in runs(store).items()} == {"dvc repro": "KILLED"}


def test_a_full_disk_leaves_no_run_open_and_is_one_line(store, tmp_path, monkeypatch, capsys):
    """The stage could not append its end, and the uploader cannot save how far it got."""
    log = append(tmp_path / "x", opening(), nested("cola"), *losses([0]))
    saved = []
    ended = threading.Event()

    def save(self, state):
        saved.append(True)
        if len(saved) > 1:
            ended.set()
            raise OSError("No space left on device")

    monkeypatch.setattr(EventLog, "save", save)
    assert not uploader.upload(log, ended)
    assert {run.info.status for run in runs(store).values()} == {"KILLED"}
    assert sent(store) == [0]
    for line in capsys.readouterr().err.splitlines():
        assert (
            "No space left on device; what is unsent stays" in line or "has what was kept" in line
        )


def test_what_went_to_a_wrong_address_is_sent_to_the_one_that_is_set(
    store, tmp_path, monkeypatch, capsys
):
    right = os.environ["MLFLOW_TRACKING_URI"]
    folder = tmp_path / "runs" / "x"
    for wrong in ("nonsense://host", "http://127.0.0.1:9", "sqlite:////dev/null/m.db"):
        assert not send(folder, opening(uri=wrong), *losses(range(5)), CLOSE)
        assert "electra sync" in capsys.readouterr().err
        monkeypatch.delenv("MLFLOW_TRACKING_URI")
        assert uploader.sync(folder.parent) == [folder], "the address that the log names"
        monkeypatch.setenv("MLFLOW_TRACKING_URI", right)
        assert uploader.sync(folder.parent) == []
        assert sent(store) == list(range(5))
        store[0].delete_run(runs(store)["pretrain@tiny"].info.run_id)


def test_what_another_store_has_in_part_is_sent_in_full(store, migrated, tmp_path, monkeypatch):
    folder = tmp_path / "runs" / "x"
    assert send(folder, opening(), *losses(range(5)))  # killed
    EventLog(folder).append(losses([5])[0])
    shutil.copy(migrated, tmp_path / "other.db")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/other.db")
    assert uploader.sync(folder.parent) == []
    assert sent(recorder.client()) == list(range(6))


def test_a_fault_of_the_uploader_is_one_line(tmp_path):
    (tmp_path / "x").write_text("a file where a folder of events is expected")
    done = run(ROOT, "-m", "pipelines.tracking.uploader", str(tmp_path / "x"))
    assert done.stderr.count("\n") == 1 and done.stderr.startswith("warning: tracking: ")


def test_only_the_end_of_its_stage_ends_an_uploader(store, tmp_path):
    log = append(tmp_path / "x", opening(), *losses([1, 2]))
    process = tracking.start_uploader(log.folder)
    (blocked,) = re.findall(r"SigBlk:\s+(\w+)", Path(f"/proc/{process.pid}/status").read_text())
    assert int(blocked, 16) & 1 << (signal.SIGINT - 1), "while it starts"
    until(lambda: len(sent(store)) == 2, 60)
    process.terminate()
    log.append(CLOSE)
    process.stdin.close()
    assert process.wait(60) == 0 and status(store) == "FINISHED"
    assert not log.folder.exists()
