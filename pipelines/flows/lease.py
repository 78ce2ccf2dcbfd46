"""Which process a run belongs to, and whether it is still wanted: asked of Prefect's server every few seconds.

A run that has been silent for two minutes is marked as crashed and soon given to another worker (deploy/automations).
Its process may still live: the server or the network was away. So the process that does a run writes its name into the
run's labels and marks the run as running again, and the next process asks there first:

    electra.holder   the process that does the run
    electra.begun    how many processes have begun it
    electra.asks     a process that was given the same run, and waits for a sign of life
    electra.answer   the process that the holder has answered: it leaves, and the run goes on where it is

Without an answer the process that asked becomes the holder. A holder that comes back too late finds another's name and
ends; its stage is asked to stop, and saves. A part of a run (team.py) is cancelled when the whole has been.
"""

import contextlib
import contextvars
import os
import platform
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

from prefect.client.orchestration import get_client
from prefect.exceptions import Abort
from prefect.runtime import flow_run
from prefect.settings import PREFECT_CLIENT_MAX_RETRIES, temporary_settings
from prefect.states import Cancelling, Running

HOLDER, BEGUN, ASKS, ANSWER = "electra.holder", "electra.begun", "electra.asks", "electra.answer"
POLL = float(os.environ.get("ELECTRA_POLL", "10"))  # seconds between two looks
PATIENCE = 4 * POLL  # for a sign of life
WHOLE_CANCELLED = "the run that it is a part of was cancelled"
Log = Callable[[str], None]


@contextlib.contextmanager
def held(log: Log) -> Iterator[int]:
    """Around a run that a worker has started: it is this process's alone. Gives the number of those before, who died.

    Raises Abort if the run is another's, which lives: Prefect ends the process then, and leaves the run's state alone.
    """
    if "PREFECT__FLOW_RUN_ID" not in os.environ:
        yield 0
        return
    run, me = str(flow_run.id), f"{platform.node()} process {os.getpid()} ({uuid.uuid4().hex[:8]})"
    with get_client(sync_client=True) as client:
        died = take(client, run, me, log)
    ended = threading.Event()
    whole = contextvars.copy_context().run
    threading.Thread(target=whole, args=(watch, run, me, ended, log), name="attempt", daemon=True).start()
    try:
        yield died
    finally:
        ended.set()


def take(client: Any, run: str, me: str, log: Log) -> int:
    """Become the holder of a run, unless the one before lives; how many there were before."""
    labels = client.read_flow_run(run).labels
    if holder := labels.get(HOLDER):
        log(f"{holder} had this run: waits {PATIENCE:g} seconds for a sign of life")
        client.update_flow_run_labels(run, {ASKS: me})
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            time.sleep(POLL / 4)
            if client.read_flow_run(run).labels.get(ANSWER) == me:
                log(f"{holder} lives and does this run: there is nothing to do here")
                raise Abort
    died = int(labels.get(BEGUN, 0))
    client.update_flow_run_labels(run, {HOLDER: me, BEGUN: died + 1})
    return died


def watch(run: str, me: str, ended: threading.Event, log: Log) -> None:
    """Look after a run until it has ended; a server that does not answer is asked again."""
    whole = None
    with temporary_settings({PREFECT_CLIENT_MAX_RETRIES: 0}), get_client(sync_client=True) as client:
        while not ended.wait(POLL):
            with contextlib.suppress(Exception):
                whole = whole or flow_run.parent_flow_run_id
                look(client, run, me, whole, log)


def look(client: Any, run: str, me: str, whole: str | None, log: Log) -> None:
    """Leave a run that another process has taken, answer who asks, mark it as running, cancel a part with its whole."""
    current = client.read_flow_run(run)
    if (holder := current.labels.get(HOLDER)) != me:
        log(f"{holder} has taken this run, which was not heard of for too long: this process ends, what it saved stays")
        leave()
    if (asks := current.labels.get(ASKS)) and asks != current.labels.get(ANSWER):
        client.update_flow_run_labels(run, {ANSWER: asks})
    if current.state.is_crashed() or current.state.is_scheduled():
        client.set_flow_run_state(run, Running(message="it lives, and was only out of reach"), force=True)
    state = client.read_flow_run(whole).state if whole and current.state.is_running() else None
    if state and (state.is_cancelled() or state.is_cancelling()):
        client.set_flow_run_state(run, Cancelling(message=WHOLE_CANCELLED))


def leave() -> None:
    """End without a word to Prefect, whose run this is no more. The watcher of `repro` asks the stage to stop."""
    time.sleep(3)  # the log is sent every two seconds
    os._exit(0)
