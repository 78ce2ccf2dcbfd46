"""Faults to a stage: kills, signals, damaged files, reads and writes that fail, power cuts, an
MLflow that is gone.
"""

import contextlib
import itertools
import os
import random
import shutil
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from benchmarks.reliability import disk, power
from benchmarks.reliability.world import (
    STAGES,
    VARIABLE,
    Ended,
    Fault,
    World,
    everything,
    run,
    stage_command,
)

FAILURES = {"ENOSPC": disk.full, "EIO": disk.broken, "EACCES": disk.forbidden}
POLITE = (signal.SIGTERM, signal.SIGINT)
# stage -> what it reads that an earlier start or stage has left
READ = {
    "corpus": ["runs/corpus"],
    "tokens": ["runs/tokens", "build/corpus"],
    "pretrain": ["runs/pretrain", "build/tokens"],
    "glue": ["runs", "build/models", "build/tasks"],
    "squad": ["runs", "build/models", "build/tasks"],
    "ablation": ["runs", "build/tokens", "build/tasks"],
    "predict": ["build/glue"],
}
DAMAGE = (
    "bit",
    "bit",
    "bit",
    "cut",
    "empty",
    "deleted",
    "swapped",
    "link",
    "dangling link",
    "folder",
)
MOMENTS = 4  # at which each stage is killed
Faults = Iterator[Fault]


def stages(chance: random.Random, tries: int) -> Iterator[str]:
    """So many stages, each as often as any other."""
    return itertools.islice(itertools.cycle(chance.sample(STAGES, len(STAGES))), tries)


def killed_at_random(world: World, chance: random.Random, tries: int) -> Faults:
    """SIGKILL at random moments, up to three times a run."""
    for stage in stages(chance, tries):
        moments = [
            chance.uniform(0, 1.2) * world.seconds[stage] for _ in range(chance.randrange(1, 4))
        ]

        def start(here: Path, stage: str = stage, moments: list[float] = moments) -> str:
            for moment in moments:
                run(here, stage, stop=partial(send, after=moment, number=signal.SIGKILL))
            return "same"

        what = ", ".join(f"{moment:.3f} s" for moment in moments)
        yield Fault(
            kind=f"SIGKILL, {stage}",
            what=what,
            stage=stage,
            before=world.before[stage],
            start=start,
        )


def killed_at_changes(world: World, chance: random.Random, tries: int) -> Faults:
    """SIGKILL before each change to a file and amid each write; sometimes the second start is
    killed, too.
    """
    places = [(stage, index) for stage in STAGES for index in range(world.changes(stage))]
    for stage, index in chance.sample(places, min(tries, len(places))):
        at = [index, chance.randrange(index + 10)] if chance.random() < 1 / 3 else [index]

        def start(here: Path, stage: str = stage, at: list[int] = at) -> str:
            ended = [run(here, stage, partial(disk.watch, disk.At(each, disk.die))) for each in at]
            assert ended[0].code == -signal.SIGKILL, ended[0].said
            return "same"

        kind, what = (
            f"SIGKILL at a change to a file, {stage}",
            f"change {', then '.join(map(str, at))}",
        )
        yield Fault(kind=kind, what=what, stage=stage, before=world.before[stage], start=start)


def signalled(world: World, chance: random.Random, tries: int) -> Faults:
    """SIGTERM or SIGINT at a random moment of a stage whose imports are done, sometimes twice."""
    for stage in stages(chance, tries):
        number, times = chance.choice(POLITE), chance.choice([1, 1, 2])
        moment = chance.uniform(0, 1.1) * world.seconds[stage]
        stop = partial(send, after=moment, number=number, times=times)

        def start(here: Path, stage: str = stage, stop: Callable[[int], object] = stop) -> str:
            return stopped(world, stage, here, run(here, stage, stop=stop))

        kind, what = f"{number.name}, {stage}", f"{moment:.3f} s, {times} times"
        yield Fault(kind=kind, what=what, stage=stage, before=world.before[stage], start=start)


def commands(world: World, chance: random.Random, tries: int) -> Faults:
    """A signal at a random moment of a real command, which is busy with imports most of its time;
    one worker or two.
    """
    with world.spoilt(world.before["glue"]) as here:
        seconds = stage_command(here, "glue").seconds
    for stage in stages(chance, tries):
        moment, number = chance.uniform(0, seconds), chance.choice([*POLITE, signal.SIGKILL])
        workers = chance.choice(["1", "2"])

        def start(
            here: Path,
            stage: str = stage,
            stop: tuple[float, int] = (moment, number),
            n: str = workers,
        ) -> str:
            ended = stage_command(here, stage, stop, **{VARIABLE: n})
            return stopped(world, stage, here, ended) if stop[1] in POLITE else "same"

        kind, what = f"{number.name}, whole command {stage}", f"{moment:.3f} s, {workers} workers"
        yield Fault(kind=kind, what=what, stage=stage, before=world.before[stage], start=start)


def stopped(world: World, stage: str, here: Path, ended: Ended) -> str:
    """After a polite stop: exit code 75 with a sentence, or the signal's own before anything began."""
    untouched = everything(here) == everything(world.before[stage])
    early = (
        ended.code in {*(-number for number in POLITE), 130, 143}
        and untouched
        and "Traceback" not in ended.said
    )
    if ended.code == 0 or early or (ended.code == 75 and ended.refused):
        return "same"
    return f"exit code {ended.code} after a polite stop: {ended.said[-600:]}"


def send(child: int, *, after: float, number: int, times: int = 1) -> None:
    """Send a child a signal after some seconds, and the same again at once."""
    time.sleep(after)
    for _ in range(times):
        os.kill(child, number)  # its number is not reused before it is waited for


def some_files(world: World, chance: random.Random, tries: int, kinds: tuple[str, ...]) -> Faults:
    """One kind of fault to one file that a second start may read, of runs killed on their way;
    `start` is to be set.
    """
    cases = []
    for stage, folders in READ.items():
        shares = [] if stage == "predict" else [chance.random() for _ in range(min(tries, MOMENTS))]
        for root in [world.interrupted(stage, share) for share in shares] or [world.before[stage]]:
            files = [
                path
                for name in folders
                for path in sorted((root / name).rglob("*"))
                if path.is_file()
            ]
            cases += [
                (stage, root, path.relative_to(root), kind) for path in files for kind in kinds
            ]
    for stage, before, name, kind in chance.sample(cases, min(tries, len(cases))):

        def repair(here: Path, before: Path = before, top: Path = Path(*name.parts[:2])) -> None:
            shutil.rmtree(here / top)
            shutil.copytree(before / top, here / top, symlinks=True)

        seed = chance.randrange(1 << 30)

        def start(
            here: Path, stage: str = stage, name: Path = name, kind: str = kind, seed: int = seed
        ) -> str:
            ended = run(here, stage, partial(hinder, here / name, kind, random.Random(seed)))
            return world.judge(ended, stage, here)

        yield Fault(
            kind=f"{kind}, {stage}",
            what=f"{name}, seed {seed}",
            stage=stage,
            before=before,
            start=start,
            repair=repair,
        )


def damaged(world: World, chance: random.Random, tries: int) -> Faults:
    """Every kind of damage to every file."""
    return some_files(world, chance, tries, DAMAGE)


def unreadable(world: World, chance: random.Random, tries: int) -> Faults:
    """A file that may not be read (its bits say so) or that the disk does not give back (EIO)."""
    return some_files(world, chance, tries, ("EIO", "EACCES"))


def hinder(path: Path, kind: str, chance: random.Random) -> None:
    """Damage a file, or have reading it fail in this process."""
    raw = bytearray(path.read_bytes())
    place = chance.randrange(len(raw)) if raw else 0
    others = [
        other for other in sorted(path.parent.rglob("*")) if other.is_file() and other != path
    ]
    if kind == "EIO":
        disk.unreadable(path)
    elif kind == "EACCES":
        path.chmod(0)
        disk.obey_permissions()
    elif kind == "bit" and raw:
        raw[place] ^= 1 << chance.randrange(8)
        path.write_bytes(raw)
    elif kind in {"bit", "cut", "empty"}:
        path.write_bytes(b"" if kind == "empty" else raw[:place])
    elif kind == "swapped" and others:
        other = chance.choice(others)
        path.write_bytes(other.read_bytes())
        other.write_bytes(raw)
    else:
        path.unlink()
        if kind == "link":
            (elsewhere := path.with_name(f"{path.name}-elsewhere")).write_bytes(raw)
            path.symlink_to(elsewhere)
        elif kind == "dangling link":
            path.symlink_to("nowhere")
        elif kind == "folder":
            path.mkdir()


def unwritable(world: World, chance: random.Random, tries: int) -> Faults:
    """From a random change to a file on, writing fails."""
    for stage in stages(chance, tries):
        kind, place = chance.choice(list(FAILURES)), chance.randrange(world.changes(stage))

        def start(here: Path, stage: str = stage, kind: str = kind, place: int = place) -> str:
            ended = run(here, stage, partial(disk.watch, disk.At(place, FAILURES[kind]())))
            return world.judge(ended, stage, here)

        name, what = f"writing fails with {kind}, {stage}", f"from change {place} on"
        yield Fault(kind=name, what=what, stage=stage, before=world.before[stage], start=start)


def power_cuts(world: World, chance: random.Random, tries: int) -> Faults:
    """States that a power cut may leave (benchmarks/reliability/power.py)."""
    for stage, count in Counter(stages(chance, tries)).items():
        targets: dict[int, list[tuple[Path, int]]] = {}
        for index in range(count):
            at, target = (
                chance.randrange(world.changes(stage) + 1),
                world.folder / f"cut-{stage}-{index}",
            )
            targets.setdefault(at, []).append((target, chance.randrange(1 << 30)))
        with world.spoilt(world.before[stage]) as here:
            ended = run(here, stage, partial(cut_at_the_end, targets))
            assert ended.code == 0, ended.said
        for changed, (target, seed) in (
            (at, pair) for at, pairs in targets.items() for pair in pairs
        ):
            what = f"after {changed} changes, state {seed}"
            yield Fault(
                kind=f"power cut, {stage}",
                what=what,
                stage=stage,
                before=target,
                start=lambda here: "same",
            )
            shutil.rmtree(target)


def cut_at_the_end(targets: dict[int, list[tuple[Path, int]]]) -> Callable[[], None]:
    """In the child: note every change, and when the stage has ended, write the states."""
    model = power.Disk(Path.cwd())
    disk.watch(model.note)

    def write_states() -> None:
        real = power.contents(model.root)
        power.cut_all(model, targets)
        found = power.contents(model.top)
        strange = [
            name for name in real if real[name] != found.get(name) and not name.endswith(".lock")
        ]
        assert not strange, strange

    return write_states


def without_mlflow(world: World, chance: random.Random, tries: int) -> Faults:
    """Pre-training whose MLflow is not there, never answers or hangs up on everybody ends well, in
    a bounded time.
    """
    stage = "pretrain"
    for how in ("is closed", "never answers", "hangs up")[:tries]:

        def start(here: Path, how: str = how) -> str:
            with socket.socket() as port:
                port.bind(("127.0.0.1", 0))
                if how != "is closed":
                    port.listen(64)
                if how == "hangs up":
                    threading.Thread(target=hang_up, args=(port,), daemon=True).start()
                plain = (here / "params.yaml").read_text()
                (here / "params.yaml").write_text(
                    plain.replace("tracking: none", "tracking: mlflow")
                )
                url = f"http://127.0.0.1:{port.getsockname()[1]}"
                outcome = world.judge(
                    stage_command(here, stage, MLFLOW_TRACKING_URI=url), stage, here
                )
                (here / "params.yaml").write_text(plain)
                return outcome

        what = f"MLflow at a port that {how}"
        yield Fault(kind="server", what=what, stage=stage, before=world.before[stage], start=start)


def hang_up(listening: socket.socket) -> None:
    """Take every call and end it, until the socket is closed."""
    with contextlib.suppress(OSError):
        while True:
            listening.accept()[0].close()
