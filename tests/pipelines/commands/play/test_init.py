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

from pipelines.cli import main
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


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_it_says_where_it_is_and_ends_clean(checkout: Path, number: signal.Signals) -> None:
    with playing(checkout, "smoke") as (process, address):
        assert address.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(address) as reply:
            assert b"electra play" in reply.read()
        process.send_signal(number)
        assert process.wait(30) == (0 if number is signal.SIGINT else -signal.SIGTERM)
        assert process.stderr is not None and process.stderr.read() == ""


def test_what_cannot_be_served(checkout, monkeypatch, capsys):
    monkeypatch.chdir(checkout)
    others = "which others can reach; expected an address of this machine"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        for words, code, sentence in (
            *(((("smoke", "--host", host), 64, f"--host: is {host}, {others}")) for host in ("0.0.0.0", "::", "a.org")),
            (("base",), 65, "make it: dvc repro pipelines/dvc.yaml:pretrain@base"),
            (("smoke", "--port", port), 73, f"127.0.0.1:{port}: cannot be listened to (Address already in use)"),
            (("smoke", "--port", "70000"), 64, "--port: is 70000; expected 0 to 65535"),
        ):
            assert main(["play", *words]) == code
            said = capsys.readouterr().err
            assert sentence in said and said.count("\n") == 1
