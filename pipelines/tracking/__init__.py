"""What happened in a run, told to MLflow: the stage's side.

A stage speaks to a `Tracker`; the tracker writes JSON lines into a pipe; a recorder process (`recorder.py`, the only
file that imports mlflow) reads them, batches the metrics and calls MLflow. So mlflow's seconds of import, a slow database
or a dead server cost the stage nothing: the pipe is never waited for, and the first failure is one line on stderr.

    workflow (parent: made by a flow, or found by the `dvc repro` that started the stage)
    └── stage (one run; its id stands in the run folder, so a resumed stage goes on in its own run)
        └── task, arm, seed (child runs)
"""

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from electra.config import digest
from pipelines import ROOT

PARENT = "ELECTRA_MLFLOW_PARENT"  # environment variable: the run id of the workflow
CLOSE_SECONDS = 60.0  # a stage that is done waits at most this long for its record
BUFFER_BYTES = 8 << 20


class Tracker:
    """One run as a stage sees it. No method raises or waits; without a pipe (`tracking: none`) they do nothing."""

    def __init__(self, pipe: "Pipe | None", path: str = "") -> None:
        self._pipe, self._path = pipe, path

    def metrics(self, step: int, values: dict[str, float]) -> None:
        """Points of curves. Steps that a resumed run has logged before are skipped."""
        self._send("metrics", step=step, values=_numbers(values), time=time.time())

    def summary(self, values: dict[str, float]) -> None:
        """Final numbers of the run."""
        self._send("metrics", step=None, values=_numbers(values), time=time.time())

    def figure(self, path: Path) -> None:
        """A picture that stands on disk."""
        self._send("artifact", file=str(path), folder="figures")

    def artifact(self, path: Path) -> None:
        """A small file that stands on disk; models and data belong to DVC."""
        self._send("artifact", file=str(path), folder="")

    def dataset(self, name: str, digest: str, context: str) -> None:
        """Data that went into the run: a name, a hash, and what it was used for."""
        self._send("dataset", name=name, digest=digest, context=context)

    def tags(self, values: dict[str, str]) -> None:
        """Labels of the run."""
        self._send("tags", values={key: str(value) for key, value in values.items()})

    @contextlib.contextmanager
    def child(self, name: str, params: dict[str, Any]) -> Iterator["Tracker"]:
        """A run nested in this one: a task, an arm, a seed."""
        path = f"{self._path}/{name}".lstrip("/")
        nested = Tracker(self._pipe, path)
        nested._send("open", name=name, params=flatten(params))
        try:
            yield nested
        except BaseException:
            nested._send("close", status="FAILED")
            raise
        nested._send("close", status="FINISHED")

    def _send(self, what: str, **facts: Any) -> None:
        if self._pipe is not None:
            self._pipe.send({"what": what, "run": self._path, **facts})


class Pipe:
    """Lines to the recorder: sent when it has room, kept meanwhile, dropped beyond a bound."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        self._process, self._file, self._owner = process, process.stdin, os.getpid()
        self._waiting, self._lock, self._warned = bytearray(), threading.Lock(), False
        os.set_blocking(self._file.fileno(), False)

    def send(self, message: dict[str, Any]) -> None:
        """Hand over one message; a forked worker's messages are ignored, since two writers would mix lines."""
        if os.getpid() != self._owner:
            return
        with self._lock:
            try:
                if len(self._waiting) < BUFFER_BYTES:
                    self._waiting += json.dumps(message).encode() + b"\n"
                self._push()
            except BrokenPipeError:  # the recorder has given up, and has said why
                self._waiting.clear()
            except (OSError, ValueError, TypeError) as error:
                self.warn(error)

    def _push(self) -> bool:
        while self._waiting:
            try:
                sent = os.write(self._file.fileno(), self._waiting[:65536])
            except BlockingIOError:
                return False
            del self._waiting[:sent]
        return True

    def close(self) -> None:
        """Hand over the rest and wait a while for the record to be complete."""
        deadline = time.monotonic() + CLOSE_SECONDS
        try:
            while not self._push() and time.monotonic() < deadline:
                time.sleep(0.05)
            self._file.close()
        except BrokenPipeError:
            pass
        except (OSError, ValueError) as error:
            self.warn(error)
        try:
            if code := self._process.wait(max(1.0, deadline - time.monotonic())):
                self.warn(f"the recorder ended with {code}")
        except subprocess.TimeoutExpired:
            self.warn(f"no answer within {CLOSE_SECONDS:.0f} s")
        finally:
            with contextlib.suppress(OSError):
                self._process.kill()
                self._process.wait()

    def warn(self, error: object) -> None:
        """Say once that tracking fails."""
        if not self._warned:
            warn(error)
        self._warned = True


def warn(error: object) -> None:
    """One line on stderr; the stage goes on."""
    print(f"warning: tracking: {' '.join(str(error).split())[:300]}; the stage goes on without it", file=sys.stderr)


@contextlib.contextmanager
def open_run(
    stage: str,
    name: str,
    params: dict[str, Any],
    tags: dict[str, str],
    *,
    tracking: str,
    run_folder: Path | None,
    upstream: tuple[str, ...] = (),
) -> Iterator[Tracker]:
    """Track a stage: `mlflow`, or `none`. The run ends FINISHED, or FAILED when the block raises."""
    pipe = _start() if tracking == "mlflow" else None
    tracker = Tracker(pipe)
    key = f"{stage}@{name}" if name else stage
    tracker._send(
        "open",
        name=key,
        params=flatten(params),
        tags={"stage": stage, "name": name, **tags},
        folder=str(run_folder.absolute()) if run_folder else None,
        fingerprint=digest(stage, name, json.loads(json.dumps(params, default=str))),
        upstream=list(upstream),
        workflow=None if os.environ.get(PARENT) else _workflow(),
    )
    try:
        yield tracker
    except BaseException as error:
        tracker._send("close", status="FAILED", error=f"{type(error).__name__}: {error}"[:500])
        raise
    else:
        tracker._send("close", status="FINISHED")
    finally:
        if pipe is not None:
            pipe.close()


def _start() -> "Pipe | None":
    try:
        command = [sys.executable, "-m", "pipelines.tracking.recorder"]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), _pythonpath()]))}
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, env=environment)
        return Pipe(process)
    except OSError as error:
        warn(error)
        return None


def _pythonpath() -> str:
    return os.environ.get("PYTHONPATH", "")


def _workflow() -> tuple[str, str]:
    """A key and a name: stages of one `dvc repro` share a parent, and so do those that a person starts on one day."""
    import psutil

    with contextlib.suppress(psutil.Error):
        for process in reversed(psutil.Process().parents()):
            words = process.cmdline()
            at = next((i for i, word in enumerate(words[:3]) if Path(word).name in {"dvc", "dvc.exe"}), None)
            if at is not None:
                key = f"dvc-{socket.gethostname()}-{process.pid}-{int(process.create_time())}"
                return key, " ".join(["dvc", *(word.rpartition(":")[2] for word in words[at + 1 :])])[:200]
    day = time.strftime("%Y-%m-%d")
    return f"by-hand-{day}", f"by hand, {day}"


def flatten(values: dict[str, Any], prefix: str = "") -> dict[str, str]:
    """Nested settings as `{dotted.key: text}`."""
    flat: dict[str, str] = {}
    for key, value in values.items():
        if isinstance(value, dict) and value:
            flat.update(flatten(value, f"{prefix}{key}."))
        else:
            flat[f"{prefix}{key}"] = value if isinstance(value, str) else json.dumps(value, default=str)
    return flat


def _numbers(values: dict[str, float]) -> dict[str, float]:
    return {key: float(value) for key, value in values.items() if isinstance(value, int | float)}
