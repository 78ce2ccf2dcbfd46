"""Writes that fail: a full disk, a bad place on it, folders that may not be changed, and power that goes."""

import random
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from benchmarks.reliability import disk, power
from benchmarks.reliability.kills import changes, stages
from benchmarks.reliability.world import Verdict, World, run

FAILURES = {"ENOSPC": disk.full, "EIO": disk.broken, "EACCES": disk.forbidden}
BLOCK = 4096


def failing(world: World, chance: random.Random, tries: int) -> Iterator[Verdict]:
    """From a random change to a file on, writing fails; then there is room again."""
    for stage in stages(chance, tries):
        kind, place = chance.choice(list(FAILURES)), chance.randrange(changes(world, stage))
        with world.spoilt(world.before[stage]) as here:
            ended = run(here, stage, partial(disk.watch, disk.At(place, FAILURES[kind]())))
            outcome = world.judge(ended, stage, here)
            if outcome in {"same", "refused"} and (later := world.again(stage, here)) != "same":
                outcome = f"{outcome}, and once writing was possible again: {later}"
            yield Verdict(f"writing fails with {kind}, {stage}", f"from change {place} on", outcome)


def full_disk(world: World, chance: random.Random, tries: int) -> Iterator[Verdict]:
    """A file system in memory, as large as the project and a random part of what the stage adds; then a larger one."""
    place = world.folder / "small-disk"
    place.mkdir()
    for stage in stages(chance, tries):
        before = blocks(world.before[stage])
        size = before + chance.randrange(1, 100)
        options = f"size={size * BLOCK},nr_inodes=10000"
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)], capture_output=True, check=False
        )
        if mounted.returncode:  # only root may
            return
        try:
            here = Path(shutil.copytree(world.before[stage], place / "project", symlinks=True))
            outcome = world.judge(run(here, stage), stage, here)
            subprocess.run(["mount", "-o", f"remount,size={64 << 20}", str(place)], check=True)
            if outcome in {"same", "refused"} and (later := world.again(stage, here)) != "same":
                outcome = f"{outcome}, and once there was room again: {later}"
            yield Verdict(f"full disk, {stage}", f"{size - before} blocks of {BLOCK} free", outcome)
        finally:
            subprocess.run(["umount", str(place)], check=True)


def blocks(folder: Path) -> int:
    """The blocks that a folder takes in a file system in memory."""
    return sum(-(-path.stat().st_size // BLOCK) for path in folder.rglob("*") if path.is_file()) + 2


def power_cuts(world: World, chance: random.Random, tries: int) -> Iterator[Verdict]:
    """States that a power cut may leave (benchmarks/reliability/power.py), and the same command on them."""
    for stage, mine in Counter(stages(chance, tries)).items():
        count = changes(world, stage)
        targets: dict[int, list[tuple[Path, int]]] = {}
        for index in range(mine):
            target = world.folder / f"cut-{stage}-{index}"
            targets.setdefault(chance.randrange(count + 1), []).append((target, chance.randrange(1 << 30)))
        with world.spoilt(world.before[stage]) as here:
            ended = run(here, stage, partial(cut_at_the_end, targets))
            assert ended.code == 0, ended.said
        for changed, pairs in targets.items():
            for target, seed in pairs:
                told = f"after {changed} changes, state {seed}"
                yield Verdict(f"power cut, {stage}", told, world.again(stage, target))
                shutil.rmtree(target)


def cut_at_the_end(targets: dict[int, list[tuple[Path, int]]]) -> Callable[[], None]:
    """In the child: note every change, and when the stage has ended, write the states."""
    model = power.Disk(Path.cwd())
    disk.watch(model.note)

    def write_states() -> None:
        real = power.contents(model.root)
        power.cut_all(model, targets)
        found = power.contents(model.top)
        strange = [name for name in real if real[name] != found.get(name) and not name.endswith(".lock")]
        assert not strange, strange

    return write_states
