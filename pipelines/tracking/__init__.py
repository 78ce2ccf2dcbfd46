"""Tracking of runs with MLflow: the stage's side.

A stage reports to a `Tracker`, which appends events to a log on disk (event_log.py). A background
process (uploader.py) sends them to MLflow (recorder.py). So importing mlflow (6 s), a slow database
or a dead server do not delay the stage, and unsent events stay in the log. Plain
`mlflow.log_metric` with `enable_async_logging` does not give that: when its server was away for
seven seconds, 37 of 60 points were lost and the process ended with an exception.
"""

import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from electra.config import digest, leaves
from electra.errors import Stopped, mask_secrets
from electra.stopping import Interrupted, block_terminal_signals
from pipelines import ROOT
from pipelines.tracking.event_log import Event, EventLog
from pipelines.tracking.lineage import dvc_hashes, user

FOLDER = "tracking"  # in runs/: logs that MLflow does not have yet
PARENT = "ELECTRA_MLFLOW_PARENT"  # environment variable: the run id of the workflow
# A flow waits so long for its end to be sent. The rest of its time is Prefect's.
WORKFLOW_SECONDS = 20.0
CLOSE_SECONDS = 60.0  # that a stage waits for its events to be sent
NOTE = "mlflow.note.content"  # the tag that MLflow shows as a run's description


class Tracker:
    """A run, for its stage. No method raises or blocks. Without a sender (`tracking: none`) they do
    nothing.
    """

    def __init__(self, sender: "Sender | None", path: str = "") -> None:
        self._sender = sender
        self._path = path
        self.clock: dict[int, float] = {}  # step of an evaluation -> time.monotonic()

    def metrics(self, step: int | None, values: Mapping[str, Any]) -> None:
        """Record points of curves. Steps that a resumed run recorded before are skipped."""
        if step is not None and "valid/loss" in values:
            self.clock[step] = time.monotonic()
        numbers = {
            key: float(value)
            for key, value in leaves(values, "/")
            if isinstance(value, int | float)
        }
        self._send("metrics", step=step, values=numbers)

    def summary(self, values: Mapping[str, Any]) -> None:
        """Record final numbers. Those of a section are `section/key`. Texts are left out."""
        self.metrics(None, values)

    def artifact(self, path: Path, folder: str = "") -> None:
        """Record a small file. Models and data belong to DVC."""
        self._send("artifact", file=str(path), folder=folder)

    def dataset(self, name: str, digest: str, context: str) -> None:
        """Record an input: its name, its hash and its use."""
        self._send("dataset", name=name, digest=digest, context=context)

    def tags(self, values: Mapping[str, str]) -> None:
        """Label the run."""
        self._send("tags", values={key: str(value) for key, value in values.items()})

    def child(
        self,
        name: str,
        params: Mapping[str, Any],
        started: float | None = None,
        ended: float | None = None,
    ) -> contextlib.AbstractContextManager["Tracker"]:
        """Open a run nested in this one: a task or an arm.

        `started` and `ended` are of time.time(), for a child that is recorded when it is over.
        """
        child = Tracker(self._sender, f"{self._path}/{name}".lstrip("/"))
        return child.open(started, ended, name=name, params=flatten(params))

    @contextlib.contextmanager
    def open(
        self, started: float | None = None, ended: float | None = None, **facts: Any
    ) -> Iterator["Tracker"]:
        """Open the run, and close it as FINISHED, as KILLED when stopped, or as FAILED when the
        block raises.
        """
        self._send("open", at=started, **facts)
        try:
            yield self
        except BaseException as error:
            stopped = isinstance(error, Stopped | Interrupted | KeyboardInterrupt)
            message = mask_secrets(f"{type(error).__name__}: {error}")[:500]
            self._send("close", status="KILLED" if stopped else "FAILED", error=message)
            raise
        self._send("close", at=ended, status="FINISHED")

    def _send(self, what: str, at: float | None = None, **facts: Any) -> None:
        if self._sender is not None:
            moment = time.time() if at is None else at
            self._sender.send({"what": what, "run": self._path, "time": moment, **facts})


class Sender:
    """Appends events to a run's log, and runs the uploader until this end of its standard input is
    closed.
    """

    def __init__(self, folder: Path) -> None:
        self._log = EventLog(folder)
        self._owner = os.getpid()
        self._warned = False
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def send(self, event: Event) -> None:
        """Append an event, and start the uploader with the first. Forked workers send nothing."""
        if os.getpid() != self._owner:
            return
        try:
            with self._lock:
                if event["what"] == "artifact":
                    event = {**event, "file": self._log.keep(Path(event["file"]))}
                self._log.append(event)
                if self._process is None and not self._warned:
                    self._process = start_uploader(self._log.folder)
        except (OSError, ValueError, TypeError) as error:
            self._warn(error)

    def close(self) -> None:
        """Wait until MLflow has all events or does not answer. An uploader that takes too long is
        killed.
        """
        try:
            self.leave(CLOSE_SECONDS)
        except (OSError, subprocess.TimeoutExpired):
            self._warn(f"MLflow did not answer in time; `electra sync` sends {self._log.folder}")
            if self._process is not None:
                self._process.kill()
                self._process.wait()

    def leave(self, seconds: float) -> None:
        """Close this end and wait for the uploader. Raises TimeoutExpired if it needs longer, and
        lets it run.
        """
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            self._process.wait(seconds)

    def _warn(self, error: object) -> None:
        if not self._warned:
            warn(error, "the stage continues without it")
        self._warned = True


def warn(error: object, *consequences: str) -> None:
    """Print one line on stderr: an error, cut to 400 characters, and its consequences."""
    short = mask_secrets(" ".join(str(error).split()))[:400]
    line = "; ".join([f"warning: tracking: {short}", *consequences])
    print(line, file=sys.stderr, flush=True)


@contextlib.contextmanager
def open_run(
    stage: str,
    name: str,
    *,
    tracking: str,
    run_folder: Path,
    params: Mapping[str, Any] | None = None,
    tags: Mapping[str, str] | None = None,
    upstream: Sequence[str] = (),
) -> Iterator[Tracker]:
    """Track a stage in MLflow, unless `tracking` is `none`. `upstream`: the stages that it reads.

    The log is in `tracking/` next to `run_folder`, a different one for other settings or another
    store.
    """
    if tracking != "mlflow":
        yield Tracker(None)
        return
    settings = flatten(params or {})
    # the process that sends the log has the login in its environment
    store = mask_secrets(address())
    fingerprint = digest(stage, name, store, settings)
    folder = run_folder.absolute().parent / FOLDER / f"{run_folder.name}-{fingerprint[:12]}"
    labels = {
        "stage": stage,
        "name": name,
        "mlflow.source.name": f"python -m pipelines {stage} {name}".rstrip(),
        **(tags or {}),
    }
    parent = os.environ.get(PARENT, "")
    sender = Sender(folder)
    try:
        with Tracker(sender).open(
            name=f"{stage}@{name}" if name else stage,
            params=settings,
            tags=labels,
            uri=store,
            parent=parent,
            workflow=None if parent else _find_workflow(),
            upstream=list(upstream),
        ) as tracker:
            yield tracker
    finally:
        sender.close()


def end_workflow(
    run_id: str, status: str, folder: Path, stages: Sequence[str] | None = None
) -> None:
    """End a workflow's run in the project's copy `folder`, and tag its stages with the hashes of
    their outs. `sync` does it if MLflow does not answer.

    A part of a workflow names its `stages`. The status "" leaves the run open.
    """
    hashes = dvc_hashes(folder)
    if stages is not None:
        hashes = {stage: outs for stage, outs in hashes.items() if stage in stages}
    sender = Sender(folder.absolute() / "runs" / FOLDER / f"workflow-{run_id}")
    event = {
        "what": "end",
        "run": "",
        "time": time.time(),
        "workflow": run_id,
        "status": status,
        "uri": mask_secrets(address()),
        "hashes": hashes,
    }
    sender.send(event)
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        sender.leave(WORKFLOW_SECONDS)


def address() -> str:
    """Return the tracking store as it is set: MLFLOW_TRACKING_URI, else the database that a plain
    `mlflow ui` opens. Logs name it so: they may be sent after their project was moved.
    """
    return os.environ.get("MLFLOW_TRACKING_URI") or "sqlite:///mlflow.db"


def uri(store: str = "") -> str:
    """Return the whole address of a store ("": the one that is set).

    A relative path, of a database or a folder, is one in the project's folder, where `mlflow ui` is
    started.
    """
    store = store or address()
    if re.match("sqlite:///[^/]", store):
        return f"sqlite:///{urllib.parse.quote(str(ROOT))}/{store.removeprefix('sqlite:///')}"
    if re.match(r"databricks|[\w+]+:", store):
        # of `sqlite:////$PWD/x.db`: MLflow would take the first folder for the name of a machine
        return re.sub("^sqlite:////+", "sqlite:////", store)
    return str(ROOT / store)


def start_uploader(folder: Path) -> subprocess.Popen[bytes]:
    """Start the process that sends a log to MLflow."""
    command = [sys.executable, "-m", "pipelines.tracking.uploader", str(folder)]
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    environment = {**os.environ, "PYTHONPATH": path}
    with block_terminal_signals():
        return subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, env=environment
        )


def _find_workflow() -> tuple[str, str]:
    """Return key and name of the run above a stage's: its `dvc repro`, or all stages started by
    hand on one day.
    """
    import psutil

    host = socket.gethostname()
    with contextlib.suppress(psutil.Error, OSError):
        for process in psutil.Process().parents():
            words = process.cmdline()
            # `dvc`, `python …/dvc`, `python -m dvc`
            programs = [Path(word).name for word in words[:3]]
            if "dvc" in programs:
                targets = [word.rpartition(":")[2] for word in words[programs.index("dvc") + 1 :]]
                key = f"dvc-{host}-{process.pid}-{int(process.create_time())}"
                return key, " ".join(["dvc", *targets])[:200]
    day = time.strftime("%Y-%m-%d")
    return f"by-hand-{day}-{user()}-{host}", f"by hand, {day}"


def flatten(values: Mapping[str, Any]) -> dict[str, str]:
    """Return nested settings as `{dotted.key: text}`."""
    return {
        key: value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)
        for key, value in leaves(values)
    }
