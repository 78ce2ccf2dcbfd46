"""Handle a Prefect server that does not answer, and the state that it has of this process's run.

Prefect runs a flow on without its server, but cannot record how it ended, and its threads for logs
and events try forever. So a process that runs one flow and nothing else ends when its work is done
and no server answers.
"""

import contextlib
import contextvars
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from prefect.client.orchestration import get_client
from prefect.exceptions import ObjectNotFound
from prefect.runtime import flow_run
from prefect.settings import (
    PREFECT_API_REQUEST_TIMEOUT,
    PREFECT_API_URL,
    PREFECT_CLIENT_MAX_RETRIES,
    temporary_settings,
)
from prefect.states import Running

from electra.errors import SourceUnreachable

alone = False  # while `electra flow` runs; a worker's processes run one flow each
POLL = float(os.environ.get("ELECTRA_POLL", "10"))  # seconds between two looks at a run
SECONDS = 45.0  # after the work: Prefect records the end within a few
# by default more than a minute
PATIENT = {PREFECT_CLIENT_MAX_RETRIES: 1, PREFECT_API_REQUEST_TIMEOUT: 5.0}


def is_unreachable(error: BaseException | None) -> bool:
    """Return whether an error, or its cause, is that the server does not answer."""
    while error is not None:
        kinds = {(kind.__module__.partition(".")[0], kind.__name__) for kind in type(error).__mro__}
        if ("httpx", "TransportError") in kinds or "Failed to reach API" in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False


def has_failed(error: BaseException | None) -> bool:
    """Return whether the server or its database did not answer."""
    response = getattr(error, "response", None)
    return is_unreachable(error) or getattr(response, "status_code", 0) >= 500


def send(create: Callable[..., object], *arguments: Any, **values: Any) -> None:
    """Create something on the server if it answers: the numbers are on disk anyway."""
    try:
        with temporary_settings(PATIENT):
            create(*arguments, **values)
    except Exception as error:
        if not has_failed(error):
            raise


def end_if_unreachable() -> None:
    """End this process, once its work is done, as soon as no server answers. Other processes
    are left alone.
    """
    if alone or "PREFECT__FLOW_RUN_ID" in os.environ:
        _in_background(_wait_until_unreachable)


def _wait_until_unreachable() -> None:
    with temporary_settings(PATIENT):
        error: Exception | None = None
        while not is_unreachable(error):
            time.sleep(SECONDS)
            try:
                with get_client(sync_client=True) as client:
                    error = client.api_healthcheck()
            except Exception as raised:
                error = raised
        end_process()


def end_process() -> NoReturn:
    """Print that the server has gone and end the process, even if threads are left."""
    url = PREFECT_API_URL.value() or "Prefect"
    error = SourceUnreachable(
        f"{url}: the server has gone; stages that had started were finished, and DVC knows them; "
        "start it (`make server`) and the same flow again: it continues from there"
    )
    with contextlib.suppress(OSError):  # the worker that would read it may be dead
        print(f"error: {error}", file=sys.stderr, flush=True)
        sys.stdout.flush()
    os._exit(error.exit_code)


@contextlib.contextmanager
def stopped_when_unwanted(log: Callable[[str], None]) -> Iterator[None]:
    """Stop this process when its run has been deleted, or was cancelled and no worker lives that
    would stop it. Tell a server that took the run for dead that it is alive.
    """
    ended = threading.Event()
    if "PREFECT__FLOW_RUN_ID" in os.environ:
        _in_background(_watch, str(flow_run.id), ended, log)
    try:
        yield
    finally:
        ended.set()


def _watch(run: str, ended: threading.Event, log: Callable[[str], None]) -> None:
    while not ended.wait(POLL):
        with (
            contextlib.suppress(Exception),
            temporary_settings(PATIENT),
            get_client(sync_client=True) as client,
        ):
            state = current_state(client, run)
            if ended.is_set():
                return
            if state in ("CRASHED", "SCHEDULED"):
                # The machine slept, or the network was down for minutes. Prefect's worker would end
                # if it were handed a run that it has already.
                log("the server took this run for dead: it continues here")
                client.set_flow_run_state(run, Running(), force=True)
            elif state in ("CANCELLED", "DELETED"):
                log(f"this run was {state.lower()}: it stops, and what it saved stays")
                os.kill(os.getpid(), signal.SIGTERM)  # Prefect raises it where the flow is
                return


def current_state(client: Any, run: str) -> str:
    """Return the type of a run's state on the server, `DELETED` if there is no such run."""
    try:
        state = client.read_flow_run(run).state
    except ObjectNotFound:
        return "DELETED"
    return state.type.value if state else ""


def _in_background(work: Callable[..., None], *arguments: Any) -> None:
    """Run something in a thread that has this one's settings of Prefect, and does not keep the
    process alive.
    """
    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(work, *arguments), daemon=True).start()
