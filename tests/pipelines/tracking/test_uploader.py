"""MLflow that goes, comes back, loses answers or never answers: each point is sent once, and no stage waits long."""

import http.server
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pipelines.tracking import recorder, uploader
from pipelines.tracking.event_log import EventLog
from tests.conftest import until
from tests.pipelines.tracking.events import CLOSE, append, metric, opening, send, stage

OPEN = opening(uri="fake", parent="p", workflow=None)


def losses(steps: Any) -> list[dict[str, Any]]:
    return [metric(step, loss=float(step)) for step in steps]


class Store:
    """An MLflow client of our own; nobody answers while it is `down`."""

    def __init__(self) -> None:
        self.down, self.status, self.calls = False, "", 0
        self.points: set[tuple[str, int, int]] = set()  # as MLflow, whose table has equal points once
        self.made: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("do_"):
            raise AttributeError(name)

        def call(*words: Any, **facts: Any) -> Any:
            self.calls += 1
            if self.down:
                raise ConnectionError(f"{name}: nobody answers")
            return getattr(self, f"do_{name}", lambda *_, **__: None)(*words, **facts)

        return call

    def do_search_runs(self, experiments: Any, query: str, **_: Any) -> list[Any]:
        return [run for run in self.made if run.data.tags.get(recorder.KEY, "no") in query]

    def do_create_run(self, experiment: str, tags: dict[str, str], run_name: str) -> Any:
        info = SimpleNamespace(run_id=f"run-{len(self.made)}", run_name=run_name, status="RUNNING")
        self.made.append(SimpleNamespace(info=info, data=SimpleNamespace(tags=tags)))
        return self.made[-1]

    def do_log_batch(self, run: str, metrics: Any = (), params: Any = ()) -> None:
        self.points.update((point.key, point.step, point.timestamp) for point in metrics)

    def do_get_metric_history(self, run: str, key: str) -> list[Any]:
        return [SimpleNamespace(key=key, step=step) for name, step, _ in self.points if name == key]

    def do_set_terminated(self, run: str, status: str) -> None:
        self.status = status


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Store:
    made = Store()

    def client(uri: str) -> Any:
        made.get_experiment("1")
        return made, "1"

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


def has_every_point(store: Store, count: int) -> bool:
    return store.points == {("loss", step, step * 1000) for step in range(count)}


def test_an_outage_leaves_no_hole_and_is_reported_once(store: Store, tmp_path: Path, capsys) -> None:
    running = Stage(tmp_path / "x")
    running.say(OPEN, *losses(range(10)))
    until(lambda: len(store.points) == 10)
    store.down, before = True, store.calls
    running.say(*losses(range(10, 20)))
    until(lambda: store.calls > before + 12)
    store.down = False
    until(lambda: len(store.points) == 20)
    running.say(*losses([20]), CLOSE)
    assert running.end()
    assert has_every_point(store, 21) and store.status == "FINISHED" and len(store.made) == 1
    said = capsys.readouterr().err.splitlines()
    assert [line.partition(":")[0] for line in said] == ["warning", "tracking"], said
    assert "pipelines sync" in said[0] and "answers again" in said[1]
    assert not (tmp_path / "x").exists()


def test_what_was_not_sent_is_sent_at_the_next_start_or_by_sync(store: Store, tmp_path: Path) -> None:
    store.down = True
    folder = tmp_path / "x"
    assert not send(folder, OPEN, *losses(range(10)))  # killed: there is no close
    assert not send(folder, OPEN, *losses(range(5, 15)), CLOSE)
    assert uploader.sync(tmp_path) == [folder]
    store.down = False
    assert uploader.sync(tmp_path) == []
    assert has_every_point(store, 15) and store.status == "FINISHED" and len(store.made) == 1
    assert not folder.exists()


def test_a_log_is_sent_by_one_process_at_a_time(store: Store, tmp_path: Path) -> None:
    running = Stage(tmp_path / "x")
    running.say(OPEN)
    until(lambda: store.made)
    running.say(*losses([0]))
    assert uploader.sync(tmp_path) == []
    assert running.end() and store.status == "KILLED" and has_every_point(store, 1)


def test_the_machines_load_goes_on_after_an_outage(store: Store, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(uploader, "SYSTEM_SECONDS", 0.01)
    running = Stage(tmp_path / "x", load=lambda: {"system/cpu": 1.0})
    running.say(OPEN)
    until(lambda: len(store.points) > 3)
    store.down, before = True, store.calls
    until(lambda: store.calls > before + 5)
    store.down, before = False, len(store.points)
    until(lambda: len(store.points) > before + 5)
    assert running.end()
    assert sorted(step for _, step, _ in store.points) == list(range(len(store.points)))


def test_a_torn_line_costs_that_line_and_a_damaged_state_a_second_sending(store: Store, tmp_path: Path) -> None:
    log = append(tmp_path / "x", OPEN, *losses([0]))
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
    assert has_every_point(store, 2)


# ---------------------------------------- a stage of its own process, and servers that misbehave


class Answer(http.server.BaseHTTPRequestHandler):
    """A server that answers 500, or takes a request and never answers."""

    hangs = False

    def do_GET(self) -> None:
        if self.hangs:
            time.sleep(300)
        self.send_error(500)

    do_POST = do_GET

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(params=["no database", "refused", "hangs", "500"])
def dead(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    if request.param == "no database":
        yield "sqlite:////dev/null/mlflow.db"
        return
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        server.daemon_threads = True
        url = f"http://127.0.0.1:{server.server_port}"
        if request.param == "refused":
            server.server_close()
            yield url
            return
        monkeypatch.setattr(Answer, "hangs", request.param == "hangs")
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield url
        server.shutdown()


@pytest.mark.slow
def test_a_dead_server_ends_no_stage_and_loses_no_point(dead: str, tmp_path: Path) -> None:
    process = stage(tmp_path, 5000, dead)
    out, err = process.communicate(timeout=200)
    assert process.returncode == 0 and out == "trained\ndone\n"
    assert len(err.splitlines()) == 1 and "pipelines sync" in err, err
    (folder,) = (tmp_path / "runs" / "tracking").iterdir()
    events, _ = EventLog(folder).read(0, 10_000)
    assert [event["step"] for event in events if "loss" in event.get("values", {})] == list(range(5000))
    assert events[-1]["status"] == "FINISHED"
