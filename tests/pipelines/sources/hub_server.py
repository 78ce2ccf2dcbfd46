"""A server on loopback that speaks as much of the hub's protocol as `datasets` asks for, with
faults on order.
"""

import hashlib
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub:
    """`with Hub({"made/up": {"data/train-0.parquet": bytes}}) as hub: hub.url`.

    `faults` maps a path to what happens to its first request: 503, "cut" (the connection ends in
    the middle), or "flip" (a wrong byte; "flips" means every time).
    """

    def __init__(self, files, faults=None):
        self.files, self.faults = files, dict(faults or {})
        handler = type("Handler", (_Handler,), {"hub": self})
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


class _Handler(BaseHTTPRequestHandler):
    hub: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, format, *args):
        pass

    def do_GET(self):
        body = self.rfile.read(int(self.headers.get("content-length") or 0)).decode()
        path = unquote(urlsplit(self.path).path)
        kinds = "revision|tree|paths-info"
        about = rf"/api/datasets/([^/]+/[^/]+?)(?:/({kinds})/([^/]+)(?:/(.*))?)?"
        if match := re.fullmatch(about, path):
            self.describe(body, *match.groups())
        elif match := re.fullmatch(r"/datasets/([^/]+/[^/]+)/resolve/[^/]+/(.+)", path):
            self.send_file(*match.groups())
        else:
            self.refuse("NotFound")

    do_HEAD = do_POST = do_GET

    def describe(self, body, name, kind, revision, folder):
        files = self.hub.files.get(name)
        if files is None:
            self.refuse("RepoNotFound")
        elif revision not in {None, "main", COMMIT}:
            self.refuse("RevisionNotFound")
        elif kind == "tree":
            prefix = f"{folder}/" if folder else ""
            entries = {}
            for file, data in files.items():
                first, slash, _ = file.removeprefix(prefix).partition("/")
                if file.startswith(prefix):
                    entries[first] = entry(prefix + first, data, "directory" if slash else "file")
            self.send_json(list(entries.values()))
        elif kind == "paths-info":
            wanted = json.loads(body) if body.startswith("{") else parse_qs(body)
            self.send_json([entry(file, files[file]) for file in wanted["paths"] if file in files])
        else:
            self.send_json({"id": name, "sha": COMMIT})

    def send_file(self, name, file):
        data = self.hub.files.get(name, {}).get(file)
        if data is None:
            self.refuse("EntryNotFound")
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

    def refuse(self, code):
        self.send_json({"error": "not here"}, 404, code)

    def send_json(self, value, status=200, code=""):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-Repo-Commit", COMMIT)
        if code:
            self.send_header("X-Error-Code", code)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def entry(file, data, kind="file"):
    """What the hub tells of a file: git's hash of it, and the sha256 of one that is kept outside of
    git.
    """
    oid = hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
    fact = {"type": kind, "path": file, "size": len(data), "oid": oid}
    if file.endswith(".parquet"):
        sha256 = hashlib.sha256(data).hexdigest()
        fact["lfs"] = {"oid": sha256, "size": len(data), "pointerSize": 130}
    return fact
