"""MLflow that is not there, never answers or hangs up on everybody, and a Prefect server that goes amid a flow."""

import contextlib
import itertools
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from benchmarks.reliability.kills import PATIENCE, command
from benchmarks.reliability.world import Ended, Verdict, World, differing
from electra.files import sha256_file
from tests.conftest import environment, git_project

STAGE = "pretrain"
HOW = ("is closed", "never answers", "hangs up")


def vanished(world: World, chance: random.Random, tries: int) -> Iterator[Verdict]:
    """Pre-training whose record goes nowhere ends well, with the same bytes, within a bounded time."""
    for how in HOW[:tries]:
        with world.spoilt(world.before[STAGE]) as here, contextlib.ExitStack() as held:
            silent = held.enter_context(socket.socket())
            silent.bind(("127.0.0.1", 0))
            port = silent.getsockname()[1]
            if how == "is closed":
                silent.close()
            else:
                silent.listen(64)
            if how == "hangs up":
                threading.Thread(target=hang_up, args=(silent,), daemon=True).start()
            text = (here / "params.yaml").read_text()
            (here / "params.yaml").write_text(text.replace("tracking: none", "tracking: mlflow"))
            ended = command(here, STAGE, MLFLOW_TRACKING_URI=f"http://127.0.0.1:{port}")
            told = f"MLflow at a port that {how}: {ended.seconds:.0f} s"
            yield Verdict("server", told, world.judge(ended, STAGE, here))


def hang_up(listening: socket.socket) -> None:
    """Take every call and end it, until the socket is closed."""
    with contextlib.suppress(OSError):
        while True:
            listening.accept()[0].close()


def prefect(world: World, chance: random.Random, tries: int) -> Iterator[Verdict]:
    """Prefect's server is killed or falls silent amid a pre-training: the flow ends by itself, and nothing is lost."""
    folder = git_project(world.folder / "flows")
    undisturbed = flow(folder, PREFECT_API_URL="")
    assert undisturbed.code == 0, undisturbed.said
    expected = trained(folder)
    for number in itertools.islice(itertools.cycle([signal.SIGKILL, signal.SIGSTOP]), tries):
        here = git_project(world.folder / f"flows-{number.name}-{chance.random()}")
        moment = chance.uniform(0, undisturbed.seconds)
        with server(here) as (url, group):
            timer = threading.Timer(moment, os.killpg, (group, number))
            timer.start()
            ended = flow(here, PREFECT_API_URL=url)
            timer.cancel()
        if ended.code and not ended.refused:
            outcome = f"exit code {ended.code}: {ended.said[-600:]}"
        elif (again := flow(here, PREFECT_API_URL="")).code:
            outcome = f"then exit code {again.code}: {again.said[-600:]}"
        elif (left := trained(here)) != expected:
            outcome = f"other bytes: {differing(left, expected)}"
        else:
            outcome = "refused" if ended.code else "same"
        yield Verdict(
            f"Prefect's server, {number.name}", f"{moment:.1f} s; the flow ended after {ended.seconds:.0f} s", outcome
        )


def trained(folder: Path) -> dict[str, str]:
    """The hashes of what pre-training leaves."""
    files = [*(folder / "build/models").rglob("*"), folder / "results/smoke/pretrain.csv"]
    return {str(path.relative_to(folder)): sha256_file(path) for path in files if path.is_file()}


def flow(folder: Path, **more: str) -> Ended:
    """Run the flow `pretrain` of the smoke model in a project."""
    started = time.monotonic()
    words = [sys.executable, "-m", "pipelines", "flow", "pretrain", "smoke"]
    values = environment(
        folder, PREFECT_HOME=str(folder / ".prefect"), PREFECT_SERVER_ANALYTICS_ENABLED="false", **more
    )
    with tempfile.TemporaryFile("w+") as said:
        try:
            code = subprocess.run(
                words, cwd=folder, env=values, stdout=said, stderr=said, timeout=PATIENCE, check=False
            ).returncode
        except subprocess.TimeoutExpired:
            code = 1
        said.seek(0)
        return Ended(code, said.read(), time.monotonic() - started)


@contextlib.contextmanager
def server(folder: Path) -> Iterator[tuple[str, int]]:
    """Prefect's own server on loopback: its URL and its process group, which is gone afterwards."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [
        sys.executable,
        "-m",
        "prefect",
        "server",
        "start",
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
        "--no-services",
    ]
    values = environment(folder, PREFECT_HOME=str(folder / ".prefect"), PREFECT_SERVER_ANALYTICS_ENABLED="false")
    process = subprocess.Popen(
        words, cwd=folder, env=values, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    url = f"http://127.0.0.1:{port}/api"
    try:
        for _ in range(PATIENCE):
            with contextlib.suppress(OSError), urllib.request.urlopen(f"{url}/health", timeout=5):  # noqa: S310  # our own
                break
            time.sleep(1)
        yield url, process.pid
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
