"""Servers that are not there: a port where nobody listens, and one where somebody listens and never answers."""

import contextlib
import random
import socket
from collections.abc import Iterator

from benchmarks.reliability.kills import command
from benchmarks.reliability.world import Verdict, World

STAGE = "pretrain"


def vanished(world: World, chance: random.Random, tries: int) -> Iterator[Verdict]:
    """Pre-training whose record goes nowhere ends well, with the same bytes, within a bounded time."""
    for index in range(min(tries, 2)):
        with world.spoilt(world.before[STAGE]) as here, contextlib.ExitStack() as held:
            silent = held.enter_context(socket.socket())
            silent.bind(("127.0.0.1", 0))
            port = silent.getsockname()[1]
            if index:
                silent.listen(64)
            else:
                silent.close()
            text = (here / "params.yaml").read_text()
            (here / "params.yaml").write_text(text.replace("tracking: none", "tracking: mlflow"))
            ended = command(here, STAGE, MLFLOW_TRACKING_URI=f"http://127.0.0.1:{port}")
            told = f"MLflow at a port that {'never answers' if index else 'is closed'}: {ended.seconds:.0f} s"
            yield Verdict("server", told, world.judge(ended, STAGE, here))
