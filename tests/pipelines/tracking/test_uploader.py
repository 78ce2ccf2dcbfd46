"""MLflow that goes and comes back: each point is sent once (one that never answers: `benchmarks.reliability`)."""

import threading
from pathlib import Path
from typing import Any

import pytest

from pipelines.tracking import recorder, uploader
from pipelines.tracking.event_log import EventLog
from tests.conftest import until
from tests.pipelines.tracking.events import CLOSE, append, metric, opening, points, runs, send


def losses(steps: Any) -> list[dict[str, Any]]:
    return [metric(step, loss=float(step)) for step in steps]


class Flaky:
    """A client of MLflow that nobody answers while it is `down`."""

    def __init__(self, client: Any) -> None:
        self.client, self.down, self.calls = client, False, 0

    def __getattr__(self, name: str) -> Any:
        self.calls += 1
        if self.down:
            raise ConnectionError(f"{name}: nobody answers")
        return getattr(self.client, name)


@pytest.fixture
def flaky(store: Any, monkeypatch: pytest.MonkeyPatch) -> Flaky:
    made = Flaky(store[0])

    def client(uri: str) -> Any:
        made.get_experiment(store[1])
        return made, store[1]

    monkeypatch.setattr(recorder, "client", client)
    monkeypatch.setattr(uploader, "FLUSH_SECONDS", 0.01)
    monkeypatch.setattr(uploader, "PAUSES", (0.01, 0.02))
    return made


class Stage:
    """A stage, and the uploader behind it in a thread."""

    def __init__(self, folder: Path, load: uploader.Load | None = None) -> None:
        self.log, self.ended, self.answer = EventLog(folder), threading.Event(), list[bool]()
        work = (EventLog(folder), self.ended, load)
        self.thread = threading.Thread(target=lambda: self.answer.append(uploader.upload(*work)), daemon=True)
        self.thread.start()

    def say(self, *events: dict[str, Any]) -> None:
        for event in events:
            self.log.append(event)

    def end(self) -> bool:
        self.ended.set()
        self.thread.join(60)
        return self.answer[0]


def sent(store: Any, key: str = "loss") -> list[int]:
    """The steps of a metric that MLflow has."""
    run = runs(store).get("pretrain@tiny")
    return [step for step, _ in points(store, run, key)] if run else []


def status(store: Any) -> str:
    """Of the stage's run, of which there is one."""
    return {name: run.info.status for name, run in runs(store).items()}["pretrain@tiny"]


def test_an_outage_leaves_no_hole_and_is_reported_once(store: Any, flaky: Flaky, tmp_path: Path, capsys) -> None:
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
    said = capsys.readouterr().err.splitlines()
    assert [line.partition(":")[0] for line in said] == ["warning", "tracking"], said
    assert "pipelines sync" in said[0] and "answers again" in said[1]
    assert not (tmp_path / "x").exists()


def test_what_was_not_sent_is_sent_at_the_next_start_or_by_sync(store: Any, flaky: Flaky, tmp_path: Path) -> None:
    flaky.down = True
    folder = tmp_path / "x"
    assert not send(folder, opening(), *losses(range(10)))  # killed: there is no close
    assert not send(folder, opening(), *losses(range(5, 15)), CLOSE)
    assert uploader.sync(tmp_path) == [folder]
    flaky.down = False
    assert uploader.sync(tmp_path) == []
    assert sent(store) == list(range(15)) and status(store) == "FINISHED" and not folder.exists()


def test_a_log_is_sent_by_one_process_at_a_time(store: Any, flaky: Flaky, tmp_path: Path) -> None:
    running = Stage(tmp_path / "x")
    running.say(opening())
    until(lambda: runs(store))
    running.say(*losses([0]))
    assert uploader.sync(tmp_path) == []
    assert running.end() and status(store) == "KILLED" and sent(store) == [0]


def test_the_machines_load_goes_on_after_an_outage(store: Any, flaky: Flaky, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(uploader, "SYSTEM_SECONDS", 0.01)
    running = Stage(tmp_path / "x", load=lambda: {"system/cpu": 1.0})
    running.say(opening())
    until(lambda: len(sent(store, "system/cpu")) > 3)
    flaky.down, before = True, flaky.calls
    until(lambda: flaky.calls > before + 5)
    flaky.down, before = False, len(sent(store, "system/cpu"))
    until(lambda: len(sent(store, "system/cpu")) > before + 5)
    assert running.end()
    assert (steps := sent(store, "system/cpu")) == list(range(len(steps)))


def test_a_torn_line_costs_that_line_and_a_damaged_state_a_second_sending(store, flaky, tmp_path):
    log = append(tmp_path / "x", opening(), *losses([0]))
    with log.lines.open("ab") as file:
        file.write(b'{"what": "metr\n')
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
