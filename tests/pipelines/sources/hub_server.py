"""A server on loopback that speaks as much of the hub's protocol as `datasets` asks for, with
faults on order.
"""

import hashlib
import json
import re
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub:
    """`with Hub({"made/up": {"data/train-0.parquet": bytes}}) as hub: hub.url`; `hub.asked` counts
    requests.

    `faults` maps a path to what happens to its first request: 503, "cut" (the connection ends in
    the middle), or "flip" (a wrong byte; "flips" means every time).
    """

    def __init__(
        self, files: dict[str, dict[str, bytes]], faults: dict[str, int | str] | None = None
    ) -> None:
        self.files, self.faults = files, dict(faults or {})
        self.asked: Counter[str] = Counter()
        handler = type("Handler", (_Handler,), {"hub": self})
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def __enter__(self) -> "Hub":
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()


class _Handler(BaseHTTPRequestHandler):
    hub: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        self.body = self.rfile.read(int(self.headers.get("content-length") or 0))
        path = unquote(urlsplit(self.path).path)
        self.hub.asked[f"{self.command} {path}"] += 1
        if path.startswith("/api/datasets/"):
            self.describe(path.removeprefix("/api/datasets/"))
        elif match := re.fullmatch(r"/datasets/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
            self.send_file(*match.groups())
        else:
            self.send_json({"error": "not here"}, 404)

    do_HEAD = do_POST = do_GET

    def describe(self, path: str) -> None:
        match = re.fullmatch(
            r"([^/]+/[^/]+?)(?:/(revision|tree|paths-info)/([^/]+)(?:/(.*))?)?", path
        )
        name = match[1] if match else ""
        if name not in self.hub.files:
            self.send_json(
                {"error": "Repository not found"}, 404, **{"X-Error-Code": "RepoNotFound"}
            )
            return
        assert match
        _, kind, revision, folder = match.groups()
        if revision not in {None, "main", COMMIT}:
            self.send_json({"error": "Invalid rev id"}, 404, **{"X-Error-Code": "RevisionNotFound"})
            return
        files = self.hub.files[name]
        if kind == "tree":
            prefix = f"{folder}/" if folder else ""
            below = {
                file.removeprefix(prefix): data
                for file, data in files.items()
                if file.startswith(prefix)
            }
            folders = {prefix + file.partition("/")[0] for file in below if "/" in file}
            self.send_json(
                [
                    {"type": "directory", "path": path, "oid": "0" * 40, "size": 0}
                    for path in sorted(folders)
                ]
                + [entry(prefix + file, data) for file, data in below.items() if "/" not in file]
            )
        elif kind == "paths-info":
            body = self.body.decode()
            wanted = (
                json.loads(body)["paths"]
                if body.startswith("{")
                else parse_qs(body).get("paths", [])
            )
            self.send_json([entry(file, data) for file, data in files.items() if file in wanted])
        else:
            siblings = [{"rfilename": file} for file in files]
            flags = dict.fromkeys(("private", "gated", "disabled"), False) | {
                "downloads": 0,
                "likes": 0,
                "tags": [],
            }
            times = dict.fromkeys(("lastModified", "createdAt"), "2024-01-01T00:00:00.000Z")
            self.send_json({"id": name, "sha": COMMIT, **flags, "siblings": siblings, **times})

    def send_file(self, name: str, revision: str, file: str) -> None:
        data = self.hub.files.get(name, {}).get(file)
        if data is None:
            self.send_json(
                {"error": "Entry not found"},
                404,
                **{"X-Error-Code": "EntryNotFound", "X-Repo-Commit": COMMIT},
            )
            return
        fault = self.hub.faults.pop(file, None) if self.command == "GET" else None
        if fault == "flips":
            self.hub.faults[file] = fault
        if isinstance(fault, int):
            self.send_json({"error": "try again"}, fault)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("ETag", f'"{hashlib.sha256(data).hexdigest()}"')
        self.send_header("X-Repo-Commit", COMMIT)
        self.end_headers()
        if self.command == "GET":
            if fault in {"flip", "flips"}:
                data = data[:-9] + bytes([data[-9] ^ 1]) + data[-8:]
            self.wfile.write(data[: len(data) // 2] if fault == "cut" else data)
            self.close_connection = fault == "cut"

    def send_json(self, value: object, status: int = 200, **headers: str) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        for key, text in headers.items():
            self.send_header(key, text)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def entry(file: str, data: bytes) -> dict[str, object]:
    """What the hub tells of a file: git's hash of it, and the sha256 of one that is kept outside of
    git.
    """
    fact: dict[str, object] = {"type": "file", "path": file, "size": len(data)}
    fact["oid"] = hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
    if file.endswith(".parquet"):
        fact["lfs"] = {
            "oid": hashlib.sha256(data).hexdigest(),
            "size": len(data),
            "pointerSize": 130,
        }
    return fact
