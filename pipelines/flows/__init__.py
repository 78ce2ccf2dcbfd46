"""Prefect flows: when and where stages run, retries, live logs, result pages. What is up to date is DVC's to say."""

import importlib
import os
import socket
import tomllib
import urllib.parse
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from electra.errors import BadConfig
from pipelines import ROOT

ALONE = "ELECTRA_FLOW_ALONE"  # set while a process runs one flow and nothing else
FLOWS = ("pretrain", "finetune", "ablations", "workflow")


def start(flow: str, model: str, settings: Mapping[str, Any] = MappingProxyType({})) -> int:
    """Run a flow in this process, on the server that answers or, where none does, on a temporary one.

    It takes place in this checkout as it stands; with `settings` in one of its own, of the last commit.
    """
    choose_server()
    module = importlib.import_module(f"pipelines.flows.{flow}")
    from pipelines.flows import shutdown

    os.environ[ALONE] = "1"
    try:
        commit = "HEAD" if settings else ""
        state = getattr(module, flow)(model, commit=commit, settings=dict(settings), return_state=True)
        error = state.result(raise_on_failure=False)
    except Exception as raised:
        error = raised
        if not shutdown.unreachable(raised):
            raise
    finally:
        del os.environ[ALONE]
    if isinstance(error, BaseException) and shutdown.unreachable(error):
        shutdown.gone()
    return 0 if state.is_completed() else 1


def serve() -> int:
    """Offer the flows of tiny as deployments from this process, without a work pool (`make serve`)."""
    choose_server()
    from prefect import serve as serve_deployments

    deployments = []
    for name in FLOWS:
        flow = getattr(importlib.import_module(f"pipelines.flows.{name}"), name)
        deployments.append(flow.to_deployment("electra-tiny", parameters={"model": "tiny"}))
    serve_deployments(*deployments, limit=1)
    return 0


def choose_server() -> None:
    """prefect.toml names the server of `make server`; where it does not answer, Prefect brings up one of its own.

    Must come before Prefect is imported, since that is when it reads its settings.
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
