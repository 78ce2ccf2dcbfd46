"""A real browser for tests: Chromium without a window, driven over its DevTools protocol.

Without Chromium on the path, tests that need it are skipped.
"""

import contextlib
import itertools
import json
import os
import shutil
import subprocess
import time

import pytest
from websockets.sync.client import connect

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome") or ""
DESKTOP = (1280, 800)
PHONE = (390, 844)
FLAGS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--remote-debugging-port=0",
    "--no-first-run",
]
FLAGS += ["--disable-extensions", "--disable-background-networking", "--disable-dev-shm-usage"]
FLAGS += ["--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost"]
needs_browser = pytest.mark.skipif(
    not CHROMIUM, reason="no chromium on the path: apt-get install chromium"
)


class Tab:
    """One page. `said` has its errors and warnings, `asked` the addresses that it requested."""

    def __init__(self, socket):
        self.socket = socket
        self.numbers = itertools.count(1)
        self.said = []
        self.asked = []
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.do(f"{domain}.enable")

    def do(self, method, **params):
        """Send a command and return its result; note the events before it."""
        number = next(self.numbers)
        self.socket.send(json.dumps({"id": number, "method": method, "params": params}))
        while True:
            message = json.loads(self.socket.recv(timeout=60))
            if message.get("id") == number:
                assert "error" not in message, message
                return message["result"]
            event = message["params"]
            if message["method"] == "Runtime.exceptionThrown":
                self.said.append(json.dumps(event["exceptionDetails"])[:500])
            elif message["method"] == "Log.entryAdded" and event["entry"]["level"] in {
                "error",
                "warning",
            }:
                self.said.append(event["entry"]["text"])
            elif message["method"] == "Network.requestWillBeSent":
                self.asked.append(event["request"]["url"])

    def open(self, address, size=DESKTOP, *, dark=False):
        """Show an address in a window of so many pixels."""
        screen = {
            "width": size[0],
            "height": size[1],
            "deviceScaleFactor": 1,
            "mobile": size == PHONE,
        }
        self.do("Emulation.setDeviceMetricsOverride", **screen)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.do("Emulation.setEmulatedMedia", features=[scheme])
        self.do("Page.navigate", url=address)
        self.wait("document.readyState === 'complete'")

    def run(self, script):
        """Return the value of an expression in the page."""
        result = self.do(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def wait(self, script, action="0"):
        """Return once an expression is true. The action before it is repeated every ten seconds: a
        busy machine shows a page before the page listens.
        """
        for _ in range(6):
            self.run(action)
            end = time.monotonic() + 10
            while time.monotonic() < end:
                if self.run(f"Boolean({script})"):
                    return
                time.sleep(0.05)
        raise AssertionError(f"never true: {script}; the console: {self.said}")


@contextlib.contextmanager
def browser(folder):
    """Run a browser with its profile in `folder`, which reaches this machine alone; it ends with
    the block.
    """
    command = [CHROMIUM, *FLAGS, f"--user-data-dir={folder}", "about:blank"]
    with subprocess.Popen(
        command,
        env={**os.environ, "HOME": str(folder)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            written = folder / "DevToolsActivePort"
            end = time.monotonic() + 60
            while not (written.is_file() and "\n" in written.read_text()):
                assert process.poll() is None and time.monotonic() < end, "chromium did not start"
                time.sleep(0.1)
            port, path = written.read_text().split("\n")[:2]
            with connect(f"ws://127.0.0.1:{port}{path}", max_size=None) as socket:
                socket.send(json.dumps({"id": 0, "method": "Target.getTargets"}))
                targets = json.loads(socket.recv(timeout=60))["result"]["targetInfos"]
            page = next(target["targetId"] for target in targets if target["type"] == "page")
            with connect(f"ws://127.0.0.1:{port}/devtools/page/{page}", max_size=None) as socket:
                yield Tab(socket)
        finally:
            process.terminate()
