"""Events as calls to MLflow, in an uploader's process. Each call may be repeated after a failure.

workflow (parent: made by a flow, or found by the `dvc repro` that started the stage)
└── stage (one run; a resumed stage continues its run)
    └── task, arm, seed (child runs)
"""

import contextlib
import json
import logging
import os
import re
import sqlite3
import urllib.parse
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from electra.errors import Refused, mask_secrets
from electra.files import lock_folder, remove, rename
from pipelines.tracking import NOTE, address, flatten, uri, warn
from pipelines.tracking.event_log import Event

EXPERIMENT = "electra"
# for UIs that read it; 3.17 takes it from the URL
KIND = {"mlflow.experimentKind": "custom_model_development"}
# These stages' numbers and files are shown on the workflow's run, too. Those of data are counts.
SHOWN_ABOVE = {"pretrain", "glue", "squad", "ablation", "report"}
MOST = 1000  # points of one call to MLflow
TRIES = 3  # of an event that MLflow refuses
FIRST_SECONDS = 300.0  # for another process to make a new database
KEY = "electra.run"  # the tag by which a run is found again


def client(store: str = "") -> Any:
    """Return an MLflow client, quiet, and the experiment's id. `store` is one that a log names,
    without a login.

    Raises Refused where the experiment has been deleted.
    """
    store = uri("" if store == mask_secrets(address()) else store)
    # the uploader tries again by itself
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "10")
    # a call that returned would not be known to have arrived
    os.environ["MLFLOW_ENABLE_ASYNC_LOGGING"] = "false"
    import mlflow

    mlflow.set_tracking_uri(store)
    for name in ("mlflow", "alembic"):
        logging.getLogger(name).setLevel(logging.ERROR)
    with database(store) as files:
        api = mlflow.MlflowClient()
        experiment = api.get_experiment_by_name(EXPERIMENT)
        if experiment is None:
            return api, api.create_experiment(EXPERIMENT, files, tags=KIND)
        refuse_deleted(experiment)
        return api, experiment.experiment_id


def refuse_deleted(experiment: Any) -> None:
    """Raise Refused for an experiment that is in MLflow's trash, where nothing can be recorded."""
    if experiment.lifecycle_stage == "deleted":
        raise Refused(
            f"the experiment {EXPERIMENT} was deleted in MLflow; `mlflow experiments restore "
            f"--experiment-id {experiment.experiment_id}` brings it back"
        )


@contextlib.contextmanager
def database(store: str) -> Iterator[str | None]:
    """Create an SQLite store under a lock, unless it exists. Yields the folder of its files, or
    None for another kind of store.

    Two processes would both make its tables, and one that is killed then leaves a file that MLflow
    cannot open again. So the file gets its name when it is complete.
    """
    scheme, _, name = store.partition(":///")
    path = Path(urllib.parse.unquote(name.partition("?")[0]))
    if scheme != "sqlite" or not path.name or not path.parent.is_dir():
        yield None
        return
    files = path.with_name("mlruns")
    with lock_folder(files, FIRST_SECONDS):
        if path.exists():
            follow_folder(path, files.as_uri())
        else:
            from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

            new = path.with_name(f"{path.name}.new")
            remove(new)
            SqlAlchemyStore(
                f"sqlite:///{urllib.parse.quote(str(new))}", files.as_uri()
            ).engine.dispose()
            rename(new, path)
        yield files.as_uri()


def follow_folder(path: Path, files: str) -> None:
    """Correct the paths of runs' files in a database that was moved or copied, since MLflow stores
    absolute paths.
    """
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        query = "SELECT artifact_location FROM experiments WHERE name = ?"
        for (old,) in connection.execute(query, (EXPERIMENT,)).fetchall():
            if old != files and re.fullmatch("file:///.*/mlruns", old):
                values = {"old": old, "new": files}
                for table, column in (
                    ("experiments", "artifact_location"),
                    ("runs", "artifact_uri"),
                ):
                    moved = f"{column} = :new || substr({column}, length(:old) + 1)"
                    inside = f"substr({column}, 1, length(:old)) = :old"
                    connection.execute(f"UPDATE {table} SET {moved} WHERE {inside}", values)  # noqa: S608


def open_parent(
    title: str,
    params: Mapping[str, Any],
    key: str,
    facts: dict[str, str],
    store: Any = None,
) -> str:
    """Return the id of a workflow's run: the one tagged `key`, else a new one with these `facts` as
    tags. Its name ends with the commit.
    """
    mlflow, experiment = store or client()
    text = re.sub(r"['\"\\]", "", key)
    runs = mlflow.search_runs([experiment], f"tags.`electra.workflow` = '{text}'", max_results=1)
    if runs:
        mlflow.update_run(runs[0].info.run_id, status="RUNNING")
        return str(runs[0].info.run_id)
    tags = {"electra.workflow": text, **facts}
    commit = tags.get("mlflow.source.git.commit", "")[:8]
    tags.setdefault("mlflow.source.name", title)  # without it the UI shows no commit either
    name = f"{title} {commit}".strip()
    run = mlflow.create_run(experiment, tags=tags, run_name=name)
    _log_params(mlflow, run.info.run_id, _as_stored(flatten(params)))
    return str(run.info.run_id)


def tag_outs(mlflow: Any, experiment: str, parent: str, hashes: dict[str, dict[str, str]]) -> None:
    """Tag a workflow's finished stages with the hashes of their outs. DVC knows them only after a
    stage has ended.
    """
    for run in mlflow.search_runs([experiment], f"tags.`mlflow.parentRunId` = '{parent}'"):
        if run.info.status == "FINISHED":
            for path, md5 in hashes.get(run.info.run_name, {}).items():
                mlflow.set_tag(run.info.run_id, f"dvc.out.{path}", md5)


class Recorder:
    """Sends a run's events. `state` is saved with them, to continue after a restart: run ids, for
    example. `store` replaces the store that the events name.
    """

    def __init__(self, state: dict[str, Any], store: str) -> None:
        self.state = state
        self.store = store
        self.runs: dict[str, str] = state["runs"]  # path of an open run -> its id in MLflow
        self.last: dict[tuple[str, str], int] = {}  # run id and metric -> last step there
        self.points: dict[str, list[Any]] = {}  # run id -> points that wait
        self.warned = False
        self.mlflow: Any = None
        self.experiment = ""

    def send(self, events: Sequence[Event]) -> None:
        """Send events in order. Raises where MLflow does not answer.

        Events that MLflow refuses are left out after some tries, with a warning. Without its run
        nothing can be sent: raises Refused if MLflow refuses that, or if the experiment has been
        deleted.
        """
        for event in events:
            self.state["uri"] = mask_secrets(self.store) or event.get(
                "uri", self.state.get("uri", "")
            )
            if self.mlflow is None:
                self.mlflow, self.experiment = client(self.store or self.state["uri"])
            if event["what"] != "metrics":
                self._try(self._flush)
            self._try(getattr(self, f"_{event['what']}"), event)
        self._try(self._flush)

    def _try(self, call: Callable[..., None], *event: Event) -> None:
        for tries_left in reversed(range(TRIES)):
            try:
                return call(*event)
            except Exception as error:
                # raises if MLflow does not answer
                refuse_deleted(self.mlflow.get_experiment(self.experiment))
                if tries_left:
                    continue
                if event and event[0]["what"] == "open" and not event[0]["run"]:
                    raise Refused(f"MLflow refuses the run {event[0]['name']} ({error})") from error
                if not self.warned:
                    warn(f"left out of the record: {error}")
                    self.warned = True
        if not event:
            self.points = {}
        return None

    def _open(self, event: Event) -> None:
        """Create a run, or continue the one that a killed stage left."""
        path = event["run"]
        state = self.state
        if not path:
            if not state["closed"]:  # an earlier try was killed together with its uploader
                self._close({**event, "status": "KILLED"})
            self._open_workflow(event)
        above = self.runs[path.rpartition("/")[0]] if path else state["parent"]
        params = _as_stored(event["params"])
        if run := self._find(path, params):
            run_id = run.info.run_id
            self.mlflow.update_run(run_id, status="RUNNING")
            self.mlflow.set_tag(run_id, "mlflow.parentRunId", above)
            if "error" in run.data.tags:
                self.mlflow.delete_tag(run_id, "error")
        else:
            tags = {"mlflow.parentRunId": above, KEY: f"{state['id']}/{path}"}
            tags |= {**state["git"], **state["data"], **event.get("tags", {})}
            run_id = self.mlflow.create_run(
                self.experiment, _milliseconds(event), tags, event["name"]
            ).info.run_id
        self.runs[path] = run_id
        _log_params(self.mlflow, run_id, params)
        if not path:
            self._tag_inputs(run_id, event["upstream"])

    def _open_workflow(self, event: Event) -> None:
        """Find or create the run above a stage's, and decide which of the stage's values are shown
        there.
        """
        state = self.state
        tags = event["tags"]
        key, title = event["workflow"] or ("", "")
        store = (self.mlflow, self.experiment)
        state |= {
            "closed": "",
            "stage": tags.get("stage", ""),
            "data": {"data": tags["data"]} if tags.get("data") else {},
            "found_parent": not event["parent"],
            "parent": event["parent"] or open_parent(title, {}, key, state["git"], store),
            "prefix": None,
        }
        if key.startswith("by-hand") or state["stage"] not in SHOWN_ABOVE:
            return
        name = tags.get("name", "")
        if state["stage"] == "ablation":
            state["prefix"] = f"{name}/"
            return
        # The first model of a workflow has its numbers and settings there by their plain names.
        models = self.mlflow.get_run(state["parent"]).data.tags.get("models") or name
        if name and name not in models.split(", "):  # the report has no name
            models = f"{models}, {name}"
        self.mlflow.set_tag(state["parent"], "models", models)
        state["prefix"] = f"{name}/" if models.split(", ")[0] != name else ""
        if not state["prefix"]:
            above = "" if state["stage"] in {"pretrain", "report"} else f"{state['stage']}."
            params = {f"{above}{key}": value for key, value in event["params"].items()}
            _log_params(self.mlflow, state["parent"], _as_stored(params))

    def _shown_above(self, event: Event) -> bool:
        return not event["run"] and self.state.get("prefix") is not None

    def _find(self, path: str, params: dict[str, str]) -> Any:
        """Return the run of an earlier try, if it has not been deleted: its id may be known, or the
        answer have been lost.

        None for one with other settings, as of an arm whose model has changed: MLflow changes no
        parameter of a run.
        """
        query = f"tags.`{KEY}` = '{self.state['id']}/{path}'"
        for run in self.mlflow.search_runs([self.experiment], query):
            if all(params.get(key, value) == value for key, value in run.data.params.items()):
                return run
        return None

    def _metrics(self, event: Event) -> None:
        from mlflow.entities import Metric

        run_id = self.runs[event["run"]]
        step = event["step"]
        targets = [(run_id, "")]
        if step is None and self._shown_above(event):
            targets.append((self.state["parent"], self.state["prefix"]))
        for target, prefix in targets:
            for name, value in event["values"].items():
                key = _as_key(prefix + name)
                if step is not None:
                    if step <= self._last_step(target, key):
                        continue
                    self.last[target, key] = step
                point = Metric(key, value, _milliseconds(event), step or 0)
                self.points.setdefault(target, []).append(point)

    def _last_step(self, run_id: str, key: str) -> int:
        """Return the last step of a metric in MLflow. A resumed stage repeats the steps after its
        checkpoint.
        """
        if (run_id, key) not in self.last:
            history = self.mlflow.get_metric_history(run_id, key)
            self.last[run_id, key] = max((point.step for point in history), default=-1)
        return self.last[run_id, key]

    def _flush(self) -> None:
        """Send the points that wait. MLflow keeps one of equal points, so a repeated call adds
        none.
        """
        for run_id, points in self.points.items():
            for start in range(0, len(points), MOST):
                self.mlflow.log_batch(run_id, metrics=points[start : start + MOST])
        self.points = {}

    def _artifact(self, event: Event) -> None:
        file = event["file"]
        folder = event["folder"]
        self.mlflow.log_artifact(self.runs[event["run"]], file, folder or None)
        if self._shown_above(event):
            above = f"{self.state['stage']}/{folder}".rstrip("/")
            self.mlflow.log_artifact(self.state["parent"], file, above)

    def _tags(self, event: Event) -> None:
        for key, value in event["values"].items():
            self.mlflow.set_tag(self.runs[event["run"]], key, value)
            if key == NOTE and self._shown_above(event):
                self.mlflow.set_tag(self.state["parent"], key, value)

    def _end(self, event: Event) -> None:
        """End a workflow, or a part of one (without a status)."""
        if event["status"]:
            self.mlflow.set_terminated(event["workflow"], event["status"], _milliseconds(event))
        tag_outs(self.mlflow, self.experiment, event["workflow"], event["hashes"])

    def _close(self, event: Event) -> None:
        """End a run, and all runs still open below it. The end of the stage's own run ends the
        record.
        """
        path = event["run"]
        status = event["status"]
        moment = _milliseconds(event)
        if not path:
            self.state["closed"] = status  # first: an end that MLflow refuses is an end, too
        below = sorted(
            open_run for open_run in self.runs if not path or f"{open_run}/".startswith(f"{path}/")
        )
        ending = [self.runs[open_run] for open_run in below]
        # no flow will end its workflow: it lasts as long as its stages
        if not path and self.state["found_parent"]:
            ending.append(self.state["parent"])
        for run_id in ending:  # one that was deleted keeps no other open
            self._try(partial(self.mlflow.set_terminated, run_id, status, moment))
        if event.get("error"):
            self.mlflow.set_tag(self.runs[path], "error", event["error"])
        for open_run in below:
            self.runs.pop(open_run)

    def _tag_inputs(self, run_id: str, upstream: Sequence[str]) -> None:
        """Tag a stage with DVC's hashes of its inputs, and the workflow's earlier stages with those
        of their outputs.
        """
        hashes = self.state["hashes"]
        for stage in upstream:
            for path, md5 in hashes.get(stage, {}).items():
                self.mlflow.set_tag(run_id, f"dvc.in.{path}", md5)
        # a flow does it at its end, since some of its stages ran elsewhere
        if self.state["found_parent"]:
            tag_outs(self.mlflow, self.experiment, self.state["parent"], hashes)

    def _dataset(self, event: Event) -> None:
        from mlflow.entities import Dataset, DatasetInput, InputTag

        sha256 = event["digest"]
        source = json.dumps({"sha256": sha256})
        data = Dataset(event["name"][:500], sha256[:36], source_type="dvc", source=source)
        tags = [InputTag("mlflow.data.context", event["context"])]
        self.mlflow.log_inputs(
            self.runs[event["run"]], datasets=[DatasetInput(dataset=data, tags=tags)]
        )


def _milliseconds(event: Event) -> int:
    return int(1000 * event["time"])


def _as_key(name: str) -> str:
    """Return a name that MLflow takes."""
    return re.sub(r"[^\w\-./ ]", "_", name)


def _as_stored(values: Mapping[str, str]) -> dict[str, str]:
    """Return settings by names and of lengths that MLflow takes."""
    return {_as_key(key): value[:6000] for key, value in values.items()}


def _log_params(mlflow: Any, run_id: str, values: Mapping[str, str]) -> None:
    from mlflow.entities import Param

    params = [Param(key, value) for key, value in values.items()]
    for start in range(0, len(params), 100):
        mlflow.log_batch(run_id, params=params[start : start + 100])
