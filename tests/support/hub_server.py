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
PATH = r"/(?:api/)?datasets/([^/]+/[^/]+?)(?:/(revision|tree|paths-info|resolve)/([^/]+)/?(.*))?"


class Hub(ThreadingHTTPServer):
    """`with Hub({"made/up": {"data/train-0.parquet": bytes}}, {}) as hub: hub.url`.

    `faults` maps a path to what happens to its first request: 503, "cut" (the connection ends in
    the middle), or "flip" (a wrong byte; "flips" means every time).
    """

    def __init__(self, files, faults):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files = files
        self.faults = faults
        self.url = f"http://127.0.0.1:{self.server_port}"

    def __enter__(self):
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    server: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, format, *args):
        pass

    def do_GET(self):
        body = self.rfile.read(int(self.headers.get("content-length") or 0)).decode()
        match = re.fullmatch(PATH, unquote(urlsplit(self.path).path))
        name, kind, revision, path = match.groups() if match else [None] * 4
        files = self.server.files.get(name)
        if files is None:
            self.refuse("RepoNotFound")
        elif revision not in {None, "main", COMMIT}:
            self.refuse("RevisionNotFound")
        elif kind == "tree":
            self.send_json(list_folder(files, f"{path}/" if path else ""))
        elif kind == "paths-info":
            paths = parse_qs(body)["paths"]
            self.send_json([entry(path, files[path]) for path in paths if path in files])
        elif kind != "resolve":
            self.send_json({"id": name, "sha": COMMIT})
        elif path in files:
            self.send_file(path, files[path])
        else:
            self.refuse("EntryNotFound")

    do_HEAD = do_POST = do_GET

    def send_file(self, path, data):
        faults = self.server.faults
        fault = faults.pop(path, None) if self.command == "GET" else None
        headers = {"ETag": f'"{hashlib.sha256(data).hexdigest()}"'}
        if fault == "flips":
            faults[path] = fault
        if fault in {"flip", "flips"}:
            data = data[:-9] + bytes([data[-9] ^ 1]) + data[-8:]
        if fault == "cut":
            headers["Content-Length"] = str(len(data))
            data = data[:-9]
            self.close_connection = True
        if fault == 503:
            self.send_json({"error": "try again"}, 503)
        else:
            self.send(data, 200, **headers)

    def refuse(self, code):
        self.send_json({"error": "not here"}, 404, **{"X-Error-Code": code})

    def send_json(self, value, status=200, **headers):
        self.send(json.dumps(value).encode(), status, **headers)

    def send(self, data, status, **headers):
        self.send_response(status)
        usual = {"Content-Length": str(len(data)), "X-Repo-Commit": COMMIT}
        for name, value in (usual | headers).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)


def list_folder(files, prefix):
    """Return what the hub tells of the files and folders in a folder."""
    entries = {}
    for file, data in files.items():
        name, slash, _ = file.removeprefix(prefix).partition("/")
        if file.startswith(prefix):
            entries[name] = entry(prefix + name, data, "directory" if slash else "file")
    return list(entries.values())


def entry(file, data, kind="file"):
    """Return what the hub tells of a file: git's hash of it, and the sha256 of one that is kept
    outside of git.
    """
    oid = hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
    fact = {"type": kind, "path": file, "size": len(data), "oid": oid}
    if file.endswith(".parquet"):
        sha256 = hashlib.sha256(data).hexdigest()
        fact["lfs"] = {"oid": sha256, "size": len(data), "pointerSize": 130}
    return fact
