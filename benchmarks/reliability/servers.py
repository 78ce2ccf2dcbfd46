"""Servers that are not there: a port where nobody listens, one that never answers, and one that hangs up on everybody."""

import contextlib
import random
import socket
import threading
from collections.abc import Iterator

from benchmarks.reliability.kills import command
from benchmarks.reliability.world import Verdict, World

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
