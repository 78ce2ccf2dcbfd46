"""Stops: SIGKILL at random moments and at every change to a file; SIGTERM and SIGINT at random, imports included."""

import itertools
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks.reliability import disk
from benchmarks.reliability.world import COMMANDS, STAGES, Ended, Verdict, World, run
from electra.files import sha256_file
from electra.workers import VARIABLE

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 600
HITS = 3  # interruptions of one run before it is left alone


def stages(chance: random.Random, tries: int) -> Iterator[str]:
    """So many stages, each as often as any other."""
    order = chance.sample(STAGES, len(STAGES))
    return itertools.islice(itertools.cycle(order), tries)


def at_random(world: World, chance: random.Random, tries: int) -> Iterator[Verdict]:
    """SIGKILL at random moments, up to three times a run."""
    for stage in stages(chance, tries):
        moments = [chance.uniform(0, 1.2) * world.seconds[stage] for _ in range(chance.randrange(1, HITS + 1))]
        with world.spoilt(world.before[stage]) as here:
            for moment in moments:
                run(here, stage, stop=partial(send, after=moment, number=signal.SIGKILL))
            told = ", ".join(f"{moment:.3f} s" for moment in moments)
            yield Verdict(f"SIGKILL, {stage}", told, world.again(stage, here))


def at_changes(world: World, chance: random.Random, tries: int) -> Iterator[Verdict]:
    """SIGKILL before each change to a file and amid each write; sometimes the second start is killed, too."""
    places = [(stage, index) for stage in STAGES for index in range(changes(world, stage))]
    for stage, index in chance.sample(places, min(tries, len(places))):
        with world.spoilt(world.before[stage]) as here:
            ended = run(here, stage, partial(disk.watch, disk.At(index, disk.die)))
            assert ended.code == -signal.SIGKILL, ended.said
            told = f"change {index}"
            if chance.random() < 1 / 3:
                second = chance.randrange(index + 10)
                run(here, stage, partial(disk.watch, disk.At(second, disk.die)))
                told += f", then {second}"
            yield Verdict(f"SIGKILL at a change to a file, {stage}", told, world.again(stage, here))


def changes(world: World, stage: str) -> int:
    """How many changes to files a stage makes."""
    if stage in world.changes:
        return world.changes[stage]
    with world.spoilt(world.before[stage]) as here, tempfile.TemporaryFile() as letters:
        assert run(here, stage, partial(disk.count, letters.fileno())).code == 0
        world.changes[stage] = letters.seek(0, os.SEEK_END)
    return world.changes[stage]


def interrupted(world: World, stage: str, share: float = 0.45) -> Path:
    """The project as a stage leaves it that is killed at a share of its changes to files."""
    here = world.copy(world.before[stage])
    run(here, stage, partial(disk.watch, disk.At(int(share * changes(world, stage)), disk.die)))
    return here


def polite(world: World, chance: random.Random, tries: int) -> Iterator[Verdict]:
    """SIGTERM or SIGINT at a random moment of a stage whose imports are done, sometimes twice."""
    for stage in stages(chance, tries):
        number = chance.choice([signal.SIGTERM, signal.SIGINT])
        moment, times = chance.uniform(0, 1.1) * world.seconds[stage], chance.choice([1, 1, 2])
        with world.spoilt(world.before[stage]) as here:
            ended = run(here, stage, stop=partial(send, after=moment, number=number, times=times))
            told = f"{moment:.3f} s, {times} times"
            yield Verdict(f"{number.name}, {stage}", told, after_stop(world, stage, here, ended))


def whole_commands(world: World, chance: random.Random, tries: int) -> Iterator[Verdict]:
    """A signal at a random moment of a real command, which is busy with imports most of its time; one worker or two."""
    with world.spoilt(world.before["glue"]) as here:
        seconds = command(here, "glue").seconds
    for stage in stages(chance, tries):
        number = chance.choice([signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
        moment, workers = chance.uniform(0, seconds), chance.choice(["1", "2"])
        with world.spoilt(world.before[stage]) as here:
            ended = command(here, stage, after=moment, number=number, **{VARIABLE: workers})
            polite = number != signal.SIGKILL
            outcome = after_stop(world, stage, here, ended) if polite else world.again(stage, here)
            yield Verdict(f"{number.name}, whole command {stage}", f"{moment:.3f} s, {workers} workers", outcome)


def after_stop(world: World, stage: str, here: Path, ended: Ended) -> str:
    """Exit code 75 with a sentence, or the signal's own before anything began; then the same bytes."""
    sentence = ended.code == 75 and ended.refused
    untouched = everything(here) == everything(world.before[stage])
    early = ended.code in {-signal.SIGTERM, -signal.SIGINT, 130, 143} and untouched and "Traceback" not in ended.said
    if not (sentence or early or ended.code == 0):
        return f"exit code {ended.code} after a polite stop: {ended.said[-600:]}"
    return world.again(stage, here)


def everything(folder: Path) -> dict[str, str]:
    """The hash of every file."""
    return {str(path.relative_to(folder)): sha256_file(path) for path in folder.rglob("*") if path.is_file()}


def send(child: int, *, after: float, number: int, times: int = 1) -> None:
    """Send a child a signal after some seconds, and the same again at once."""
    time.sleep(after)
    for _ in range(times):
        os.kill(child, number)  # its number is not given away before it is waited for


def command(
    here: Path, stage: str, *, after: float | None = None, number: int = signal.SIGTERM, root: Path = ROOT, **more: str
) -> Ended:
    """Run a stage as a user does, from the code under `root`, and send it a signal after some seconds."""
    environment = {**os.environ, "PYTHONPATH": str(root), "OMP_NUM_THREADS": "1", VARIABLE: "1", **more}
    words = [sys.executable, "-m", "pipelines", *COMMANDS[stage]]
    started = time.monotonic()
    process = subprocess.Popen(
        words, cwd=here, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    timer = threading.Timer(after or 0, process.send_signal, (number,))
    if after is not None:
        timer.start()
    try:
        _, said = process.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        said = "it hung; " + process.communicate()[1]
    timer.cancel()
    return Ended(process.returncode, said, time.monotonic() - started)
