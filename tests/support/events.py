"""Events as a stage reports them, sent to MLflow in this process, and the runs that MLflow then
has.
"""

import os
import re
import threading

from pipelines.tracking import PARENT
from pipelines.tracking.event_log import EventLog
from pipelines.tracking.uploader import upload

CLOSE = {"what": "close", "run": "", "time": 9.0, "status": "FINISHED"}


def runs(store):
    """Return the runs by name, without the commit, which the name of a workflow ends with."""
    client, experiment = store
    return {
        re.sub(r" [0-9a-f]{8}$", "", run.info.run_name): run
        for run in client.search_runs([experiment])
    }


def points(store, run, key):
    history = store[0].get_metric_history(run.info.run_id, key)
    return [(point.step, point.value) for point in history]


def append(folder, *events):
    log = EventLog(folder)
    for event in events:
        log.append(event)
    return log


def send(folder, *events):
    """Append events and send them as after the stage's end; whether MLflow has everything."""
    ended = threading.Event()
    ended.set()
    return upload(append(folder, *events), ended)


def opening(**facts):
    event = {
        **{"what": "open", "run": "", "time": 1.0, "name": "pretrain@tiny"},
        "params": {"a.b": "1"},
        "tags": {"stage": "pretrain", "name": "tiny", "data": "sample world"},
        "uri": os.environ["MLFLOW_TRACKING_URI"],
        "parent": os.environ.get(PARENT, ""),
        "workflow": ["test-1", "dvc repro"],
        "upstream": [],
    }
    return event | facts


def nested(name, **params):
    return {"what": "open", "run": name, "time": 2.0, "name": name, "params": params}


def metric(step, run="", **values):
    return {"what": "metrics", "run": run, "step": step, "values": values, "time": float(step or 0)}


def losses(steps):
    return [metric(step, loss=float(step)) for step in steps]
