"""What happened in a run, told to MLflow: the recorder's side. The only file that imports mlflow.

Reads one JSON message a line from stdin until the pipe closes. A stage that was killed leaves its run RUNNING in all
but name: the recorder sees the pipe close without a `close` message, and marks it KILLED.
"""

import contextlib
import json
import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from electra.files import read_json, remove, write_json
from pipelines import ROOT
from pipelines.tracking import PARENT, flatten, warn

EXPERIMENT = "electra"
KIND = {"mlflow.experimentKind": "custom_model_development"}  # the UI then opens on the runs and not on LLM traces
STATE = "tracking.json"
FLUSH_SECONDS = 3.0
BATCH = 900  # MLflow takes 1000 metrics a call


def uri() -> str:
    """Where runs are kept: MLFLOW_TRACKING_URI, else the database that a plain `mlflow ui` opens."""
    return os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{ROOT / 'mlflow.db'}"


def client() -> Any:
    """An MLflow client, quiet, and the experiment's id."""
    import logging

    for name in ("mlflow", "alembic"):
        logging.getLogger(name).setLevel(logging.ERROR)
    import mlflow

    mlflow.set_tracking_uri(uri())
    for name in ("mlflow", "alembic", "mlflow.system_metrics.system_metrics_monitor"):
        logging.getLogger(name).setLevel(logging.ERROR)
    made = mlflow.MlflowClient()
    for _attempt in range(3):  # two processes that meet at a new database: one makes the tables, the other looks again
        try:
            found = made.get_experiment_by_name(EXPERIMENT)
            return made, found.experiment_id if found else made.create_experiment(EXPERIMENT, tags=KIND)
        except Exception as error:
            problem = error
            time.sleep(1.0)
    raise problem


def open_parent(name: str, params: dict[str, Any], key: str, store: Any = None) -> str:
    """The run of a whole workflow: the one tagged with `key`, else a new one. Returns its id."""
    mlflow, experiment = store or client()
    text = "".join(character for character in key if character not in "'\"\\")
    found = mlflow.search_runs([experiment], f"tags.`electra.workflow` = '{text}'", max_results=1)
    if found:
        mlflow.update_run(found[0].info.run_id, status="RUNNING")
        return str(found[0].info.run_id)
    tags = {"electra.workflow": text, "electra.kind": "workflow", **git_facts()}
    run_id = mlflow.create_run(experiment, tags=tags, run_name=name).info.run_id
    _log_params(mlflow, run_id, flatten(params))
    return str(run_id)


def close_parent(run_id: str, status: str) -> None:
    """End the run of a workflow, and tag its stages with the hashes that DVC gave their outs."""
    mlflow, experiment = client()
    tag_outs(mlflow, experiment, run_id, dvc_hashes())
    mlflow.set_terminated(run_id, status)


def tag_outs(mlflow: Any, experiment: str, parent: str, hashes: dict[str, dict[str, str]]) -> None:
    """Tag a workflow's finished stages with the hashes of their outs: DVC knows them only after a stage has ended."""
    runs = mlflow.search_runs([experiment], f"tags.`mlflow.parentRunId` = '{parent}'")
    for run in runs:
        for path, md5 in hashes.get(run.info.run_name, {}).items():
            if run.info.status == "FINISHED" and f"dvc.out.{path}" not in run.data.tags:
                mlflow.set_tag(run.info.run_id, f"dvc.out.{path}", md5)


def git_facts() -> dict[str, str]:
    """The commit, and whether code or parameters differ from it."""

    def git(*words: str) -> str:
        done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, timeout=20, check=False)
        return done.stdout.strip() if done.returncode == 0 else ""

    try:
        commit = git("rev-parse", "HEAD")
        dirty = bool(git("status", "--porcelain", "--", "electra", "pipelines/*.py", "pipelines/*/*.py", "params.yaml"))
    except (OSError, subprocess.TimeoutExpired):
        return {}
    return {"mlflow.source.git.commit": commit, "git.dirty": str(dirty).lower()} if commit else {}


def dvc_hashes() -> dict[str, dict[str, str]]:
    """{stage: {out: md5}} as DVC's lock files know them now."""
    from ruamel.yaml import YAML

    found: dict[str, dict[str, str]] = {}
    for lock in (ROOT / "dvc.lock", ROOT / "pipelines" / "dvc.lock"):
        if lock.is_file():
            for stage, facts in (YAML(typ="safe").load(lock.read_text()).get("stages") or {}).items():
                found[stage] = {out["path"]: str(out.get("md5", "")) for out in facts.get("outs", [])}
    return found


class Recorder:
    """Messages of one stage to MLflow calls. A call that fails is reported once and skipped; three in a row end it."""

    def __init__(self, first: dict[str, Any]) -> None:
        self.mlflow, self.experiment = store = client()
        self.folder = Path(first["folder"]) if first.get("folder") else None
        self.fingerprint, self.runs = first["fingerprint"], dict[str, str]()
        self.resumed: dict[str, dict[str, int]] = {}  # run id -> metric -> the last step it had before
        self.waiting: dict[str, list[Any]] = {}
        self.monitor: Any = None
        self.done = False
        self._remember()
        self.found_parent = PARENT not in os.environ
        self.data = {"data": first["tags"]["data"]} if first["tags"].get("data") else {}
        self.parent = os.environ.get(PARENT, "")
        if not self.parent:
            key, title = first["workflow"]
            self.parent = open_parent(title, {}, key, store)
        self.open(first)

    def _remember(self) -> None:
        with contextlib.suppress(Exception):
            state = read_json(self.folder / STATE) if self.folder else {}
            if state.get("fingerprint") == self.fingerprint and state.get("uri") == uri():
                self.mlflow.get_run(state["runs"][""])  # it may have been deleted since
                self.runs = dict(state["runs"])
                self.resumed = {run_id: {} for run_id in self.runs.values()}

    def save(self) -> None:
        """Keep the ids of the runs beside the checkpoints; a stage that clears its folder gets them again."""
        if self.folder is not None and (self.folder.is_dir() or not self.runs):
            write_json(self.folder / STATE, {"fingerprint": self.fingerprint, "runs": self.runs, "uri": uri()})

    def open(self, message: dict[str, Any]) -> None:
        """Begin a run, or go on in the one that a killed stage has left."""
        path = message["run"]
        if path in self.runs:
            self.mlflow.update_run(self.runs[path], status="RUNNING")
        else:
            above = self.runs[path.rpartition("/")[0]] if path else self.parent
            tags = {"mlflow.parentRunId": above, **git_facts(), **self.data, **message.get("tags", {})}
            if stage := os.environ.get("DVC_STAGE"):
                tags["dvc.stage"] = stage
            self.runs[path] = self.mlflow.create_run(self.experiment, tags=tags, run_name=message["name"]).info.run_id
            _log_params(self.mlflow, self.runs[path], message["params"])
        if not path:
            if self.folder is not None:
                self.folder.mkdir(parents=True, exist_ok=True)
            self._lineage(self.runs[path], message["upstream"])
            self._watch(self.runs[path])
        self.save()

    def handle(self, message: dict[str, Any]) -> None:
        """Carry out one message."""
        what, run_id = message["what"], self.runs.get(message["run"], "")
        if what == "open":
            self.open(message)
        elif what == "metrics":
            self._metrics(run_id, message)
        elif what == "artifact":
            self.mlflow.log_artifact(run_id, message["file"], message["folder"] or None)
        elif what == "dataset":
            self._dataset(run_id, message["name"], message["digest"], message["context"])
        elif what == "tags":
            for key, value in message["values"].items():
                self.mlflow.set_tag(run_id, key, value)
        elif what == "close":
            self.close(message["run"], message["status"], message.get("error", ""))

    def _metrics(self, run_id: str, message: dict[str, Any]) -> None:
        from mlflow.entities import Metric

        when = int(message["time"] * 1000)
        for key, value in message["values"].items():
            key = re.sub(r"[^\w\-./ ]", "_", key)
            if message["step"] is None or message["step"] > self._last(run_id, key):
                self.waiting.setdefault(run_id, []).append(Metric(key, value, when, message["step"] or 0))

    def _last(self, run_id: str, key: str) -> int:
        """The last step of a metric that a resumed run had before; -1 in a new run."""
        known = self.resumed.get(run_id)
        if known is None:
            return -1
        if key not in known:
            known[key] = max((point.step for point in self.mlflow.get_metric_history(run_id, key)), default=-1)
        return known[key]

    def flush(self) -> None:
        """Write the metrics that have gathered, in as few calls as MLflow allows."""
        waiting, self.waiting = self.waiting, {}
        for run_id, points in waiting.items():
            for start in range(0, len(points), BATCH):
                self.mlflow.log_batch(run_id, metrics=points[start : start + BATCH])
        self.save()

    def close(self, path: str, status: str, error: str = "") -> None:
        """End a run; the end of the stage's own run ends the record."""
        self.flush()
        if error:
            self.mlflow.set_tag(self.runs[path], "error", error)
        if path:
            self.mlflow.set_terminated(self.runs[path], status)
            return
        if self.monitor is not None:
            self.monitor.finish()
        self.mlflow.set_terminated(self.runs[path], status)
        if self.found_parent:  # no flow will end it: it lasts as long as its stages
            self.mlflow.set_terminated(self.parent, status)
        if status == "FINISHED" and self.folder is not None:
            remove(self.folder / STATE)
        self.done = True

    def _lineage(self, run_id: str, upstream: list[str]) -> None:
        """DVC's hashes as tags: of what this stage reads, and of what the workflow's earlier stages have written."""
        hashes = dvc_hashes()
        for stage in upstream:
            for path, md5 in hashes.get(stage, {}).items():
                self.mlflow.set_tag(run_id, f"dvc.in.{path}", md5)
        tag_outs(self.mlflow, self.experiment, self.parent, hashes)

    def _dataset(self, run_id: str, name: str, digest: str, context: str) -> None:
        from mlflow.entities import Dataset, DatasetInput, InputTag

        data = Dataset(name=name[:500], digest=digest[:36], source_type="dvc", source=json.dumps({"sha256": digest}))
        tags = [InputTag("mlflow.data.context", context)]
        self.mlflow.log_inputs(run_id, datasets=[DatasetInput(dataset=data, tags=tags)])

    def _watch(self, run_id: str) -> None:
        """System metrics: processor, memory, disk, network, and the GPU where there is one."""
        from mlflow.system_metrics.system_metrics_monitor import SystemMetricsMonitor

        self.monitor = SystemMetricsMonitor(run_id, resume_logging=run_id in self.resumed)
        self.monitor.start()


def _log_params(mlflow: Any, run_id: str, values: dict[str, str]) -> None:
    from mlflow.entities import Param

    params = [Param(re.sub(r"[^\w\-./ ]", "_", key), value[:6000]) for key, value in values.items()]
    for start in range(0, len(params), 100):
        mlflow.log_batch(run_id, params=params[start : start + 100])


def record(lines: IO[bytes]) -> None:
    """Read messages until the pipe closes."""
    recorder: Recorder | None = None
    failures, warned = 0, False
    for message in _messages(lines):
        try:
            if recorder is None:
                recorder = Recorder(message)
            elif message["what"] == "flush":
                recorder.flush()
            else:
                recorder.handle(message)
            failures = 0
        except Exception as error:
            failures += 1
            if not warned:
                warn(error)
            warned = True
            if recorder is None or failures == 3:
                return
    if recorder is not None and not recorder.done:
        recorder.close("", "KILLED")


def _messages(lines: IO[bytes]) -> Iterator[dict[str, Any]]:
    """The messages of a pipe, with a `flush` every few seconds between them."""
    arrived: queue.Queue[bytes | None] = queue.Queue()

    def read() -> None:
        for line in lines:
            arrived.put(line)
        arrived.put(None)

    threading.Thread(target=read, daemon=True).start()
    due = time.monotonic() + FLUSH_SECONDS
    while True:
        try:
            line = arrived.get(timeout=max(0.0, due - time.monotonic()))
        except queue.Empty:
            line = b'{"what": "flush", "run": ""}'
            due = time.monotonic() + FLUSH_SECONDS
        if line is None:
            return
        with contextlib.suppress(ValueError):  # a line that a killed stage has not finished
            yield json.loads(line)


if __name__ == "__main__":
    # A stop is for the stage: it ends its run in its own way, and the pipe's end is this process's end.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    record(sys.stdin.buffer)
