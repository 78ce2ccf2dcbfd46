"""Changes between two starts of one pre-training: nothing that was saved is gone, and what bears on
no result goes on.

What does bear on it begins a run of its own beside the other, which is taken up again when the
change is undone.
"""

import random
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from benchmarks.harness import ROOT
from benchmarks.reliability.world import (
    Ended,
    Verdict,
    World,
    differing,
    everything,
    outputs,
    run,
    stage_command,
)

STAGE = "pretrain"
SHARE = 0.15  # of the changes to files: then it is on its way
FILE, CODE = "params.yaml", "electra/optim/schedule.py"
# what changes -> in which file, from what to what, whether the run goes on, whether its bytes
# are those of a run of its own
CHANGES = {
    "log_every": (FILE, "log_every: 5", "log_every: 2", True, True),
    "save_every": (FILE, "save_every: 5", "save_every: 4", True, True),
    "keep_checkpoints": (FILE, "keep_checkpoints: 2", "keep_checkpoints: 3", True, True),
    "threads": (FILE, "threads: 1", "threads: 2", True, False),
    "steps": (FILE, "steps: 20", "steps: 30", False, True),
    "batch": (FILE, "length: 24, batch: 8", "length: 24, batch: 4", False, True),
    "length": (FILE, "length: 24, batch: 8", "length: 16, batch: 8", False, True),
    "learning_rate": (FILE, "1.0e-3", "2.0e-3", False, True),
    "warmup": (FILE, "warmup: 2", "warmup: 3", False, True),
    "precision": (FILE, "precision: fp32", "precision: bf16", False, True),
    "eval_every": (FILE, "eval_every: 5", "eval_every: 4", False, True),
    "eval_batches": (FILE, "eval_batches: 2", "eval_batches: 1", False, True),
    "generator width": (FILE, "width: 0.5", "width: 0.25", False, True),
    "generator kind": (FILE, "width: 0.5", "kind: unigram", False, True),
    "layers": (FILE, "layers: 1", "layers: 2", False, True),
    "a comment in params.yaml": (FILE, "published:", "# A comment.\npublished:", True, True),
    "a comment": (CODE, '"""\n', '"""\n# A comment.\n', True, True),
    "code": (CODE, '"""\n', '"""\nUNUSED = 0\n', True, False),  # which checkpoints record
}
# other settings, added: where, whether the run goes on, which
ADDED = {
    ("keep_checkpoints: 2", True): ("compile: off", "clip: 1.0"),
    ("keep_checkpoints: 2", False): (
        "seed: 2", "clip: 0.5", "weight_decay: 0.1", "beta1: 0.8", "beta2: 0.99", "eps: 1.0e-5", "bias_correction: true",
        "schedule: warmup_stable_decay", "generator_lr_scale: 0.5", "accumulate: 2",
    ),
    ("embedding: 16", True): ("positions: 512",),
    ("embedding: 16", False): (
        "positions: 256", "dropout: 0.0", "attention_dropout: 0.0", "layer_norm_eps: 1.0e-6", "init_std: 0.1", "init: mimetic",
    ),
    ("width: 0.5", False): ("depth: 0.5",),
    ("objective: {", False): (
        "name: mlm", "name: replace_mlm", "mask_rate: 0.3", "mask_token_rate: 0.8", "random_token_rate: 0.1",
        "discriminator_weight: 20.0", "generator_weight: 2.0", "temperature: 2.0",
        "disallow_correct: true", "sharing: none", "sharing: tokens",
    ),
}  # fmt: skip
for (place, goes_on), texts in ADDED.items():
    for text in texts:
        CHANGES[text] = (
            FILE,
            place,
            f"{place}{text}" if place[-1] == "{" else f"{place}, {text}",
            goes_on,
            True,
        )


def settings(world: World, chance: random.Random, tries: int) -> Iterator[Verdict]:
    """Each change once, on a run that was killed on its way."""
    killed = world.interrupted(STAGE, SHARE)
    for what in chance.sample(list(CHANGES), min(tries, len(CHANGES))):
        file, old, new, goes_on, same = CHANGES[what]
        with world.spoilt(killed) as here, world.spoilt(world.before[STAGE]) as alone:
            saved = everything(here / "runs/pretrain")
            outcome = follow(start(world, here, file, old, new), here, saved, goes_on)
            if outcome == "same" and same:
                start(world, alone, file, old, new)
                if (found := outputs(here, STAGE)) != (expected := outputs(alone, STAGE)):
                    outcome = f"other bytes than a run of its own: {differing(found, expected)}"
            if outcome == "same" and not goes_on:
                outcome = undone(world, here, file, old, new)
            yield Verdict("change of settings or code", what, outcome)


def start(world: World, here: Path, file: str, old: str, new: str) -> Ended:
    """Change a file of the project, or of a copy of the code, and run the stage."""
    if file == FILE:
        change(here / file, old, new)
        return run(here, STAGE)
    shutil.rmtree(tree := world.folder / "tree", ignore_errors=True)
    for name in ("electra", "pipelines"):
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
    change(tree / file, old, new)
    return stage_command(here, STAGE, root=tree)


def change(path: Path, old: str, new: str) -> None:
    """Replace the first occurrence."""
    text = path.read_text()
    assert old in text, old
    path.write_text(text.replace(old, new, 1))


def follow(ended: Ended, here: Path, saved: dict[str, str], goes_on: bool) -> str:
    """What became of a run after a change."""
    if ended.code:
        return f"exit code {ended.code}: {ended.said[-600:]}"
    resumed = re.search(r"resuming at step \d+ of", ended.said) is not None
    if resumed != goes_on:
        return f"{'resumed' if resumed else 'started afresh'}: {ended.said[-600:]}"
    kept = set(everything(here / "runs").values())
    # as the run goes on
    pruned = r"\.lock$|step-|metrics|\.step-\d+\.tmp-" if resumed else r"\.lock$"
    gone = [name for name, sha256 in saved.items() if sha256 not in kept]
    if lost := [name for name in gone if not re.match(pruned, name.partition("/")[2])]:
        return f"gone: {', '.join(lost)}"
    return "same"


def undone(world: World, here: Path, file: str, old: str, new: str) -> str:
    """With the change undone, the run of before goes on as if nothing had been."""
    if file == FILE:
        change(here / file, new, old)
    ended = run(here, STAGE)
    outcome = world.judge(ended, STAGE, here)
    if outcome == "same" and "resuming at step" not in ended.said:
        outcome = f"not taken up again: {ended.said[-600:]}"
    return outcome if outcome == "same" else f"undone: {outcome}"
