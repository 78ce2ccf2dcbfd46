"""Sends a run's event log to MLflow, in order and in batches: a stage's background process, and `sync`.

While MLflow does not answer, a batch is tried again after a pause. The offset is saved after each batch, so an uploader
that was killed repeats one batch at most: finding runs by tag and MLflow's own keys for points make that harmless.
"""

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from electra.errors import Busy, SourceUnreachable
from electra.files import lock_folder, remove
from electra.stopping import ignore_all
from pipelines.tracking import FOLDER, warn
from pipelines.tracking.event_log import EventLog
from pipelines.tracking.lineage import about, here
from pipelines.tracking.recorder import Recorder, system_load

BATCH = 900  # events; a call to MLflow takes at most 1000 points
FLUSH_SECONDS = 3.0  # between two looks at the log
PAUSES = (2.0, 30.0)  # between two tries while MLflow does not answer: the first, and the longest after doubling
SYSTEM_SECONDS = 10.0  # between two samples of the machine's load
START_SECONDS = 60.0  # for the uploader of an earlier run to end

Load = Callable[[], dict[str, float]]


def upload(log: EventLog, ended: threading.Event, load: Load | None = None, patience: float = START_SECONDS) -> bool:
    """Send events until the stage has `ended` and MLflow has all of them; False if it does not answer then.

    `load` samples the machine's load, for points every ten seconds. Raises Busy if another process sends this log.
    """
    with lock_folder(log.folder, patience):
        state = log.state()
        state.setdefault("git", about())
        if load or "hashes" not in state:  # `sync` may run in another checkout
            state |= here()
        log.save(state)  # before anything is sent: the id by which the runs are found again
        recorder, silent, pause, sampled = Recorder(state), False, PAUSES[0], float("-inf")
        while True:
            last = ended.is_set()  # asked first: so all that the stage appended is read below
            if load and not last and not state["closed"] and time.monotonic() - sampled >= SYSTEM_SECONDS:
                sampled = time.monotonic()
                with contextlib.suppress(OSError):
                    step = state["system_step"] = state.get("system_step", -1) + 1
                    log.append({"what": "metrics", "run": "", "step": step, "values": load(), "time": time.time()})
            events, offset = log.read(state["offset"], BATCH)
            try:
                if events:
                    recorder.send(events)
            except Exception as error:
                if not silent:
                    kept = f"the rest is in {log.folder}, and sent when it answers or by `python -m pipelines sync`"
                    warn(error, kept)
                if last:
                    return False
                silent, recorder = True, Recorder(state)
                ended.wait(pause)
                pause = min(2 * pause, PAUSES[1])
                continue
            if silent:
                print("tracking: MLflow answers again and has been sent what was kept", file=sys.stderr, flush=True)
            silent, pause = False, PAUSES[0]
            if offset != state["offset"]:
                state["offset"] = offset
                log.save(state)
            elif not last:
                ended.wait(FLUSH_SECONDS)
            elif not state["closed"]:  # the stage was killed
                log.append({"what": "close", "run": "", "status": "KILLED"})
            else:
                if state["closed"] in {True, "FINISHED"}:  # another try continues the same run
                    remove(log.folder)
                return True


def sync(folder: Path) -> list[Path]:
    """Send what earlier runs could not; returns the logs whose MLflow server still does not answer."""
    ended = threading.Event()
    ended.set()
    left = []
    for log in map(EventLog, sorted(path for path in folder.glob("*") if path.is_dir())):
        state = log.state()
        if state["closed"] and not log.read(state["offset"], 1)[0]:
            continue
        try:
            if not upload(log, ended, patience=0.0):
                left.append(log.folder)
        except Busy as error:
            print(f"{error.where}: a stage is sending it", flush=True)
    return left


def send_all() -> None:
    """Send what all runs here and in flows' checkouts could not; SourceUnreachable if MLflow still does not answer."""
    places = [Path("runs") / FOLDER, *sorted(Path("runs/flows").glob(f"*/runs/{FOLDER}"))]
    if left := [log for place in places for log in sync(place)]:
        do = "start it, or set MLFLOW_TRACKING_URI for new runs; nothing is lost"
        raise SourceUnreachable(left[0], f"MLflow's store does not answer ({len(left)} runs wait)", "", do)


def main(folder: Path) -> None:
    """Send what a stage appends; the end of this process's standard input is the end of the stage."""
    # A stop is for the stage, which ends its run in its own way.
    ignore_all()
    ended = threading.Event()

    def wait_for_end() -> None:
        while os.read(sys.stdin.fileno(), 4096):
            pass
        ended.set()

    threading.Thread(target=wait_for_end, daemon=True).start()
    upload(EventLog(folder), ended, system_load())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
