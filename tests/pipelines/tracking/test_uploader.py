"""A store that goes, comes back, loses answers or never answers: each point is sent once, and no process waits long."""

import http.server
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from electra.errors import Stopped
from pipelines import tracking
from pipelines.tracking import Tracker, recorder, uploader
from pipelines.tracking.event_log import Spool
from pipelines.tracking.uploader import Delivery
from tests.conftest import ROOT, environment

OPEN = {"what": "open", "run": "", "name": "pretrain@x", "params": {"a": "1"}, "tags": {}, "uri": "fake", "parent": "p"}
OPEN |= {"workflow": None, "upstream": []}
CLOSE = {"what": "close", "run": "", "status": "FINISHED"}


def metric(step: int) -> dict[str, Any]:
    return {"what": "metrics", "run": "", "step": step, "values": {"loss": float(step)}, "time": float(step)}


class Store:
    """An MLflow client of our own. `down`: nobody answers; `forgetful`: what is written is kept and the answer lost."""

    def __init__(self) -> None:
        self.down = self.forgetful = False
        self.deadly = ""
        self.points: Counter[tuple[str, int, int]] = Counter()
        self.made: list[Any] = []
        self.status = ""
        self.calls = 0

    def __getattr__(self, name: str) -> Any:
        if name.startswith("do_"):
            raise AttributeError(name)

        def call(*words: Any, **facts: Any) -> Any:
            self.calls += 1
            if self.down:
                raise ConnectionError(f"{name}: nobody answers")
            found = getattr(self, f"do_{name}", lambda *_, **__: None)(*words, **facts)
            if self.deadly == name:
                raise SystemExit  # the recorder is killed before it hears the answer
            if self.forgetful and name in {"log_batch", "create_run"}:
                self.forgetful = False
                raise ConnectionError(f"{name}: the answer was lost")
            return found

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
        return [SimpleNamespace(key=key, step=step, timestamp=when) for name, step, when in self.points if name == key]

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
    """A stage, and the recorder behind it in a thread."""

    def __init__(self, folder: Path, **more: Any) -> None:
        self.spool, self.ended, self.answer = Spool(folder), threading.Event(), list[bool]()
        self.delivery = Delivery(Spool(folder), recorder.Recorder, self.ended, **more)
        self.thread = threading.Thread(target=lambda: self.answer.append(self.delivery.run()), daemon=True)
        self.thread.start()

    def say(self, *messages: dict[str, Any]) -> None:
        for message in messages:
            self.spool.append(message)

    def end(self) -> bool:
        self.ended.set()
        self.thread.join(60)
        return self.answer[0]


def until(fact: Any) -> None:
    deadline = time.monotonic() + 60
    while not fact():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def every_point_once(store: Store, count: int) -> bool:
    return store.points == Counter({("loss", step, step * 1000): 1 for step in range(count)})


def test_an_outage_in_mid_run_leaves_no_hole(store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stage = Stage(tmp_path / "x")
    stage.say(OPEN, *map(metric, range(10)))
    until(lambda: len(store.points) == 10)
    store.down, before = True, store.calls
    for step in range(10, 20):
        stage.say(metric(step))
    until(lambda: store.calls > before + 12)  # many more failures than the three that ended a record once
    store.down = False
    until(lambda: len(store.points) == 20)
    stage.say(metric(20), CLOSE)
    assert stage.end()
    assert every_point_once(store, 21) and store.status == "FINISHED" and len(store.made) == 1
    said = capsys.readouterr().err.splitlines()
    assert [line.partition(":")[0] for line in said] == ["warning", "tracking"], said
    assert "pipelines sync" in said[0] and "answers again" in said[1]
    assert not (tmp_path / "x").exists()


def test_a_line_that_the_disk_has_spoilt_is_left_out(store: Store, tmp_path: Path) -> None:
    spool = Spool(tmp_path / "x")
    for message in (OPEN, *map(metric, range(3)), CLOSE):
        spool.append(message)
    spool.lines.write_bytes(spool.lines.read_bytes().replace(b'"loss": 1.0', b'"loss": 3.0'))
    assert [message is None for message, _ in spool.read(0)] == [False, False, True, False, False]
    stage = Stage(tmp_path / "x")
    assert stage.end()
    assert {step for _, step, _ in store.points} == {0, 2}


def test_a_damaged_state_sends_all_of_it_again(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "x")
    spool.append(OPEN)
    spool.save({**spool.state(), "offset": 10})
    assert spool.state()["offset"] == 10
    path = tmp_path / "x" / "state.json"
    path.write_text(path.read_text().replace("10", "90"))
    assert spool.state()["offset"] == 0


def test_an_answer_that_was_lost_doubles_nothing(store: Store, tmp_path: Path) -> None:
    store.forgetful = True  # for the run
    stage = Stage(tmp_path / "x")
    stage.say(OPEN, *map(metric, range(10)))
    until(lambda: len(store.points) == 10)
    store.forgetful = True  # for the points
    stage.say(*map(metric, range(10, 15)), CLOSE)
    assert stage.end()
    assert every_point_once(store, 15) and len(store.made) == 1


@pytest.mark.parametrize("call", ["create_run", "log_batch", "set_terminated"])
def test_a_recorder_that_is_killed_doubles_nothing(call: str, store: Store, tmp_path: Path) -> None:
    spool = Spool(tmp_path / "x")
    for message in ({**OPEN, "params": {}}, *map(metric, range(10)), CLOSE):
        spool.append(message)
    store.deadly = call
    with pytest.raises(SystemExit):
        recorder.sync(tmp_path)
    store.deadly = ""
    assert recorder.sync(tmp_path) == []
    assert every_point_once(store, 10) and len(store.made) == 1 and store.status == "FINISHED"


def test_a_store_that_stays_away_is_told_at_the_next_start_or_by_sync(store: Store, tmp_path: Path) -> None:
    store.down = True
    folder = tmp_path / "x"
    stage = Stage(folder)
    stage.say(OPEN, *map(metric, range(10)))
    assert not stage.end()  # killed: there is no close
    stage = Stage(folder)
    stage.say(OPEN, *map(metric, range(5, 15)), CLOSE)
    assert not stage.end()
    assert recorder.sync(tmp_path) == [folder]
    store.down = False
    assert recorder.sync(tmp_path) == []
    assert every_point_once(store, 15) and store.status == "FINISHED" and len(store.made) == 1
    assert not folder.exists()


def test_a_spool_is_told_by_one_process_at_a_time(
    store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stage = Stage(tmp_path / "x")
    stage.say(OPEN)
    until(lambda: store.made)
    stage.say(metric(0))
    assert recorder.sync(tmp_path) == []
    assert stage.end() and store.status == "KILLED" and every_point_once(store, 1)


def test_the_machines_load_goes_on_after_an_outage(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploader, "SYSTEM_SECONDS", 0.01)
    stage = Stage(tmp_path / "x", system=lambda: lambda: {"system/cpu": 1.0})
    stage.say(OPEN)
    until(lambda: len(store.points) > 3)
    store.down, before = True, store.calls
    until(lambda: store.calls > before + 5)
    store.down, before = False, len(store.points)
    until(lambda: len(store.points) > before + 5)
    assert stage.end()
    assert sorted(step for _, step, _ in store.points) == list(range(len(store.points)))


def test_a_line_cut_short_costs_that_line(store: Store, tmp_path: Path) -> None:
    spool = Spool(tmp_path / "x")
    for message in (OPEN, metric(0)):
        spool.append(message)
    with spool.lines.open("ab") as file:
        file.write(b'{"what": "metr\nnull\n[1]\n')
    spool.append(metric(1))
    spool.append(CLOSE)
    assert recorder.sync(tmp_path) == []
    assert every_point_once(store, 2)


def test_a_long_spool_is_read_in_pieces(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[Spool.__module__], "CHUNK", 300)
    spool = Spool(tmp_path / "x")
    for message in (OPEN, *map(metric, range(50)), CLOSE):
        spool.append(message)
    assert all(end <= 300 for _, end in spool.read(0))
    assert recorder.sync(tmp_path) == []
    assert every_point_once(store, 50)


def test_a_stop_is_told_as_killed() -> None:
    said: list[dict[str, Any]] = []
    tracker = Tracker(SimpleNamespace(send=said.append))  # type: ignore[arg-type]
    for error, status in ((Stopped("x", "stopped"), "KILLED"), (KeyboardInterrupt(), "KILLED"), (OSError(), "FAILED")):
        with pytest.raises(type(error)), tracker.child("a", {}):
            raise error
        assert said[-1]["status"] == status == tracking._status(error)


# ---------------------------------------------------------------- a stage of its own process, and stores that misbehave

STAGE = """
import time
from pathlib import Path
from pipelines.tracking import Start, open_run
with open_run(Start("pretrain", "x"), tracking="mlflow", run_folder=Path("runs/x")) as tracker:
    started = time.perf_counter()
    for step in range(5000):
        tracker.metrics(step, {"loss": 1.0})
    print("trained", flush=True)
"""


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


@pytest.fixture(params=["refused", "hangs", "500"])
def dead(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
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
    values = environment(ROOT, MLFLOW_TRACKING_URI=dead)
    command = [sys.executable, "-c", STAGE]
    done = subprocess.run(command, cwd=tmp_path, env=values, capture_output=True, text=True, timeout=200, check=True)
    assert done.stdout == "trained\n"
    assert len(done.stderr.splitlines()) == 1 and "pipelines sync" in done.stderr, done.stderr
    (folder,) = (tmp_path / "runs" / "tracking").iterdir()
    messages = [message for message, _ in Spool(folder).read(0) if message]
    curve = [message["step"] for message in messages if "loss" in message.get("values", {})]
    assert curve == list(range(5000)) and messages[-1]["status"] == "FINISHED"
