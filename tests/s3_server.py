"""A server on loopback that speaks S3 (moto's), with faults on order."""

import threading
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import fsspec
import pytest

Start = Callable[..., Any]


class S3:
    """`with S3() as server: server.url`; `asked` counts requests.

    `faults` maps a path, `/bucket/key` (or `PUT /bucket/key`), to what happens to each request for
    its content: "cut" (the connection ends in the middle), "short" (half of the object, said to be
    all) or "denied". "cut once" is once.
    """

    def __init__(self) -> None:
        from moto.server import DomainDispatcherApplication, create_backend_app
        from werkzeug.serving import WSGIRequestHandler, make_server

        class Quiet(WSGIRequestHandler):
            def log(self, type: str, message: str, *args: object) -> None:
                pass

        self.faults: dict[str, str] = {}
        self.asked: Counter[str] = Counter()
        self.backend = DomainDispatcherApplication(create_backend_app)
        self.server = make_server("127.0.0.1", 0, self.answer, threaded=True, request_handler=Quiet)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def __enter__(self) -> "S3":
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        # buckets are the process's
        urllib.request.urlopen(f"{self.url}/moto-api/reset", data=b"").close()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()

    def answer(self, environ: dict[str, Any], start: Start) -> Iterable[bytes]:
        path, method = environ["PATH_INFO"], environ["REQUEST_METHOD"]
        self.asked[f"{method} {path}"] += 1
        fault = self.faults.get(path if method == "GET" else f"{method} {path}")
        if fault is None:
            return self.backend(environ, start)
        if fault == "denied":
            start("403 Forbidden", [("Content-Type", "application/xml")])
            return [b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"]
        if fault == "cut once":
            del self.faults[path]
        told: list[Any] = []
        body = b"".join(self.backend(environ, lambda *words: told.extend(words)))
        headers = [
            pair
            for pair in told[1]
            if "checksum" not in pair[0].lower() and pair[0] != "Content-Length"
        ]
        half = body[: len(body) // 2]
        start(told[0], [*headers, ("Content-Length", str(len(half if fault == "short" else body)))])
        return [half] if fault == "short" else cut(half)


def cut(body: bytes) -> Iterator[bytes]:
    yield body
    raise ConnectionAbortedError


def opened(monkeypatch: pytest.MonkeyPatch) -> Iterator[S3]:
    """A server with the bucket `team`, and the environment of who may use it."""
    values = {
        "AWS_ACCESS_KEY_ID": "anna",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    values |= {"AWS_EC2_METADATA_DISABLED": "true"}
    values |= dict.fromkeys(("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"), "/nowhere")
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    with S3() as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
        forget()
        fsspec.filesystem("s3").mkdir("team")
        yield server
    forget()


def forget() -> None:
    """Let the next use of a URL ask the environment anew."""
    fsspec.get_filesystem_class("s3").clear_instance_cache()
