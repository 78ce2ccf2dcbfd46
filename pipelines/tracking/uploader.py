"""Sends a run's event log to MLflow, in order and in batches: a stage's background process, and
`sync`.

While MLflow does not answer, a batch is tried again after a pause. The offset is saved after each
batch, so an uploader that was killed repeats one batch at most: finding runs by tag and MLflow's
own keys for points make that harmless.
"""

import copy
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

from electra.errors import Busy, Refused, SourceUnreachable, mask_secrets
from electra.files import lock_folder, remove
from electra.stopping import ignore_all
from electra.storage.run_dir import runs_folder
from pipelines.tracking import FOLDER, address, warn
from pipelines.tracking.event_log import EventLog
from pipelines.tracking.lineage import common_tags, dvc_hashes
from pipelines.tracking.recorder import Recorder

BATCH = 900  # events; a call to MLflow takes at most 1000 points
FLUSH_SECONDS = 3.0  # between two looks at the log
# between two tries while MLflow does not answer: the first, and the longest after doubling
PAUSES = (2.0, 30.0)
START_SECONDS = 60.0  # for the uploader of an earlier run to end


def upload(
    log: EventLog,
    ended: threading.Event,
    *,
    live: bool = False,
    store: str = "",
    patience: float = START_SECONDS,
) -> bool:
    """Send events until the stage has `ended` and MLflow has all of them. False if it refuses them
    or does not answer.

    Of a `live` stage the machine's load is recorded, too. `store` is another one than that which
    the log names. Raises Busy if another process sends this log.
    """
    with lock_folder(log.folder, patience):
        state = log.state()
        if store and state.get("uri", mask_secrets(store)) != mask_secrets(store):
            # the ids of another store are of no use here
            state |= {"offset": 0, "runs": {}, "closed": True}
        state.setdefault("git", common_tags())
        if live or "hashes" not in state:  # `sync` may run in another checkout
            state["hashes"] = dvc_hashes()
        log.save(state)  # before anything is sent: the id by which the runs are found again
        monitor = None
        # of a copy, since a batch that is not answered is sent again as a whole
        recorder = Recorder(copy.deepcopy(state), store)
        silent = False
        pause = PAUSES[0]
        try:
            while True:
                last = ended.is_set()  # asked first, so that all events of the stage are read below
                events, offset = log.read(state["offset"], BATCH)
                complete = last and not events
                if complete and not state["closed"]:  # the stage was killed
                    events = [{"what": "close", "run": "", "time": time.time(), "status": "KILLED"}]
                try:
                    if events:
                        recorder.send(events)
                        state = copy.deepcopy(recorder.state) | {"offset": offset}
                        log.save(state)
                    if live and monitor is None and not last and "" in state["runs"]:
                        monitor = watch_machine(state["runs"][""])
                except Exception as error:
                    final = last or isinstance(error, Refused)
                    if final or not silent:
                        later = "`electra sync` sends it, to MLFLOW_TRACKING_URI if that is set"
                        warn(error, f"what is unsent stays in {log.folder}", later)
                    if final:
                        return False
                    silent = True
                    recorder = Recorder(copy.deepcopy(state), store)
                    ended.wait(pause)
                    pause = min(2 * pause, PAUSES[1])
                    continue
                if silent:
                    print("tracking: MLflow has what was kept", file=sys.stderr, flush=True)
                silent = False
                pause = PAUSES[0]
                if complete:
                    if state["closed"] in {True, "FINISHED"}:  # another try continues the same run
                        remove(log.folder)
                    return True
                if not events:
                    ended.wait(FLUSH_SECONDS)
        finally:
            if monitor is not None:
                monitor.finish()


def watch_machine(run_id: str) -> Any:
    """Record the load of processors, memory, disks, network and GPUs for a run, as MLflow does."""
    from mlflow.system_metrics.system_metrics_monitor import SystemMetricsMonitor

    monitor = SystemMetricsMonitor(run_id, resume_logging=True)
    monitor.start()
    return monitor


def sync(folder: Path) -> list[Path]:
    """Send the unsent events of earlier runs, and return the logs that MLflow still does not take.

    They go to MLFLOW_TRACKING_URI if that is set, else to the store that each names.
    """
    ended = threading.Event()
    ended.set()
    store = address() if os.environ.get("MLFLOW_TRACKING_URI") else ""
    unsent = []
    for path in sorted(folder.glob("*/")):
        log = EventLog(path)
        state = log.state()
        if state["closed"] and not log.read(state["offset"], 1)[0]:
            continue
        try:
            if not upload(log, ended, store=store, patience=0.0):
                unsent.append(path)
        except Busy:
            print(f"{path}: a stage is sending it", flush=True)
    return unsent


def send_all() -> None:
    """Send the unsent events of all runs here and in flows' folders. Raises SourceUnreachable if
    MLflow does not take it.
    """
    runs = runs_folder()
    unsent = sync(runs / FOLDER)
    for folder in sorted(runs.glob(f"flows/*/runs/{FOLDER}")):
        unsent += sync(folder)
    if unsent:
        raise SourceUnreachable(
            f"{unsent[0]}: MLflow does not take it ({len(unsent)} logs wait); start MLflow, or set "
            "MLFLOW_TRACKING_URI to where they should go; nothing is lost"
        )


def main(folder: Path) -> None:
    """Send the events of a stage. The stage has ended when standard input ends."""
    ignore_all()  # a stop is for the stage, which ends its run in its own way
    ended = threading.Event()

    def wait_for_end() -> None:
        while os.read(sys.stdin.fileno(), 4096):
            pass
        ended.set()

    threading.Thread(target=wait_for_end, daemon=True).start()
    try:
        upload(EventLog(folder), ended, live=True)
    except Exception as error:  # a full disk, for example; the stage is not ended by its record
        warn(error, f"what is unsent stays in {folder}", "`electra sync` sends it")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
