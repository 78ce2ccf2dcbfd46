"""Prefect flows: when and where stages run, retries, live logs, result pages. DVC decides what is
up to date.
"""

import contextlib
import os
import socket
import tomllib
import urllib.parse
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from electra.errors import BadConfig
from pipelines import ROOT


def start(flow: str, model: str, settings: Mapping[str, Any] = MappingProxyType({})) -> int:
    """Run a flow in this process, on the server that answers or on a temporary one, and return
    the exit code.

    It takes place in this checkout as it is. With `settings` in a clone of its own, of the last
    commit.
    """
    with chosen_server():
        from pipelines.flows import server, training

        server.alone = True
        try:
            commit = "HEAD" if settings else ""
            state = getattr(training, flow)(
                model, commit=commit, settings=dict(settings), return_state=True
            )
            error = None if state.is_completed() else state.result(raise_on_failure=False)
        except Exception as raised:
            if server.is_unreachable(raised):
                server.end_process()
            raise
        finally:
            server.alone = False
        if server.is_unreachable(error):
            server.end_process()
        return getattr(error, "exit_code", 1) if error else 0


@contextlib.contextmanager
def chosen_server() -> Iterator[None]:
    """Let Prefect start a temporary server where that of prefect.toml (`make server`) does not
    answer.

    Raises BadConfig for a damaged prefect.toml.
    """
    if os.environ.get("PREFECT_API_URL") or is_answering():
        yield
        return
    from prefect.settings import PREFECT_API_URL, temporary_settings

    with temporary_settings({PREFECT_API_URL: None}):
        yield


def is_answering() -> bool:
    """Return whether something listens at the address that prefect.toml names."""
    file = ROOT / "prefect.toml"
    try:
        url = urllib.parse.urlsplit(tomllib.loads(file.read_text(encoding="utf-8"))["api"]["url"])
        place = str(url.hostname), url.port or 80
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise BadConfig(
            f"{file}: names no server as api.url ({error}); `git restore prefect.toml`"
        ) from None
    try:
        with socket.create_connection(place, timeout=2):
            return True
    except OSError:
        return False
