"""The command: it listens where it may, says where, and ends when it is told to."""

import contextlib
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT, environment


@contextlib.contextmanager
def playing(folder: Path, *words: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`electra play` on a free port, and its address."""
    command = [sys.executable, "-m", "pipelines", "play", *words, "--port", "0"]
    with subprocess.Popen(
        command, cwd=folder, env=environment(ROOT), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None and process.stderr is not None
            line = process.stdout.readline()
            found = re.search(r"http://\S+/", line)
            assert found, line + process.stderr.read()
            yield process, found[0]
        finally:
            process.kill()


def run(folder: Path, *words: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "pipelines", "play", *words],
        cwd=folder, env=environment(ROOT), capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.stderr.count("\n") == 1, done.stderr
    return done.returncode, done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_says_where_it_is_and_ends_clean(checkout: Path, number: signal.Signals) -> None:
    with playing(checkout, "smoke") as (process, address):
        assert address.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(address) as reply:
            assert b"electra play" in reply.read()
        process.send_signal(number)
        assert process.wait(30) == (0 if number is signal.SIGINT else -signal.SIGTERM)
        assert process.stderr is not None and process.stderr.read() == ""


def test_what_cannot_be_served(checkout: Path) -> None:
    for host in ("0.0.0.0", "::", "192.0.2.1", "example.org"):
        code, said = run(checkout, "smoke", "--host", host)
        assert code == 64 and f"--host: is {host}, which others can reach; expected an address of this machine" in said
    code, said = run(checkout, "base")
    assert code == 65 and "`dvc repro pipelines/dvc.yaml:pretrain@base` makes it" in said
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, said = run(checkout, "smoke", "--port", str(port))
        assert code == 73 and f"127.0.0.1:{port}: cannot be listened to (Address already in use)" in said
    code, said = run(checkout, "smoke", "--port", "70000")
    assert code == 64 and "--port: is 70000; expected 0 to 65535" in said
