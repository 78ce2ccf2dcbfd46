"""Tracking of runs with MLflow: the stage's side.

A stage reports to a `Tracker`, which appends events to a log on disk (event_log.py). A background
process (uploader.py) sends them to MLflow (recorder.py). So importing mlflow (6 s), a slow database
or a dead server do not delay the stage, and what could not be sent stays in the log. Plain
`mlflow.log_metric` with `enable_async_logging` does not give that: when its server was away for
seven seconds, 37 of 60 points were lost and the process ended with an exception.
"""

import contextlib
import getpass
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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from electra.config import digest
from electra.errors import Stopped, hidden
from electra.stopping import Interrupted
from pipelines import ROOT
from pipelines.tracking.event_log import Event, EventLog
from pipelines.tracking.lineage import dvc_hashes

FOLDER = "tracking"  # in runs/: logs that MLflow does not have yet
PARENT = "ELECTRA_MLFLOW_PARENT"  # environment variable: the run id of the workflow
# that a flow waits for its end to be sent; the rest of its time is Prefect's
WORKFLOW_SECONDS = 20.0
CLOSE_SECONDS = 60.0  # that a stage waits for its events to be sent


class Tracker:
    """A run, for its stage. No method raises or blocks; without a sender (`tracking: none`) they do
    nothing.
    """

    def __init__(self, sender: "Sender | None", path: str = "") -> None:
        self._sender, self._path = sender, path
        self.clock: dict[int, float] = {}  # step of an evaluation -> time.monotonic()

    def metrics(self, step: int, values: dict[str, float]) -> None:
        """Points of curves. Steps that a resumed run logged before are skipped."""
        if "valid/loss" in values:
            self.clock[step] = time.monotonic()
        self._send("metrics", step=step, values=_numbers(values), time=time.time())

    def summary(self, values: dict[str, Any]) -> None:
        """Final numbers of the run; those of a section are `section/key`, and what is no number is
        left out.
        """
        self._send("metrics", step=None, values=_numbers(values), time=time.time())

    def artifact(self, path: Path, folder: str = "") -> None:
        """A small file on disk; models and data belong to DVC."""
        self._send("artifact", file=str(path), folder=folder)

    def dataset(self, name: str, digest: str, context: str) -> None:
        """An input data set of the run: its name, hash and use."""
        self._send("dataset", name=name, digest=digest, context=context)

    def tags(self, values: dict[str, str]) -> None:
        """Labels of the run."""
        self._send("tags", values={key: str(value) for key, value in values.items()})

    def child(
        self, name: str, params: dict[str, Any]
    ) -> contextlib.AbstractContextManager["Tracker"]:
        """A run nested in this one: a task, an arm, a seed."""
        return Tracker(self._sender, f"{self._path}/{name}".lstrip("/")).open(
            name=name, params=flatten(params)
        )

    @contextlib.contextmanager
    def open(self, **facts: Any) -> Iterator["Tracker"]:
        """The run from its beginning to its end: FINISHED, KILLED when stopped, FAILED when the
        block raises.
        """
        self._send("open", **facts)
        try:
            yield self
        except BaseException as error:
            status = (
                "KILLED"
                if isinstance(error, Stopped | Interrupted | KeyboardInterrupt)
                else "FAILED"
            )
            self._send(
                "close", status=status, error=hidden(f"{type(error).__name__}: {error}")[:500]
            )
            raise
        self._send("close", status="FINISHED")

    def _send(self, what: str, **facts: Any) -> None:
        if self._sender is not None:
            self._sender.send({"what": what, "run": self._path, **facts})


class Sender:
    """Appends events to a run's log, and runs the uploader until this end of its standard input is
    closed.
    """

    def __init__(self, folder: Path) -> None:
        self._log, self._owner, self._warned = EventLog(folder), os.getpid(), False
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def send(self, event: Event) -> None:
        """Append an event, and start the uploader with the first; events of forked workers are
        ignored.
        """
        if os.getpid() != self._owner:
            return
        try:
            with self._lock:
                self._log.append(event)
                if self._process is None and not self._warned:
                    self._process = _uploader(self._log.folder)
        except (OSError, ValueError, TypeError) as error:
            self._warn(error)

    def close(self) -> None:
        """Wait until MLflow has all events or does not answer; an uploader that takes too long is
        killed.
        """
        try:
            self.leave(CLOSE_SECONDS)
        except (OSError, subprocess.TimeoutExpired):
            self._warn(f"MLflow did not answer in time; `electra sync` sends {self._log.folder}")
            assert self._process is not None
            self._process.kill()
            self._process.wait()

    def leave(self, seconds: float) -> None:
        """Close this end and wait for the uploader; raises TimeoutExpired if it needs longer, and
        lets it run.
        """
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            self._process.wait(seconds)

    def _warn(self, error: object) -> None:
        if not self._warned:
            warn(error, "the stage goes on without it")
        self._warned = True


def warn(error: object, *more: str) -> None:
    """One line on stderr: an error, cut to 400 characters, and what follows from it."""
    short = hidden(" ".join(str(error).split()))[:400]
    print("; ".join([f"warning: tracking: {short}", *more]), file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Start:
    """A stage's run as it starts; `upstream` are the stages whose outs it reads."""

    stage: str
    name: str
    params: dict[str, Any] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    upstream: tuple[str, ...] = ()


@contextlib.contextmanager
def open_run(start: Start, *, tracking: str, run_folder: Path) -> Iterator[Tracker]:
    """Track a stage: `mlflow` or `none`.

    The log is in `tracking/` beside `run_folder`, a different one for other settings or another
    store.
    """
    key = f"{start.stage}@{start.name}" if start.name else start.stage
    store = hidden(uri())  # whoever sends the log has the login in its own environment
    fingerprint = digest(
        start.stage, start.name, store, json.loads(json.dumps(start.params, default=str))
    )
    folder = run_folder.absolute().parent / FOLDER / f"{run_folder.name}-{fingerprint[:12]}"
    sender = Sender(folder) if tracking == "mlflow" else None
    tags = {"stage": start.stage, "name": start.name}
    tags["mlflow.source.name"] = f"python -m pipelines {start.stage} {start.name}".rstrip()
    if "DVC_STAGE" in os.environ:
        tags["dvc.stage"] = os.environ["DVC_STAGE"]
    tags |= start.tags
    parent = os.environ.get(PARENT, "")
    above = {
        "parent": parent,
        "workflow": None if parent else _workflow(),
        "upstream": list(start.upstream),
    }
    try:
        with Tracker(sender).open(
            name=key, params=flatten(start.params), tags=tags, uri=store, **above
        ) as tracker:
            yield tracker
    finally:
        if sender is not None:
            sender.close()


def end_workflow(
    run_id: str, status: str, folder: Path | None = None, stages: Sequence[str] | None = None
) -> None:
    """End a workflow's run and tag its stages with the hashes of their outs; `sync` does it if
    MLflow does not answer.

    A part of a workflow names its `stages`; the status "" leaves the run open.
    """
    hashes = dvc_hashes(folder or ROOT)
    if stages is not None:
        hashes = {stage: outs for stage, outs in hashes.items() if stage in stages}
    sender = Sender((folder or Path()).absolute() / "runs" / FOLDER / f"workflow-{run_id}")
    end = {
        "what": "end",
        "run": "",
        "workflow": run_id,
        "status": status,
        "uri": hidden(uri()),
        "hashes": hashes,
    }
    sender.send(end)
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        sender.leave(WORKFLOW_SECONDS)


def uri() -> str:
    """Return the tracking store: MLFLOW_TRACKING_URI, else the database that a plain `mlflow ui`
    opens.

    A relative path, of a database or a folder, is one in the project's folder, where `mlflow ui` is
    started.
    """
    address = os.environ.get("MLFLOW_TRACKING_URI") or "sqlite:///mlflow.db"
    if re.match("sqlite:///[^/]", address):
        return f"sqlite:///{urllib.parse.quote(str(ROOT))}/{address.removeprefix('sqlite:///')}"
    if re.match(r"databricks|[\w+]+:", address):
        return address
    return str(ROOT / address)


def _uploader(folder: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "pipelines.tracking.uploader", str(folder)]
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    environment = {**os.environ, "PYTHONPATH": path}
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, env=environment
    )


def _workflow() -> tuple[str, str]:
    """Return key and name of the run above a stage's: its `dvc repro`, or what a person starts by
    hand on one day.
    """
    import psutil

    host = socket.gethostname()
    with contextlib.suppress(psutil.Error):
        for process in psutil.Process().parents():
            words = process.cmdline()
            # `dvc`, `python …/dvc`, `python -m dvc`
            programs = [Path(word).name for word in words[:3]]
            if "dvc" in programs:
                targets = [word.rpartition(":")[2] for word in words[programs.index("dvc") + 1 :]]
                key = f"dvc-{host}-{process.pid}-{int(process.create_time())}"
                return key, " ".join(["dvc", *targets])[:200]
    day = time.strftime("%Y-%m-%d")
    return f"by-hand-{day}-{getpass.getuser()}-{host}", f"by hand, {day}"


def leaves(
    values: Mapping[str, Any], dot: str = ".", prefix: str = ""
) -> Iterator[tuple[str, Any]]:
    """Every value of nested sections with its dotted key; an empty section is a value."""
    for key, value in values.items():
        if isinstance(value, dict) and value:
            yield from leaves(value, dot, f"{prefix}{key}{dot}")
        else:
            yield f"{prefix}{key}", value


def flatten(values: Mapping[str, Any]) -> dict[str, str]:
    """Nested settings as `{dotted.key: text}`."""
    written = (
        (key, value, json.dumps(value, default=str, ensure_ascii=False))
        for key, value in leaves(values)
    )
    return {key: value if isinstance(value, str) else text for key, value, text in written}


def _numbers(values: dict[str, Any]) -> dict[str, float]:
    return {
        key: float(value) for key, value in leaves(values, "/") if isinstance(value, int | float)
    }
