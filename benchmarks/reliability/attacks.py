"""The attacks: kills, signals, damaged files, disks that fail, power cuts, changed settings, and an
MLflow that does not answer.
"""

import itertools
import os
import random
import re
import shutil
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from benchmarks.harness import ROOT
from benchmarks.reliability import disk, power
from benchmarks.reliability.world import STAGES, Ended, Verdict, World, hash_files, run

# stage -> what it reads that an earlier run or stage has left
READ = {
    "corpus": ["runs/corpus"],
    "tokens": ["runs/tokens", "build/corpus"],
    "pretrain": ["runs/pretrain", "build/tokens"],
    "glue": ["runs", "build/models", "build/tasks"],
    "ablation": ["runs", "build/tokens", "build/tasks"],
}
DAMAGE = ("bit", "cut", "empty", "missing", "swapped", "link", "folder", "read error (EIO)")
KILLED_AT = (0.2, 0.5, 0.8, 1.0)  # of the changes to files
CHANGES = {  # setting of the pre-training: new value, whether the run goes on with it
    "log_every: 5": ("log_every: 2", True),
    "save_every: 5": ("save_every: 4", True),
    "keep_checkpoints: 2": ("keep_checkpoints: 3", True),
    "published:": ("# A comment.\npublished:", True),
    "steps: 20": ("steps: 30", False),
    "24, batch: 8": ("24, batch: 4", False),
    "length: 24, batch": ("length: 16, batch", False),
    "1.0e-3": ("2.0e-3", False),
    "precision: fp32": ("precision: bf16", False),
    "eval_every: 5": ("eval_every: 4", False),
    "width: 0.5": ("width: 0.25", False),
    "layers: 1": ("layers: 2, dropout: 0.0", False),
    "threads: 1": ("threads: 1, seed: 2", False),
    "objective: {}": ("objective: {name: mlm}", False),
}
SERVERS = ("is closed", "never answers", "hangs up")


def choose_stages(chance: random.Random, tries: int) -> Iterator[str]:
    """Yield so many stages, each as often as any other."""
    return itertools.islice(itertools.cycle(chance.sample(STAGES, len(STAGES))), tries)


def kill(world: World, chance: random.Random, tries: int) -> Iterator[Verdict]:
    """SIGKILL before a change to a file, or in the middle of a write."""
    for stage in choose_stages(chance, tries):
        place = chance.randrange(world.changes[stage])
        prepare = partial(disk.watch, disk.At(place, disk.kill_process))
        start = partial(run, stage=stage, prepare=prepare)
        yield world.attack("SIGKILL at a change to a file", f"change {place}", stage, start)


def send_signals(world: World, chance: random.Random, tries: int) -> Iterator[Verdict]:
    """A signal at any moment."""
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
    """Damage to a file that a stage reads, in runs that were killed on their way."""
    files: dict[str, list[tuple[Path, Path]]] = {stage: [] for stage in READ}
    for stage, folders in READ.items():
        for before in [world.kill_at(stage, share) for share in KILLED_AT]:
            for folder in folders:
                found = [path for path in sorted((before / folder).rglob("*/*")) if path.is_file()]
                files[stage] += [(before, path.relative_to(before)) for path in found]
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
    """A disk on which writing fails, from any change to a file on."""
    for stage in choose_stages(chance, tries):
        name = chance.choice(list(disk.FAULTS))
        place = chance.randrange(world.changes[stage])
        prepare = partial(disk.watch, disk.At(place, disk.FAULTS[name]()))
        start = partial(run, stage=stage, prepare=prepare)
        yield world.attack(f"writing fails ({name})", f"from change {place} on", stage, start)


def cut_power(world: World, chance: random.Random, tries: int) -> Iterator[Verdict]:
    """States in which a power cut may leave a disk (benchmarks/reliability/power.py)."""
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


def change_settings(world: World, chance: random.Random, tries: int) -> Iterator[Verdict]:
    """Settings that change in the middle of a pre-training, and change back."""
    killed = world.kill_at("pretrain", 0.15)
    for old in chance.sample(list(CHANGES), min(tries, len(CHANGES))):
        new, goes_on = CHANGES[old]
        outcome = follow_change(world, killed, old, new, goes_on)
        yield Verdict("settings changed on the way", f"{old} -> {new}", outcome)


def follow_change(world: World, killed: Path, old: str, new: str, goes_on: bool) -> str:
    """Return what became of a killed run after a change of settings."""
    project = world.copy(killed)
    alone = world.copy(world.before["pretrain"])
    saved = hash_files(project / "runs/pretrain")
    for folder in (project, alone):
        replace(folder / "params.yaml", old, new)
    ended = run(project, "pretrain")
    if ended.code or run(alone, "pretrain").code:
        return f"exit code {ended.code}: {ended.output[-600:]}"
    if ("resuming at step" in ended.output) != goes_on:
        return f"went on or not, against the rule: {ended.output[-600:]}"
    if world.outputs(project, "pretrain") != world.outputs(alone, "pretrain"):
        return "other bytes than a run of its own"
    kept = set(hash_files(project / "runs").values())
    # a run that goes on removes old checkpoints
    pruned = r"\.lock$|step-|metrics|\.step-\d+\.tmp-" if goes_on else r"\.lock$"
    gone = [name for name, sha256 in saved.items() if sha256 not in kept]
    lost = [name for name in gone if not re.match(pruned, name.partition("/")[2])]
    if lost:
        return f"gone: {', '.join(lost)}"
    if goes_on:
        return "same"
    replace(project / "params.yaml", new, old)
    ended = run(project, "pretrain")
    if "resuming at step" not in ended.output:
        return f"the first run was not resumed: {ended.output[-600:]}"
    return world.judge(ended, "pretrain", project)


def replace(path: Path, old: str, new: str) -> None:
    """Replace the one place where a text stands in a file."""
    text = path.read_text()
    assert text.count(old) == 1, (old, text.count(old))
    path.write_text(text.replace(old, new))


def remove_server(world: World, chance: random.Random, tries: int) -> Iterator[Verdict]:
    """Pre-training with an MLflow that is not there, never answers or hangs up."""
    for state in SERVERS[:tries]:
        start = partial(run_without_mlflow, state=state)
        yield world.attack("no MLflow", f"its port {state}", "pretrain", start)


def run_without_mlflow(project: Path, *, state: str) -> Ended:
    """Pre-train with tracking to a port in some state."""
    params = project / "params.yaml"
    with socket.socket() as port:
        port.bind(("127.0.0.1", 0))
        if state != "is closed":
            port.listen(64)
        if state == "hangs up":
            threading.Thread(target=hang_up, args=(port,), daemon=True).start()
        address = f"http://127.0.0.1:{port.getsockname()[1]}"
        replace(params, "tracking: none", "tracking: mlflow")
        values = {"MLFLOW_TRACKING_URI": address, "PYTHONPATH": str(ROOT)}
        ended = run(project, "pretrain", partial(os.environ.update, values))
        replace(params, "tracking: mlflow", "tracking: none")
    return ended


def hang_up(listening: socket.socket) -> None:
    """Accept every connection and close it, until the socket is closed."""
    try:
        while True:
            listening.accept()[0].close()
    except OSError:
        return


Attack = Callable[[World, random.Random, int], Iterator[Verdict]]
ATTACKS: dict[str, tuple[Attack, float]] = {  # name -> attack, tries a round
    "kills": (kill, 4),
    "signals": (send_signals, 2),
    "damage": (damage, 10),
    "writes": (fail_writes, 4),
    "power": (cut_power, 4),
    "changes": (change_settings, 0.5),
    "servers": (remove_server, 0.1),
}
