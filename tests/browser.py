"""A real browser for tests: Chromium without a window, told what to do by its DevTools protocol.

Where no Chromium is on the path, what needs one is skipped and says so.
"""

import contextlib
import itertools
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.client import ClientConnection, connect

CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), ""
)
DESKTOP, PHONE = (1280, 800), (390, 844)
needs_browser = pytest.mark.skipif(not CHROMIUM, reason="no chromium on the path: apt-get install chromium")


class Tab:
    """One page; `said` has its errors and what its console was told."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket, self.numbers = socket, itertools.count(1)
        self.said: list[str] = []
        self.asked: list[str] = []
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.do(f"{domain}.enable")

    def do(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command and wait for its result."""
        number = next(self.numbers)
        self.socket.send(json.dumps({"id": number, "method": method, "params": params}))
        while True:
            message = json.loads(self.socket.recv(timeout=60))
            if message.get("id") == number:
                assert "error" not in message, message
                return message["result"]
            self.note(message)

    def note(self, event: dict[str, Any]) -> None:
        """Keep what a person would see in the console, and every address that was asked."""
        method, params = event["method"], event["params"]
        if method == "Runtime.exceptionThrown":
            self.said.append(json.dumps(params["exceptionDetails"])[:500])
        elif method == "Log.entryAdded" and params["entry"]["level"] in {"error", "warning"}:
            self.said.append(params["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.asked.append(params["request"]["url"])

    def open(self, address: str, size: tuple[int, int] = DESKTOP, *, dark: bool = False) -> None:
        """Show an address in a window of so many pixels."""
        width, height = size
        self.do(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=size == PHONE
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.do("Emulation.setEmulatedMedia", features=[scheme])
        self.do("Page.navigate", url=address)
        self.wait("document.readyState === 'complete'")

    def run(self, script: str) -> Any:
        """The value of an expression in the page."""
        result = self.do("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def wait(self, script: str, seconds: float = 30) -> None:
        """Go on once it is true."""
        end = time.monotonic() + seconds
        while not self.run(f"Boolean({script})"):
            assert time.monotonic() < end, f"never true: {script}; the console: {self.said}"
            time.sleep(0.05)

    def click(self, selector: str) -> None:
        """Press the mouse in the middle of an element, wherever it is on the page."""
        place = self.run(
            f"(e => {{e.scrollIntoView({{block: 'center'}}); const b = e.getBoundingClientRect();"
            f" return [b.x + b.width / 2, b.y + b.height / 2]}})(document.querySelector({json.dumps(selector)}))"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.do("Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], button="left", clickCount=1)

    def type(self, selector: str, text: str) -> None:
        """Type in place of what stands in a field."""
        self.run(f"(e => {{e.focus(); e.select()}})(document.querySelector({json.dumps(selector)}))")
        self.do("Input.insertText", text=text)


@contextlib.contextmanager
def browser(folder: Path) -> Iterator[Tab]:
    """A browser whose profile lies in `folder`; it reaches this machine alone and ends with the block."""
    flags = ["--headless=new", "--no-sandbox", "--disable-gpu"]
    flags += ["--remote-debugging-port=0", f"--user-data-dir={folder}"]
    flags += ["--no-first-run", "--disable-extensions", "--disable-background-networking", "--disable-dev-shm-usage"]
    flags += ["--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(
        [CHROMIUM, *flags, "about:blank"], env={**os.environ, "HOME": str(folder)}, **quiet
    ) as process:  # type: ignore[call-overload]
        try:
            noted, end = folder / "DevToolsActivePort", time.monotonic() + 60
            while not (noted.is_file() and noted.read_text().count("\n")):
                assert process.poll() is None and time.monotonic() < end, "chromium did not start"
                time.sleep(0.1)
            port, path = noted.read_text().split("\n")[:2]
            with connect(f"ws://127.0.0.1:{port}{path}", max_size=None) as socket:
                socket.send(json.dumps({"id": 0, "method": "Target.getTargets"}))
                targets = json.loads(socket.recv(timeout=60))["result"]["targetInfos"]
            page = next(target["targetId"] for target in targets if target["type"] == "page")
            with connect(f"ws://127.0.0.1:{port}/devtools/page/{page}", max_size=None) as socket:
                yield Tab(socket)
        finally:
            process.terminate()
