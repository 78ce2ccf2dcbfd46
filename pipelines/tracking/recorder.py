"""What happened in a run, told to MLflow: the recorder's side. The only file that imports mlflow.

Reads what the stage appends to its spool (`delivery.py` does: when, in which order, again after an outage) until its
standard input is closed. A stage that was killed leaves no `close` message: its run is marked KILLED.
"""

import contextlib
import json
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from electra.errors import Busy
from electra.files import lock_folder, remove, rename
from pipelines.tracking import flatten, uri
from pipelines.tracking.event_log import Spool
from pipelines.tracking.lineage import git_state, here, whereabouts
from pipelines.tracking.registry import register
from pipelines.tracking.uploader import BATCH, Delivery

EXPERIMENT = "electra"
KIND = {"mlflow.experimentKind": "custom_model_development"}  # for UIs that heed it; 3.17 asks for it in the address
QUIET = {"corpus", "tokens", "tasks", "arm"}  # not a workflow's headline: counts of data, and what its ablation tells
FIRST_SECONDS = 300.0  # for another process to make a new database
KEY = "electra.run"  # the tag by which a run is found again


def client(store: str = "") -> Any:
    """An MLflow client, quiet, and the experiment's id."""
    store = store or uri()
    import logging

    for name in ("mlflow", "alembic"):
        logging.getLogger(name).setLevel(logging.ERROR)
    import mlflow

    mlflow.set_tracking_uri(store)
    for name in ("mlflow", "alembic"):
        logging.getLogger(name).setLevel(logging.ERROR)
    with database(store) as files:
        made = mlflow.MlflowClient()
        experiment = made.get_experiment_by_name(EXPERIMENT)
        return made, experiment.experiment_id if experiment else made.create_experiment(EXPERIMENT, files, tags=KIND)


@contextlib.contextmanager
def database(store: str) -> Iterator[str | None]:
    """Hold a store that is a file, beside which the files of runs lie, and make it if it is not there.

    Two processes that met at a new one would both make its tables, and one that is killed while it does leaves a file
    that MLflow never opens again: so it gets its name when it is whole.
    """
    scheme, _, name = store.partition(":///")
    path = Path(name)
    if scheme != "sqlite" or not path.name or not path.parent.is_dir():
        yield None
        return
    files = path.with_name("mlruns")
    with lock_folder(files, FIRST_SECONDS):
        if not path.exists():
            from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

            new = path.with_name(f"{path.name}.new")
            remove(new)
            SqlAlchemyStore(f"sqlite:///{new}", files.as_uri()).engine.dispose()
            rename(new, path)
        yield files.as_uri()


def about() -> dict[str, str]:
    """Tags of every run."""
    return {**git_state(), **whereabouts()}


def open_parent(
    name: str, params: dict[str, Any], key: str, store: Any = None, facts: dict[str, str] | None = None
) -> str:
    """The run of a workflow: the one tagged `key`, else a new one, whose name tells the commit. Returns its id."""
    mlflow, experiment = store or client()
    text = "".join(character for character in key if character not in "'\"\\")
    runs = mlflow.search_runs([experiment], f"tags.`electra.workflow` = '{text}'", max_results=1)
    if runs:
        mlflow.update_run(runs[0].info.run_id, status="RUNNING")
        return str(runs[0].info.run_id)
    tags = {"electra.workflow": text, "electra.kind": "workflow", **(about() if facts is None else facts)}
    commit = tags.get("mlflow.source.git.commit", "")[:8]
    tags.setdefault("mlflow.source.name", name)  # without it the UI does not show the commit either
    run_id = mlflow.create_run(experiment, tags=tags, run_name=f"{name} {commit}".strip()).info.run_id
    _log_params(mlflow, run_id, flatten(params))
    return str(run_id)


def tag_outs(mlflow: Any, experiment: str, parent: str, hashes: dict[str, dict[str, str]], folders: list[str]) -> None:
    """Tag a workflow's finished stages with the hashes of their outs: DVC knows them only after a stage has ended.

    Networks among the outs, which lie in `folders`, become versions of registered models.
    """
    runs = mlflow.search_runs([experiment], f"tags.`mlflow.parentRunId` = '{parent}'")
    for run in runs:
        for path, md5 in hashes.get(run.info.run_name, {}).items():
            if run.info.status == "FINISHED" and f"dvc.out.{path}" not in run.data.tags:
                register(mlflow, run, path, md5, folders)
                mlflow.set_tag(run.info.run_id, f"dvc.out.{path}", md5)


class Recorder:
    """Messages of one spool to MLflow calls, each of which may raise and be made again.

    `state` is what must be known to go on after a restart: the runs' ids, and what tells them apart in the store.
    """

    def __init__(self, state: dict[str, Any]) -> None:
        self.state, self.runs = state, state["runs"]
        self.mlflow: Any = None
        self.experiment = ""
        self.last: dict[str, dict[str, int]] = {}  # run id -> metric -> the last step that was told
        self.waiting: list[tuple[str, Any]] = []  # (run id, point), in the order told
        self.doubt = True  # whether the store may have some of the next points already

    def connect(self) -> None:
        """Reach the store, or raise."""
        if self.mlflow is None:
            self.mlflow, self.experiment = client(self.state.get("uri", ""))
        else:
            self.mlflow.get_experiment(self.experiment)

    def handle(self, message: dict[str, Any]) -> None:
        """Carry out one message; points are only gathered."""
        what, run_id = message["what"], self.runs.get(message["run"], "")
        if "uri" in message:
            self.state["uri"] = message["uri"]
        if self.mlflow is None:
            self.connect()
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
        elif what == "end":
            if message["status"]:
                self.mlflow.set_terminated(message["workflow"], message["status"])
            tag_outs(self.mlflow, self.experiment, message["workflow"], message["hashes"], message["networks"])

    def open(self, message: dict[str, Any]) -> None:
        """Begin a run, or go on in the one that a killed stage has left."""
        path, state = message["run"], self.state
        if not path:
            state["data"] = {"data": message["tags"]["data"]} if message["tags"].get("data") else {}
            state["found_parent"], state["closed"] = not message["parent"], ""
            key, title = message["workflow"] or ("", "")
            store = self.mlflow, self.experiment
            state["parent"] = message["parent"] or open_parent(title, {}, key, store, state["git"])
            tags = message["tags"]  # a flow's run and a `dvc repro`'s tell the headline numbers of their stages, too
            of = [tags.get("stage", "")] + [tags.get("name", "")] * (tags.get("stage") == "ablation")
            state["headline"] = "" if key.startswith("by-hand") or of[0] in QUIET else "/".join(of)
        above = self.runs[path.rpartition("/")[0]] if path else state["parent"]
        if found := self._find(path):
            self.runs[path] = found.info.run_id
            self.mlflow.update_run(found.info.run_id, status="RUNNING")
            self.mlflow.set_tag(found.info.run_id, "mlflow.parentRunId", above)
            if "error" in found.data.tags:
                self.mlflow.delete_tag(found.info.run_id, "error")
        else:
            tags = {"mlflow.parentRunId": above, KEY: f"{state['id']}/{path}", **state["git"], **state["data"]}
            tags |= message.get("tags", {})
            made = self.mlflow.create_run(self.experiment, tags=tags, run_name=message["name"]).info.run_id
            self.runs[path], self.last[made] = made, {}
        _log_params(self.mlflow, self.runs[path], message["params"])
        if not path:
            self._lineage(self.runs[path], message["upstream"])

    def _find(self, path: str) -> Any:
        """The run of an earlier try, if it has not been deleted: its id may be known, or the answer have been lost."""
        query = f"tags.`{KEY}` = '{self.state['id']}/{path}'"
        return next(iter(self.mlflow.search_runs([self.experiment], query, max_results=1)), None)

    def _metrics(self, run_id: str, message: dict[str, Any]) -> None:
        from mlflow.entities import Metric

        told = not message["run"] or "average" in message["values"]  # an ablation's arms have an average each
        if message["step"] is None and told and (prefix := self.state.get("headline")):
            prefix = f"{prefix}/{message['run']}".rstrip("/")
            numbers = {f"{prefix}/{key}": value for key, value in message["values"].items()}
            self._metrics(self.state["parent"], {**message, "run": "above", "values": numbers})
        when = int(message["time"] * 1000)
        for key, value in message["values"].items():
            key = re.sub(r"[^\w\-./ ]", "_", key)
            step = message["step"]
            if step is not None:
                if step <= self._last(run_id, key):
                    continue
                self.last[run_id][key] = step
            self.waiting.append((run_id, Metric(key, value, when, step or 0)))

    def _last(self, run_id: str, key: str) -> int:
        """The last step of a metric that was told: a resumed stage repeats what came after its checkpoint."""
        known = self.last.setdefault(run_id, {})
        if key not in known:
            known[key] = max((point.step for point in self.mlflow.get_metric_history(run_id, key)), default=-1)
        return known[key]

    def flush(self) -> None:
        """Write the points that have gathered, in as few calls as MLflow allows."""
        for run_id in dict.fromkeys(run_id for run_id, _ in self.waiting):
            points = [point for owner, point in self.waiting if owner == run_id]
            if self.doubt:
                points = self._unknown(run_id, points)
            for start in range(0, len(points), BATCH):
                self.mlflow.log_batch(run_id, metrics=points[start : start + BATCH])
        self.waiting, self.doubt = [], False

    def _unknown(self, run_id: str, points: list[Any]) -> list[Any]:
        """Leave out what the store has: a call whose answer was lost may have been carried out."""
        known = {
            (key, point.step, point.timestamp)
            for key in {point.key for point in points}
            for point in self.mlflow.get_metric_history(run_id, key)
        }
        return [point for point in points if (point.key, point.step, point.timestamp) not in known]

    def close(self, path: str, status: str, error: str = "") -> None:
        """End a run; the end of the stage's own run ends the record."""
        run_id, state = self.runs[path], self.state
        if error:
            self.mlflow.set_tag(run_id, "error", error)
        self.mlflow.set_terminated(run_id, status)
        if not path:
            if state["found_parent"]:  # no flow will end it: it lasts as long as its stages
                self.mlflow.set_terminated(state["parent"], status)
            state["closed"] = status

    def _lineage(self, run_id: str, upstream: list[str]) -> None:
        """DVC's hashes as tags: of what this stage reads, and of what the workflow's earlier stages have written."""
        known = self.state if "hashes" in self.state else here()
        hashes = known["hashes"]
        for stage in upstream:
            for path, md5 in hashes.get(stage, {}).items():
                self.mlflow.set_tag(run_id, f"dvc.in.{path}", md5)
        if self.state["found_parent"]:  # a flow does it at its end: of its stages some ran elsewhere
            tag_outs(self.mlflow, self.experiment, self.state["parent"], hashes, known["networks"])

    def _dataset(self, run_id: str, name: str, digest: str, context: str) -> None:
        from mlflow.entities import Dataset, DatasetInput, InputTag

        data = Dataset(name=name[:500], digest=digest[:36], source_type="dvc", source=json.dumps({"sha256": digest}))
        tags = [InputTag("mlflow.data.context", context)]
        self.mlflow.log_inputs(run_id, datasets=[DatasetInput(dataset=data, tags=tags)])


def system_load() -> Callable[[], dict[str, float]]:
    """What tells the load of processor, memory, disk, network, and of the GPU where there is one."""
    from mlflow.system_metrics.metrics.cpu_monitor import CPUMonitor
    from mlflow.system_metrics.metrics.disk_monitor import DiskMonitor
    from mlflow.system_metrics.metrics.gpu_monitor import GPUMonitor
    from mlflow.system_metrics.metrics.network_monitor import NetworkMonitor

    monitors = [CPUMonitor(), DiskMonitor(), NetworkMonitor()]
    with contextlib.suppress(Exception):  # no GPU, or not the library that asks it
        monitors.append(GPUMonitor())

    def sample() -> dict[str, float]:
        load: dict[str, float] = {}
        for monitor in monitors:
            monitor.collect_metrics()
            load |= {f"system/{key}": float(value) for key, value in monitor.aggregate_metrics().items()}
            monitor.clear_metrics()
        return load

    return sample


def _log_params(mlflow: Any, run_id: str, values: dict[str, str]) -> None:
    from mlflow.entities import Param

    params = [Param(re.sub(r"[^\w\-./ ]", "_", key), value[:6000]) for key, value in values.items()]
    for start in range(0, len(params), 100):
        mlflow.log_batch(run_id, params=params[start : start + 100])


def main(folder: Path) -> None:
    """Tell the store what a stage appends, until this process's standard input ends and all is told or time is up."""
    ended = threading.Event()

    def wait_for_end() -> None:
        while os.read(sys.stdin.fileno(), 4096):
            pass
        ended.set()

    if uri().startswith("sqlite"):  # a new database takes long on a busy machine: its time is not the stage's
        with contextlib.suppress(Exception):
            client()
    delivery = Delivery(Spool(folder), Recorder, ended, git=about, here=here, system=system_load)
    for task in (wait_for_end, delivery.limit):
        threading.Thread(target=task, daemon=True).start()
    delivery.run()


def sync(folder: Path) -> list[Path]:
    """Send what earlier runs could not; returns the folders whose store is still out of reach."""
    ended = threading.Event()
    ended.set()
    left = []
    for spool in map(Spool, sorted(path for path in folder.glob("*") if path.is_dir())):
        state = spool.state()
        if state["offset"] == spool.size and state["closed"]:
            continue
        try:
            if not Delivery(spool, Recorder, ended, git=about).run(patience=0.0):
                left.append(spool.folder)
        except Busy as error:
            print(f"{error.where}: a stage is sending it", flush=True)
    return left


if __name__ == "__main__":
    # A stop is for the stage: it ends its run in its own way, and the pipe's end is this process's end.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    main(Path(sys.argv[1]))
