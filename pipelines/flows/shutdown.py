"""The end of a flow whose Prefect server has vanished: the work is finished, a sentence is said, the process ends.

Prefect runs a flow on without its server, but cannot note how it ended, and its threads for
logs and events try for ever.
"""

import contextlib
import contextvars
import os
import sys
import threading
from collections.abc import Callable
from typing import Any, NoReturn

from electra.errors import SourceUnreachable

SECONDS = 45.0  # after the work: MLflow has WORKFLOW_SECONDS of them at most, and Prefect notes the end within a few
TELLING = 10.0  # for a page: Prefect's client would try for more than a minute


def unreachable(error: BaseException | None) -> bool:
    """Whether an error, or what led to it, is that the server does not answer."""
    while error is not None:
        kinds = {(kind.__module__.partition(".")[0], kind.__name__) for kind in type(error).__mro__}
        if ("httpx", "TransportError") in kinds or "Failed to reach API" in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False


def gone() -> NoReturn:
    """Say it and end, whatever threads are left."""
    found = SourceUnreachable(
        os.environ.get("PREFECT_API_URL") or "Prefect",
        "the server has gone; stages that had begun were finished, and DVC knows them",
        "",
        "start the server (`make server`) and the same flow again: it goes on from there",
    )
    with contextlib.suppress(OSError):  # the worker that would read it may be dead
        print(f"error: {found}", file=sys.stderr, flush=True)
        sys.stdout.flush()
    os._exit(found.exit_code)


def tell(leave: Callable[..., object], *arguments: Any) -> None:
    """Leave a page with the server, unless it has gone: the numbers are in their file, and work does not wait."""
    raised: list[Exception] = []

    def try_it() -> None:
        try:
            leave(*arguments)
        except Exception as error:
            raised.append(error)

    thread = threading.Thread(target=contextvars.copy_context().run, args=(try_it,), daemon=True)
    thread.start()
    thread.join(TELLING)
    if raised and not unreachable(raised[0]):
        raise raised[0]


def limit() -> None:
    """The work is done: this process ends within seconds, or is ended."""
    timer = threading.Timer(SECONDS, gone)
    timer.daemon = True
    timer.start()
