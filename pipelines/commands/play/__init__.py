"""`electra play`: a page in the browser to mask and replace words, see what is detected, and query fine-tuned models.

    electra play            the model that params.yaml `run` names first; or give a name, or a folder of models
    electra play mini --port 0 --host ::1

model_registry.py finds the models, server.py answers the page's requests, page.* is what the browser shows. The page
sends requests to this process alone, which listens to this machine alone unless `--remote` is given.
"""

import contextlib
import ipaddress
import os
import socket
from typing import Any

from electra.errors import BadConfig, Busy
from pipelines.commands.play.model_registry import ModelRegistry


def run(model: str | None, host: str, port: int, *, remote: bool = False) -> None:
    """Serve the page until Ctrl-C."""
    import uvicorn

    from pipelines.commands.play.server import application

    loopback = is_loopback(host)
    if not (loopback or remote):
        do = "give 127.0.0.1, or --remote if all who reach this machine may use the model: there is no password"
        raise BadConfig("--host", f"is {host}, which others can reach", "an address of this machine alone", do)
    registry = ModelRegistry.open(model)
    listening = listen(host, port)
    shown = f"[{host}]" if ":" in host else host
    names = ("127.0.0.1", "localhost", "[::1]", "::1", host, shown) if loopback else ("*",)
    limits: dict[str, Any] = {"timeout_graceful_shutdown": 2, "limit_concurrency": 64}
    config = uvicorn.Config(application(registry, names), log_level="warning", server_header=False, **limits)
    url = f"http://{shown}:{listening.getsockname()[1]}/"
    print(f"{registry.name}: {url} shows it in a browser; Ctrl-C ends it", flush=True)
    with listening, contextlib.suppress(KeyboardInterrupt):
        uvicorn.Server(config).run(sockets=[listening])


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches it."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens; 0 takes a port that is free."""
    if not 0 <= port < 1 << 16:
        raise BadConfig("--port", f"is {port}", "0 to 65535")
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        found = f"cannot be listened to ({os.strerror(error.errno or 0)})"
        raise Busy(f"{host}:{port}", found, "a port that is free", "give another --port, or 0 for any") from None
