"""Changes between two starts of one pre-training: nothing that was saved is gone, and what bears on no result goes on."""

import random
import re
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks.reliability.kills import ROOT, command, everything, interrupted
from benchmarks.reliability.world import MODEL, Ended, Verdict, World, differing, outputs, run

STAGE = "pretrain"
# what changes -> in which file, from what to what, whether the run goes on, whether its bytes are those of a run of its own
CHANGES = {
    "log_every": ("params.yaml", "log_every: 5", "log_every: 2", True, True),
    "save_every": ("params.yaml", "save_every: 5", "save_every: 4", True, True),
    "keep": ("params.yaml", "keep: 2", "keep: 3", True, True),
    "threads": ("params.yaml", "threads: 1", "threads: 2", True, False),
    "compile": ("params.yaml", "keep: 2", "keep: 2, compile: off", True, True),
    "accumulate": ("params.yaml", "keep: 2", "keep: 2, accumulate: 2", None, False),
    "steps": ("params.yaml", "steps: 20", "steps: 30", False, True),
    "learning_rate": ("params.yaml", "1.0e-3", "2.0e-3", False, True),
    "seed": ("params.yaml", "keep: 2", "keep: 2, seed: 2", False, True),
    "a comment": ("electra/training/schedule.py", '"""\n', '"""\n# A comment.\n', True, True),
    "code": ("electra/training/schedule.py", '"""\n', '"""\nUNUSED = 0\n', False, True),
}


def settings(world: World, chance: random.Random, tries: int) -> Iterator[Verdict]:
    """Each change once, on a run that was killed on its way."""
    killed = interrupted(world, STAGE)
    for what in chance.sample(list(CHANGES), min(tries, len(CHANGES))):
        file, old, new, goes_on, same = CHANGES[what]
        with world.spoilt(killed) as here, world.spoilt(world.before[STAGE]) as alone:
            saved = everything(here / "runs" / f"pretrain-{MODEL}")
            start = partial(in_this_process, file, old, new)
            if not (here / file).exists():
                start = partial(in_a_changed_tree, world.folder / "tree", file, old, new)
            ended = start(here)
            yield Verdict(
                "change of settings or code", what, follow(ended, here, alone, saved, goes_on, same and start)
            )


def follow(ended: Ended, here: Path, alone: Path, saved: dict[str, str], goes_on: bool | None, start: object) -> str:
    """What became of a run after a change."""
    if ended.code:
        return f"exit code {ended.code}: {ended.said[-600:]}"
    resumed = "resuming at step" in ended.said
    if goes_on is not None and resumed != goes_on:
        return f"{'resumed' if resumed else 'started afresh'}: {ended.said[-600:]}"
    kept = set(everything(here / "runs").values())
    pruned = re.compile(r"step-|\\.lock|metrics|fingerprint")  # as the run goes on
    lost = [name for name, sha256 in saved.items() if sha256 not in kept and not (resumed and pruned.match(name))]
    if lost := [name for name in lost if not name.startswith(".")]:
        return f"gone: {', '.join(lost)}"
    if callable(start):
        start(alone)
        if (found := outputs(here, STAGE)) != (expected := outputs(alone, STAGE)):
            return f"other bytes than a run of its own: {differing(found, expected)}"
    return "same"


def in_this_process(file: str, old: str, new: str, here: Path) -> Ended:
    """Change a file of the project and run the stage."""
    text = (here / file).read_text()
    assert text.count(old) >= 1, old
    (here / file).write_text(text.replace(old, new, 1))
    return run(here, STAGE)


def in_a_changed_tree(tree: Path, file: str, old: str, new: str, here: Path) -> Ended:
    """Run the stage with a copy of the code in which something is changed."""
    shutil.rmtree(tree, ignore_errors=True)
    for name in ("electra", "pipelines"):
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
    text = (tree / file).read_text()
    assert old in text, old
    (tree / file).write_text(text.replace(old, new, 1))
    return command(here, STAGE, root=tree)
