"""Damaged files: each kind of damage to each file of an interrupted run and of what stages left."""

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

from benchmarks.reliability import disk
from benchmarks.reliability.kills import interrupted
from benchmarks.reliability.world import MODEL, Verdict, World, run

# stage -> what it reads that an earlier start or stage has left
READ = {
    "corpus": [f"runs/corpus-{MODEL}"],
    "tokens": [f"runs/tokens-{MODEL}", "build/corpus"],
    "pretrain": [f"runs/pretrain-{MODEL}", "build/tokens"],
    "glue": [f"runs/glue-{MODEL}", "build/models", "build/tasks"],
    "squad": [f"runs/squad-{MODEL}", "build/models", "build/tasks"],
    "ablation": ["runs/ablation-pair", "runs/arms", "build/tokens", "build/tasks"],
    "predict": ["build/glue"],
}
KINDS = ("bit", "bit", "bit", "cut", "empty", "deleted", "swapped", "link", "dangling link", "folder")
MOMENTS = 4  # at which each stage is killed
Place = tuple[str, Path, Path]  # stage, the project, a file from there


class Interrupted:
    """The project as each stage leaves it that is killed on its way, and every file that a second start may read."""

    def __init__(self, world: World, chance: random.Random, moments: int) -> None:
        self.places: list[Place] = []
        for stage, folders in READ.items():
            if stage == "predict":  # it keeps nothing on its way
                roots = [world.before[stage]]
            else:
                roots = [interrupted(world, stage, chance.random()) for _ in range(moments)]
            for root in roots:
                files = (path for name in folders for path in sorted((root / name).rglob("*")) if path.is_file())
                self.places += [(stage, root, path.relative_to(root)) for path in files]


def every_file(world: World, chance: random.Random, tries: int) -> Iterator[Verdict]:
    """Damage one file: the next stage ends with the same bytes or a sentence; once mended, with the same bytes."""
    there = Interrupted(world, chance, min(tries, MOMENTS))
    cases = [(*place, kind) for place in there.places for kind in KINDS]
    for stage, before, name, kind in chance.sample(cases, min(tries, len(cases))):
        with world.spoilt(before) as here:
            others = [
                path for path in sorted((here / name).parent.rglob("*")) if path.is_file() and path != here / name
            ]
            told = spoil(here / name, kind, chance, others)
            outcome = world.judge(run(here, stage), stage, here)
            if outcome == "refused":
                outcome = mended(world, stage, before, here, name)
            yield Verdict(f"{kind}, {stage}", f"{name}: {told}", outcome)


def mended(world: World, stage: str, before: Path, here: Path, name: Path) -> str:
    """Put the damaged files back and start again: that a stage was refused must not have cost anything else."""
    top = Path(*name.parts[:2])
    shutil.rmtree(here / top)
    shutil.copytree(before / top, here / top, symlinks=True)
    outcome = world.again(stage, here)
    return "refused" if outcome == "same" else f"refused, and after the damage was mended: {outcome}"


def spoil(path: Path, kind: str, chance: random.Random, others: list[Path]) -> str:
    """Damage a file; returns what was done."""
    raw = bytearray(path.read_bytes())
    place = chance.randrange(len(raw)) if raw else 0
    if kind == "bit" and raw:
        bit = chance.randrange(8)
        raw[place] ^= 1 << bit
        path.write_bytes(raw)
        return f"bit {bit} of byte {place}"
    if kind in {"bit", "cut"}:
        path.write_bytes(raw[:place])
        return f"cut to {place} bytes"
    if kind == "empty":
        path.write_bytes(b"")
        return "emptied"
    if kind == "swapped" and others:
        other = chance.choice(others)
        path.write_bytes(other.read_bytes())
        other.write_bytes(raw)
        return f"swapped with {other.name}"
    path.unlink()
    if kind == "link":
        (aside := path.with_name(f"{path.name}-elsewhere")).write_bytes(raw)
        path.symlink_to(aside)
    elif kind == "dangling link":
        path.symlink_to("nowhere")
    elif kind == "folder":
        path.mkdir()
    return kind


def unreadable(world: World, chance: random.Random, tries: int) -> Iterator[Verdict]:
    """A file that may not be read (its bits say so) or that the disk does not give back (EIO)."""
    there = Interrupted(world, chance, min(tries, MOMENTS))
    cases = [(*place, kind) for place in there.places for kind in ("EIO", "EACCES")]
    for stage, before, name, kind in chance.sample(cases, min(tries, len(cases))):
        with world.spoilt(before) as here:

            def prepare(kind: str = kind, path: Path = here / name) -> None:
                if kind == "EIO":
                    disk.unreadable(path)
                else:
                    path.chmod(0)
                    disk.obey_permissions()

            outcome = world.judge(run(here, stage, prepare), stage, here)
            if outcome == "refused":
                outcome = mended(world, stage, before, here, name)
            yield Verdict(f"reading fails with {kind}, {stage}", str(name), outcome)
