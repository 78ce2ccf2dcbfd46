"""What tests of tracking say to a recorder, and read back from the store."""

import os
import re
import threading
from pathlib import Path
from typing import Any

from pipelines.tracking import PARENT, recorder
from pipelines.tracking.event_log import Spool
from pipelines.tracking.uploader import Delivery


def runs(store: Any) -> dict[str, Any]:
    """By name; without the commit, which the name of a workflow ends with."""
    client, experiment = store
    return {re.sub(r" [0-9a-f]{8}$", "", run.info.run_name): run for run in client.search_runs([experiment])}


def points(store: Any, run: Any, key: str) -> list[tuple[int, float]]:
    return [(point.step, point.value) for point in store[0].get_metric_history(run.info.run_id, key)]


def told(messages: list[dict[str, Any]], folder: Path) -> bool:
    """What a stage says until its end, and a recorder that begins then; whether everything arrived."""
    spool, ended = Spool(folder), threading.Event()
    for message in messages:
        spool.append(message)
    ended.set()
    return Delivery(spool, recorder.Recorder, ended, git=recorder.about).run()


def opening(**more: Any) -> dict[str, Any]:
    return {
        "what": "open",
        "run": "",
        "name": "pretrain@tiny",
        "params": {"a.b": "1"},
        "tags": {"stage": "pretrain", "data": "sample world"},
        "uri": os.environ["MLFLOW_TRACKING_URI"],
        "parent": os.environ.get(PARENT, ""),
        "workflow": ["test-1", "dvc repro"],
        "upstream": [],
        **more,
    }


def metric(step: int | None, run: str = "", **values: float) -> dict[str, Any]:
    return {"what": "metrics", "run": run, "step": step, "values": values, "time": 1.0}


CLOSE = {"what": "close", "run": "", "status": "FINISHED"}
