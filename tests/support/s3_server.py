"""A server on loopback that speaks S3 (moto's), with faults on order."""

import threading
import urllib.request

import fsspec


class S3:
    """`with S3() as server: server.url`.

    `faults` maps a path, `/bucket/key` (or `PUT /bucket/key`), to what happens to each request for
    its content: "cut" (the connection ends in the middle), "short" (half of the object, said to be
    all) or "denied".
    """

    def __init__(self):
        from moto.server import DomainDispatcherApplication, create_backend_app
        from werkzeug.serving import make_server

        self.faults = {}
        self.backend = DomainDispatcherApplication(create_backend_app)
        self.server = make_server("127.0.0.1", 0, self.answer, threaded=True)
        self.server.log = lambda *_: None
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        # buckets are the process's
        urllib.request.urlopen(f"{self.url}/moto-api/reset", data=b"").close()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    def answer(self, environ, start):
        path = environ["PATH_INFO"]
        method = environ["REQUEST_METHOD"]
        fault = self.faults.get(path if method == "GET" else f"{method} {path}")
        if fault is None:
            return self.backend(environ, start)
        if fault == "denied":
            start("403 Forbidden", [("Content-Type", "application/xml")])
            return [b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"]
        answers = []
        body = b"".join(self.backend(environ, lambda *answer: answers.append(answer)))
        status, headers = answers[0][:2]
        half = body[: len(body) // 2]
        length = len(half if fault == "short" else body)
        kept = [pair for pair in headers if pair[0].lower() != "content-length"]
        kept = [pair for pair in kept if "checksum" not in pair[0].lower()]
        start(status, [*kept, ("Content-Length", str(length))])
        return [half] if fault == "short" else cut(half)


def cut(body):
    yield body
    raise ConnectionAbortedError


def opened(monkeypatch):
    """A server with the bucket `team`, and the environment of who may use it."""
    values = {
        "AWS_ACCESS_KEY_ID": "anna",
        "AWS_CONFIG_FILE": "/nowhere",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_SHARED_CREDENTIALS_FILE": "/nowhere",
    }
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    with S3() as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
        forget()
        fsspec.filesystem("s3").mkdir("team")
        yield server
    forget()


def forget():
    """Let the next use of a URL read the environment again."""
    fsspec.get_filesystem_class("s3").clear_instance_cache()
