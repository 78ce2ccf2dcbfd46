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
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from electra.errors import Refused, hidden
from electra.files import lock_folder, remove, rename
from pipelines.tracking import flatten, uri, warn
from pipelines.tracking.event_log import Event
from pipelines.tracking.lineage import about

EXPERIMENT = "electra"
# for UIs that read it; 3.17 takes it from the URL
KIND = {"mlflow.experimentKind": "custom_model_development"}
DATA_STAGES = {"corpus", "tokens", "tasks"}  # their numbers are counts, no headline of a workflow
MOST = 1000  # points of one call to MLflow
TRIES = 3  # of an event that MLflow refuses
FIRST_SECONDS = 300.0  # for another process to make a new database
KEY = "electra.run"  # the tag by which a run is found again


def client(store: str = "") -> Any:
    """Return an MLflow client, quiet, and the experiment's id. `store` is one that a log names,
    without a login.

    Raises Refused where the experiment has been deleted.
    """
    store = uri() if store in {"", hidden(uri())} else store
    # the uploader tries again by itself
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "10")
    import mlflow

    mlflow.set_tracking_uri(store)
    for name in ("mlflow", "alembic"):
        logging.getLogger(name).setLevel(logging.ERROR)
    with database(store) as files:
        made = mlflow.MlflowClient()
        experiment = made.get_experiment_by_name(EXPERIMENT)
        if experiment is None:
            return made, made.create_experiment(EXPERIMENT, files, tags=KIND)
        refuse_deleted(experiment)
        return made, experiment.experiment_id


def refuse_deleted(experiment: Any) -> None:
    """Raise Refused for an experiment that is in MLflow's trash, where nothing can be recorded."""
    if experiment.lifecycle_stage == "deleted":
        restore = f"mlflow experiments restore --experiment-id {experiment.experiment_id}"
        raise Refused(
            f"the experiment {EXPERIMENT} was deleted in MLflow; `{restore}` brings it back"
        )


@contextlib.contextmanager
def database(store: str) -> Iterator[str | None]:
    """Lock an SQLite store and make it if it is not there; yields where the files of its runs go
    (None: no such store).

    Two processes would both make its tables, and one that is killed then leaves a file that MLflow
    cannot open again: so the file gets its name when it is complete.
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
    """Correct where a database that was moved or copied says that its runs' files are; MLflow keeps
    whole paths.
    """
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        query = "SELECT artifact_location FROM experiments WHERE name = ?"
        for (old,) in connection.execute(query, (EXPERIMENT,)).fetchall():
            if old != files and re.fullmatch("file:///.*/mlruns", old):
                change = "UPDATE {} SET {} = ? || substr({}, ?) WHERE substr({}, 1, ?) = ?"
                for table, column in (
                    ("experiments", "artifact_location"),
                    ("runs", "artifact_uri"),
                ):
                    sql = change.format(table, column, column, column)
                    connection.execute(sql, (files, len(old) + 1, len(old), old))


def open_parent(
    name: str,
    params: dict[str, Any],
    key: str,
    store: Any = None,
    facts: dict[str, str] | None = None,
) -> str:
    """The run of a workflow: the one tagged `key`, else a new one, with the commit in its name.
    Returns its id.
    """
    mlflow, experiment = store or client()
    text = "".join(character for character in key if character not in "'\"\\")
    runs = mlflow.search_runs([experiment], f"tags.`electra.workflow` = '{text}'", max_results=1)
    if runs:
        mlflow.update_run(runs[0].info.run_id, status="RUNNING")
        return str(runs[0].info.run_id)
    tags = {
        "electra.workflow": text,
        "electra.kind": "workflow",
        **(about() if facts is None else facts),
    }
    commit = tags.get("mlflow.source.git.commit", "")[:8]
    tags.setdefault("mlflow.source.name", name)  # without it the UI does not show the commit either
    run_id = mlflow.create_run(
        experiment, tags=tags, run_name=f"{name} {commit}".strip()
    ).info.run_id
    _log_params(mlflow, run_id, _as_stored(flatten(params)))
    return str(run_id)


def tag_outs(mlflow: Any, experiment: str, parent: str, hashes: dict[str, dict[str, str]]) -> None:
    """Tag a workflow's finished stages with the hashes of their outs: DVC knows them only after a
    stage has ended.
    """
    for run in mlflow.search_runs([experiment], f"tags.`mlflow.parentRunId` = '{parent}'"):
        for path, md5 in hashes.get(run.info.run_name, {}).items():
            if run.info.status == "FINISHED":
                mlflow.set_tag(run.info.run_id, f"dvc.out.{path}", md5)


class Recorder:
    """Sends a run's events. `state` is saved with them: what is needed to continue after a restart,
    such as run ids.

    `store` is where they go, if not to the store that the events name.
    """

    def __init__(self, state: dict[str, Any], store: str = "") -> None:
        self.state = state
        self.store = store
        self.runs = state["runs"]
        self.mlflow: Any = None
        self.experiment = ""
        self.last: dict[str, dict[str, int]] = {}  # run id -> metric -> its last step in MLflow
        self.points: list[tuple[str, Any]] = []  # (run id, metric), waiting for one call
        self.refused = False

    def send(self, events: Sequence[Event]) -> None:
        """Send events in their order; raises what MLflow raises if it does not answer.

        An event that it refuses is left out after some tries, with a warning. Without its run
        nothing can be sent: raises Refused if it refuses that, or if the experiment has been
        deleted.
        """
        for event in events:
            self.state["uri"] = hidden(self.store) or event.get("uri", self.state.get("uri", ""))
            if self.mlflow is None:
                self.mlflow, self.experiment = client(self.store or self.state["uri"])
            if event["what"] != "metrics":
                self._try(self._flush)
            self._try(getattr(self, f"_{event['what']}"), event)
        self._try(self._flush)

    def _try(self, call: Callable[..., None], *event: Event) -> None:
        for left in reversed(range(TRIES)):
            try:
                return call(*event)
            except Exception as error:
                # raises if MLflow does not answer
                refuse_deleted(self.mlflow.get_experiment(self.experiment))
                if not left and event and event[0]["what"] == "open" and not event[0]["run"]:
                    raise Refused(f"MLflow refuses the run {event[0]['name']} ({error})") from error
                if not left and not self.refused:
                    warn(f"left out of the record: {error}")
                    self.refused = True
        if not event:
            self.points = []
        return None

    def _open(self, event: Event) -> None:
        """Create a run, or continue the one that a killed stage left."""
        path, state = event["run"], self.state
        if not path:
            state["data"] = {"data": event["tags"]["data"]} if event["tags"].get("data") else {}
            state["found_parent"], state["closed"] = not event["parent"], ""
            key, title = event["workflow"] or ("", "")
            store = self.mlflow, self.experiment
            state["parent"] = event["parent"] or open_parent(title, {}, key, store, state["git"])
            stage = event["tags"].get("stage", "")
            state["headline"] = "" if key.startswith("by-hand") or stage in DATA_STAGES else stage
        above = self.runs[path.rpartition("/")[0]] if path else state["parent"]
        params = _as_stored(event["params"])
        if found := self._find(path, params):
            self.runs[path] = found.info.run_id
            self.mlflow.update_run(found.info.run_id, status="RUNNING")
            self.mlflow.set_tag(found.info.run_id, "mlflow.parentRunId", above)
            if "error" in found.data.tags:
                self.mlflow.delete_tag(found.info.run_id, "error")
        else:
            tags = {
                "mlflow.parentRunId": above,
                KEY: f"{state['id']}/{path}",
                **state["git"],
                **state["data"],
            }
            tags |= event.get("tags", {})
            made = self.mlflow.create_run(
                self.experiment, tags=tags, run_name=event["name"]
            ).info.run_id
            self.runs[path], self.last[made] = made, {}
        _log_params(self.mlflow, self.runs[path], params)
        if not path:
            self._lineage(self.runs[path], event["upstream"])

    def _find(self, path: str, params: dict[str, str]) -> Any:
        """The run of an earlier try, if it has not been deleted: its id may be known, or the answer
        have been lost.

        None for one with other settings, as of an arm whose model has changed: MLflow changes no
        parameter of a run.
        """
        for run in self.mlflow.search_runs(
            [self.experiment], f"tags.`{KEY}` = '{self.state['id']}/{path}'"
        ):
            if all(params.get(key, value) == value for key, value in run.data.params.items()):
                return run
        return None

    def _metrics(self, event: Event) -> None:
        values = event["values"]
        if event["step"] is None and not event["run"] and self.state.get("headline"):
            headline = {f"{self.state['headline']}/{key}": value for key, value in values.items()}
            self._points(self.state["parent"], headline, event)
        self._points(self.runs[event["run"]], values, event)

    def _points(self, run_id: str, values: dict[str, float], event: Event) -> None:
        from mlflow.entities import Metric

        for name, value in values.items():
            key, step = re.sub(r"[^\w\-./ ]", "_", name), event["step"]
            if step is not None:
                if step <= self._last(run_id, key):
                    continue
                self.last[run_id][key] = step
            self.points.append((run_id, Metric(key, value, int(event["time"] * 1000), step or 0)))

    def _last(self, run_id: str, key: str) -> int:
        """The last step of a metric in MLflow: a resumed stage repeats what came after its
        checkpoint.
        """
        known = self.last.setdefault(run_id, {})
        if key not in known:
            known[key] = max(
                (point.step for point in self.mlflow.get_metric_history(run_id, key)), default=-1
            )
        return known[key]

    def _flush(self) -> None:
        """Send the points that are waiting. MLflow keeps one of equal points, so a repeated call
        adds none.
        """
        for run_id in dict.fromkeys(run_id for run_id, _ in self.points):
            points = [point for owner, point in self.points if owner == run_id]
            for start in range(0, len(points), MOST):
                self.mlflow.log_batch(run_id, metrics=points[start : start + MOST])
        self.points = []

    def _artifact(self, event: Event) -> None:
        self.mlflow.log_artifact(self.runs[event["run"]], event["file"], event["folder"] or None)

    def _tags(self, event: Event) -> None:
        for key, value in event["values"].items():
            self.mlflow.set_tag(self.runs[event["run"]], key, value)

    def _end(self, event: Event) -> None:
        """The end of a workflow, or of a part of one (without a status)."""
        if event["status"]:
            self.mlflow.set_terminated(event["workflow"], event["status"])
        tag_outs(self.mlflow, self.experiment, event["workflow"], event["hashes"])

    def _close(self, event: Event) -> None:
        """End a run; the end of the stage's own run ends the record."""
        status = event["status"]
        if not event["run"]:
            self.state["closed"] = status  # first: an end that MLflow refuses is an end, too
        run_id = self.runs[event["run"]]
        if event.get("error"):
            self.mlflow.set_tag(run_id, "error", event["error"])
        self.mlflow.set_terminated(run_id, status)
        # no flow will end it: it lasts as long as its stages
        if not event["run"] and self.state["found_parent"]:
            self.mlflow.set_terminated(self.state["parent"], status)

    def _lineage(self, run_id: str, upstream: list[str]) -> None:
        """DVC's hashes as tags: of what this stage reads, and of what the workflow's earlier stages
        have written.
        """
        hashes = self.state["hashes"]
        for stage in upstream:
            for path, md5 in hashes.get(stage, {}).items():
                self.mlflow.set_tag(run_id, f"dvc.in.{path}", md5)
        # a flow does it at its end: of its stages some ran elsewhere
        if self.state["found_parent"]:
            tag_outs(self.mlflow, self.experiment, self.state["parent"], hashes)

    def _dataset(self, event: Event) -> None:
        from mlflow.entities import Dataset, DatasetInput, InputTag

        name, digest, source = (
            event["name"][:500],
            event["digest"][:36],
            json.dumps({"sha256": event["digest"]}),
        )
        data = Dataset(name=name, digest=digest, source_type="dvc", source=source)
        tags = [InputTag("mlflow.data.context", event["context"])]
        self.mlflow.log_inputs(
            self.runs[event["run"]], datasets=[DatasetInput(dataset=data, tags=tags)]
        )


def _as_stored(values: dict[str, str]) -> dict[str, str]:
    """Settings by names and of lengths that MLflow takes."""
    return {re.sub(r"[^\w\-./ ]", "_", key): value[:6000] for key, value in values.items()}


def _log_params(mlflow: Any, run_id: str, values: dict[str, str]) -> None:
    from mlflow.entities import Param

    params = [Param(key, value) for key, value in values.items()]
    for start in range(0, len(params), 100):
        mlflow.log_batch(run_id, params=params[start : start + 100])
