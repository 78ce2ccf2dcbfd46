"""The attacks: kills, signals, damaged files, disks that fail, and power cuts."""

import itertools
import os
import random
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from benchmarks.reliability import disk, power
from benchmarks.reliability.world import STAGES, Ended, Verdict, World, run

# stage -> its inputs that an earlier run or stage has left
READ = {
    "corpus": ["runs/corpus"],
    "tokens": ["runs/tokens", "build/corpus"],
    "pretrain": ["runs/pretrain", "build/tokens"],
    "glue": ["runs", "build/models", "build/tasks"],
    "squad": ["runs", "build/models", "build/tasks"],
    "ablation": ["runs", "build/tokens", "build/tasks"],
}
DAMAGE = ("bit", "cut", "empty", "missing", "swapped", "link", "folder", "read error (EIO)")
KILLED_AT = (0.2, 0.5, 0.8, 1.0)  # of the changes to files


def choose_stages(chance: random.Random, tries: int) -> Iterator[str]:
    """Yield so many stages, each as often as any other."""
    return itertools.islice(itertools.cycle(chance.sample(STAGES, len(STAGES))), tries)


def kill(world: World, chance: random.Random, tries: int) -> Iterator[Verdict]:
    """Send SIGKILL before a change to a file, or in the middle of a write."""
    for stage in choose_stages(chance, tries):
        place = chance.randrange(world.changes[stage])
        prepare = partial(disk.watch_from, place, disk.kill_process)
        start = partial(run, stage=stage, prepare=prepare)
        yield world.attack("SIGKILL at a change to a file", f"change {place}", stage, start)


def send_signals(world: World, chance: random.Random, tries: int) -> Iterator[Verdict]:
    """Send a signal at any moment."""
    for stage in choose_stages(chance, tries):
        number = chance.choice([signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
        moment = chance.uniform(0, 1.1) * world.seconds[stage]
        start = partial(run, stage=stage, interrupt=partial(send, after=moment, number=number))
        yield world.attack(f"{number.name} at any moment", f"{moment:.3f} s", stage, start)


def send(child: int, *, after: float, number: int) -> None:
    """Send a child a signal after some seconds."""
    time.sleep(after)
    os.kill(child, number)  # its number is not reused before it is waited for


def damage(world: World, chance: random.Random, tries: int) -> Iterator[Verdict]:
    """Damage a file that a stage reads, in runs that were killed on their way."""
    files: dict[str, list[tuple[Path, Path]]] = {stage: [] for stage in READ}
    for stage, folders in READ.items():
        for before in [world.kill_at(stage, share) for share in KILLED_AT]:
            for folder in folders:
                paths = [path for path in sorted((before / folder).rglob("*/*")) if path.is_file()]
                files[stage] += [(before, path.relative_to(before)) for path in paths]
    for stage in itertools.islice(itertools.cycle(READ), tries):
        before, name = chance.choice(files[stage])
        kind = chance.choice(DAMAGE)
        start = partial(run_damaged, stage=stage, name=name, kind=kind, chance=chance)
        yield world.attack(f"file: {kind}", str(name), stage, start, before, name)


def run_damaged(
    project: Path, *, stage: str, name: Path, kind: str, chance: random.Random
) -> Ended:
    """Damage a file and run a stage."""
    path = project / name
    if kind.startswith("read error"):
        return run(project, stage, partial(disk.fail_reads, path))
    data = bytearray(path.read_bytes())
    others = [other for other in path.parent.iterdir() if other.is_file() and other != path]
    path.unlink()
    if kind == "bit" and data:
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        path.write_bytes(data)
    elif kind == "cut" and data:
        path.write_bytes(data[: chance.randrange(len(data))])
    elif kind == "empty":
        path.touch()
    elif kind == "swapped" and others:
        other = chance.choice(sorted(others))
        other.rename(path)
        other.write_bytes(data)
    elif kind == "link":
        path.symlink_to("nowhere")
    elif kind == "folder":
        path.mkdir()
    return run(project, stage)


def fail_writes(world: World, chance: random.Random, tries: int) -> Iterator[Verdict]:
    """Let a disk fail on which a stage writes, from any change to a file on."""
    for stage in choose_stages(chance, tries):
        name = chance.choice(list(disk.FAULTS))
        place = chance.randrange(world.changes[stage])
        prepare = partial(disk.watch_from, place, disk.FAULTS[name]())
        start = partial(run, stage=stage, prepare=prepare)
        yield world.attack(f"writing fails ({name})", f"from change {place} on", stage, start)


def cut_power(world: World, chance: random.Random, tries: int) -> Iterator[Verdict]:
    """Restart from a state in which a power cut may leave a disk (power.py)."""
    for stage in choose_stages(chance, tries):
        place = chance.randrange(world.changes[stage])
        seed = chance.randrange(1 << 30)
        start = partial(run_to_power_cut, stage=stage, place=place, seed=seed)
        yield world.attack("power cut (simulated)", f"change {place}, state {seed}", stage, start)


def run_to_power_cut(project: Path, *, stage: str, place: int, seed: int) -> Ended:
    """Run a stage up to a change to a file, and leave a state that a power cut may leave."""
    state = project.with_name("state")
    prepare = partial(power.cut_at, place, state, random.Random(seed))
    ended = run(project, stage, prepare)
    assert ended.code == -signal.SIGKILL, ended.output
    shutil.rmtree(project)
    state.rename(project)
    return ended


Attack = Callable[[World, random.Random, int], Iterator[Verdict]]
ATTACKS: dict[str, tuple[Attack, float]] = {  # name -> attack, tries a round
    "kills": (kill, 4),
    "signals": (send_signals, 2),
    "damage": (damage, 10),
    "writes": (fail_writes, 4),
    "power": (cut_power, 4),
}
