"""The end of a flow whose Prefect server has gone: the work is finished, one sentence is printed, the process ends.

Prefect runs a flow on without its server, but cannot record how it ended, and its threads for logs and events try
forever.
"""

import contextlib
import os
import sys
import threading
from collections.abc import Callable
from typing import Any, NoReturn

from prefect.settings import PREFECT_API_REQUEST_TIMEOUT, PREFECT_CLIENT_MAX_RETRIES, temporary_settings

from electra.errors import SourceUnreachable

ALONE = "ELECTRA_FLOW_ALONE"  # set while a process runs one flow and nothing else
SECONDS = 45.0  # after the work: MLflow has WORKFLOW_SECONDS of them at most, and Prefect records the end within a few
PATIENT = {PREFECT_CLIENT_MAX_RETRIES: 1, PREFECT_API_REQUEST_TIMEOUT: 5.0}  # by default more than a minute


def unreachable(error: BaseException | None) -> bool:
    """Whether an error, or what led to it, is that the server does not answer."""
    while error is not None:
        kinds = {(kind.__module__.partition(".")[0], kind.__name__) for kind in type(error).__mro__}
        if ("httpx", "TransportError") in kinds or "Failed to reach API" in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False


def gone() -> NoReturn:
    """Print that the server is gone and end the process, even if threads are left."""
    found = "the server has gone; stages that had begun were finished, and DVC knows them"
    do = "start the server (`make server`) and the same flow again: it goes on from there"
    error = SourceUnreachable(os.environ.get("PREFECT_API_URL") or "Prefect", found, "", do)
    with contextlib.suppress(OSError):  # the worker that would read it may be dead
        print(f"error: {error}", file=sys.stderr, flush=True)
        sys.stdout.flush()
    os._exit(error.exit_code)


def send(create: Callable[..., object], *arguments: Any, **more: Any) -> None:
    """Create something on the server, unless it has gone: the numbers are in their file, and work does not wait."""
    try:
        with temporary_settings(PATIENT):
            create(*arguments, **more)
    except Exception as error:
        if not (unreachable(error) or getattr(getattr(error, "response", None), "status_code", 0) >= 500):
            raise


def limit() -> None:
    """The work is done: a process that runs this flow and nothing else, here or for a worker, ends within seconds."""
    if ALONE in os.environ or "PREFECT__FLOW_RUN_ID" in os.environ:
        timer = threading.Timer(SECONDS, gone)
        timer.daemon = True
        timer.start()
