"""The end of a flow whose Prefect server has vanished: the work is finished, a sentence is said, the process ends.

Prefect runs a flow on without its server, but cannot note how it ended, and its threads for logs and events try for ever.
"""

import os
import sys
import threading
from typing import NoReturn

from electra.errors import SourceUnreachable

SECONDS = 45.0  # after the work: Prefect notes the end within a few


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
    print(f"error: {found}", file=sys.stderr, flush=True)
    sys.stdout.flush()
    os._exit(found.exit_code)


def limit() -> None:
    """The work is done: this process ends within seconds, or is ended."""
    timer = threading.Timer(SECONDS, gone)
    timer.daemon = True
    timer.start()
