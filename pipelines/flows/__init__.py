"""Prefect flows: when and where stages run, retries, live logs, result pages. DVC decides what is up to date."""

import os
import socket
import tomllib
import urllib.parse
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from electra.errors import BadConfig
from pipelines import ROOT


def start(flow: str, model: str, settings: Mapping[str, Any] = MappingProxyType({})) -> int:
    """Run a flow in this process, on the server that answers or, where none does, on a temporary one.

    It takes place in this checkout as it is; with `settings` in a folder of its own, of the last commit.
    """
    choose_server()
    from pipelines.flows import shutdown, training

    os.environ[shutdown.ALONE] = "1"
    try:
        commit = "HEAD" if settings else ""
        state = getattr(training, flow)(model, commit=commit, settings=dict(settings), return_state=True)
        if not shutdown.unreachable(state.result(raise_on_failure=False)):
            return 0 if state.is_completed() else 1
    except Exception as error:
        if not shutdown.unreachable(error):
            raise
    finally:
        del os.environ[shutdown.ALONE]
    shutdown.gone()


def choose_server() -> None:
    """prefect.toml names the server of `make server`; where it does not answer, Prefect starts a temporary one.

    Must come before Prefect is imported, which reads its settings then. Raises BadConfig for a damaged prefect.toml.
    """
    if "PREFECT_API_URL" in os.environ:
        return
    file = ROOT / "prefect.toml"
    try:
        url = urllib.parse.urlsplit(tomllib.loads(file.read_text(encoding="utf-8"))["api"]["url"])
        place = str(url.hostname), url.port or 80
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise BadConfig(file, f"names no server ({error})", "api.url, a URL", "git restore prefect.toml") from None
    try:
        with socket.create_connection(place, timeout=2):
            pass
    except OSError:
        os.environ["PREFECT_API_URL"] = ""
