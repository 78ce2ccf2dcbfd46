"""A pre-training in sittings: the flat part of its schedule goes on for as long as there is time, and branches fall.

The flat run is one folder, `home`; from a step of it, in a folder of its own, the rate falls and rows grow longer. With
more steps the flat run goes on where it ended, and what comes out is, to the byte, a run of so many steps.
"""

import dataclasses
import time
from pathlib import Path
from typing import Any, Self

from benchmarks.provenance import provenance
from electra.errors import BadInput
from electra.files import read_json, write_json
from electra.pretraining.config import ElectraConfig, of_config
from electra.pretraining.phases import phases_of
from electra.pretraining.trainer import Launch, Trained
from electra.progress import Bar
from electra.storage import checkpoint, run_dir
from pipelines.runtime.progress_bar import ProgressBar
from pipelines.stages.pretrain import ModelRows

FOREVER = 10**7  # steps: of the flat run, which is never brought to its end
SECONDS = 60.0  # between two notes of what a sitting has cost


def flat_steps(config: ElectraConfig) -> int:
    """The steps before the rate falls, and before the length of rows changes: those that a longer run has, too."""
    settings, steps = config.pretrain, config.pretrain.steps
    assert isinstance(steps, int) and settings.schedule == "warmup_stable_decay"
    return min(phases_of(settings, steps)[0].last, steps - max(1, round(steps * settings.decay_share)))


def train(config: ElectraConfig, rows: ModelRows, home: Path) -> Trained:
    """Pre-train to the end; the flat part, in `home`, is that of longer runs, too, and goes on where it ended."""
    steps, flat = config.pretrain.steps, flat_steps(config)
    branch, start = home.with_name(f"{home.name}-{steps}"), home / f"step-{flat}"
    owner = fingerprint(config, rows)
    require_own(branch, owner, "a run of these")
    if not checkpoint.steps(branch):
        require_own(home, fingerprint(endless(config), rows), "a flat run of these")
        if not start.is_dir():
            extend(config, rows, home, flat)
        write_json(notes(branch), sittings(home))
        _, groups, progress = checkpoint.load(start)
        checkpoint.save(branch, flat, groups, progress | {"fingerprint": owner}, keep=2)
    with Clock(branch) as clock:
        return rows.train(config, branch, log=_quiet, launch=Launch(title=branch.name, bar=clock.bar()), owner=owner)


def require_own(run: Path, fingerprint: dict[str, Any], expected: str) -> None:
    """Raise BadInput where a run is of something else: it would be set aside, and another begun in its place."""
    known = run_dir.owner(run)
    if known is not None and known.get("fingerprint") != fingerprint:
        raise BadInput(run, "is of other settings or rows", expected, "move its folder away")


def endless(config: ElectraConfig) -> ElectraConfig:
    """The settings of the flat run."""
    pretrain = dataclasses.replace(config.pretrain, steps=FOREVER, log_every=flat_steps(config), keep_checkpoints=3)
    return dataclasses.replace(config, pretrain=pretrain)


def extend(config: ElectraConfig, rows: ModelRows, home: Path, flat: int) -> None:
    """Let the flat run go on to a step, and leave a checkpoint there."""
    config = endless(config)
    if (there := max(checkpoint.steps(home), default=0)) > flat:
        raise BadInput(home, f"is at step {there:,}", f"at most {flat:,}", "ask for more steps")
    with Clock(home) as clock:
        launch = Launch(title=home.name, bar=clock.bar(), until=flat)
        rows.train(config, home, log=_quiet, launch=launch, owner=fingerprint(config, rows))


def fingerprint(config: ElectraConfig, rows: ModelRows) -> dict[str, Any]:
    """Settings and rows. No code: sittings lie weeks apart, and the record names the commit of each."""
    return {"config": of_config(config), "train": rows.digest, "tokenizer": rows.tokenizer.identity}


class Clock:
    """Adds a sitting's processor seconds to its run's, and its commit, as found when it began.

    Noted at the first step, when the folder is the run's own, every minute and at the end: what a killed sitting had
    cost counts, too.
    """

    def __init__(self, run: Path) -> None:
        self.run = run

    def __enter__(self) -> Self:
        self.commit, self.noted, self.due = provenance()["commit"], time.process_time(), 0.0
        return self

    def __exit__(self, *_: object) -> None:
        self.note()

    def note(self) -> None:
        """Add what was spent since the last note."""
        known, now = sittings(self.run), time.process_time()
        commits = sorted({*known["commits"], self.commit})
        write_json(notes(self.run), {"seconds": round(known["seconds"] + now - self.noted, 3), "commits": commits})
        self.noted, self.due = now, now + SECONDS

    def bar(self) -> type[Bar]:
        """A bar that has the seconds noted."""
        clock = self

        class Timed(ProgressBar):
            def update(self, done: int, **numbers: float | str) -> None:
                super().update(done, **numbers)
                if time.process_time() >= clock.due:
                    clock.note()

        return Timed


def notes(run: Path) -> Path:
    """In a run's folder, what its sittings were."""
    return run / "sittings.json"


def sittings(run: Path) -> dict[str, Any]:
    """Processor seconds and commits of a run so far, those of the flat run that it began with among them."""
    return dict(read_json(notes(run))) if notes(run).is_file() else {"seconds": 0.0, "commits": []}


def _quiet(step: int, numbers: dict[str, float]) -> None:
    """The bar says enough."""
