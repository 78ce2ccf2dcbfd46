"""Whose a run's folder is. Nothing is deleted because something changed.

    runs/pretrain-tiny                  the run of the settings, data and code as they are now
    runs/pretrain-tiny.aside-1f0c52d3   a run of others, whole: taken up again as soon as these come back

A run is known by the fingerprints inside its checkpoints and by nothing else. On request a run is continued under other
settings: in a folder of its own, from a copy of its newest checkpoint, which notes what has changed.
"""

import contextlib
import glob
import sys
from collections.abc import Callable
from pathlib import Path

from electra.errors import BadInput, UserError
from electra.files import free_name, lock_folder, remove, rename
from electra.storage import checkpoint
from electra.storage.checkpoint import Groups, Progress
from electra.storage.fingerprint import Fingerprint, describe, differences, short
from electra.storage.manifest import read_sealed

ASIDE = ".aside-"
VARIABLE = "ELECTRA_CONTINUE"  # the name of the run to continue: what `--continue` is without a command line, as in DVC


class RunFolder:
    """A run's folder in the hands of this process. The lock lies inside, so it is taken anew where the folder moves."""

    def __init__(self, path: Path) -> None:
        self.path, self._lock = path, contextlib.ExitStack()

    def __enter__(self) -> "RunFolder":
        self._lock.enter_context(lock_folder(self.path))
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.close()

    def set_aside(self, owner: Progress) -> Path:
        """Move all of it to a name of its own, and begin with an empty folder."""
        digits = short(owner.get("fingerprint"), owner.get("continued", []))
        aside = free_name(self.path.with_name(f"{self.path.name}{ASIDE}{digits}"))
        rename(self.path, aside)
        self._lock.close()
        self.__enter__()
        return aside

    def take_up(self, aside: Path) -> None:
        """Put a run that was set aside in place of a folder that holds none."""
        with lock_folder(aside):
            self._lock.close()
            remove(self.path)
            rename(aside, self.path)
        self.__enter__()


def asides(run: Path) -> list[Path]:
    """The runs that were set aside from a folder."""
    return sorted(run.parent.glob(f"{glob.escape(run.name)}{ASIDE}*"))


def intact(run: Path) -> dict[int, Progress]:
    """What the checkpoints of a run say of themselves, newest first; damaged ones are left to the loader."""
    result = {}
    for step in reversed(checkpoint.steps(run)):
        with contextlib.suppress(UserError):
            result[step] = checkpoint.read_progress(run / f"step-{step}")
    return result


def owner(run: Path) -> Progress | None:
    """What the newest checkpoint, or else the bundle of a refused step, says of its run; None without either."""
    for progress in intact(run).values():
        return progress
    for path in sorted(run.glob("nonfinite-step-*.json")):
        with contextlib.suppress(UserError):
            return read_sealed(path)
    return None


def claim(
    held: RunFolder, fingerprint: Fingerprint, origin: str, fits: Callable[[Groups, Progress], None], *, keep: int
) -> None:
    """Make the folder hold this fingerprint's run, if there is one: here, aside, or in `origin`, then continued.

    `origin` is the folder's own name, that of a run set aside from it, or empty; `fits` raises a UserError for a
    checkpoint that these settings cannot go on from.
    """
    run, checkpoints = held.path, intact(held.path)
    ours = [step for step, progress in checkpoints.items() if progress.get("fingerprint") == fingerprint]
    if origin and (source := _source(run, fingerprint, origin, checkpoints, ours)):
        _continue(held, source, fingerprint, fits, keep)
        return
    if ours:
        for step in checkpoints.keys() - ours:
            checkpoint.set_aside(
                run, step, "foreign", f"it is of another run: {_changes(checkpoints[step], fingerprint)}"
            )
        return
    before = owner(run)
    if before is not None and before.get("fingerprint") != fingerprint:
        aside = held.set_aside(before)
        _say(
            f"{run}: {_changes(before, fingerprint)}; the run of before, at step {before['step']:,}, is kept as "
            f"{aside}: it is taken up again where this is undone, and `--continue {aside.name}` "
            f"({VARIABLE}={aside.name} with DVC) goes on with it under the new settings"
        )
    if not any(run.glob("*step-*")) and (known := _of(run, fingerprint)):
        held.take_up(known)
        _say(f"{run}: the run of these very settings, data and code is taken up again from {known}")


def _of(run: Path, fingerprint: Fingerprint) -> Path | None:
    """The run of this fingerprint among those set aside; of several the one that was changed least often."""
    known = {aside: owner(aside) for aside in asides(run)}
    matching = {aside: of for aside, of in known.items() if of and of.get("fingerprint") == fingerprint}
    return min(matching, key=lambda aside: len(matching[aside].get("continued", [])), default=None)


def _source(
    run: Path, fingerprint: Fingerprint, origin: str, checkpoints: dict[int, Progress], ours: list[int]
) -> Path | None:
    """The folder of the run to continue; None where the one that is here goes on as it is."""
    others = asides(run)
    names = ", ".join(aside.name for aside in others) or "none is set aside"
    if origin != run.name:
        before = checkpoints[ours[0]].get("continued", []) if ours else []
        if before and before[-1]["run"] == origin:
            return None  # it was continued already, by the same command
        if not (run.parent / origin).is_dir() or not origin.startswith(f"{run.name}{ASIDE}"):
            raise BadInput(run.parent / origin, "is no run to continue", f"{run.name} or a run set aside: {names}")
        return run.parent / origin
    if ours and (checkpoints[ours[0]].get("continued") or not others):
        return None
    if not ours and checkpoints:
        known = _of(run, fingerprint)
        continued = known is not None and (owner(known) or {}).get("continued")
        return None if continued else run  # what was continued so before is taken up again
    if not ours and len(others) == 1:
        return others[0]
    held = "is of these very settings already" if ours else "holds no checkpoint"
    raise BadInput(run, held, "the name of the run to continue", f"give `--continue NAME`: {names}")


def _continue(
    held: RunFolder, source: Path, fingerprint: Fingerprint, fits: Callable[[Groups, Progress], None], keep: int
) -> None:
    step, groups, progress = _newest(source)
    old = progress.get("fingerprint")
    if old is None:
        raise BadInput(source, "is of an older version of this project", "a run that holds its fingerprint")
    changed = differences(old, fingerprint)
    for key, do in (
        ("tokenizer", "other pieces need other weights: let the run begin anew"),
        ("pretrain.bias_correction", "the optimizer's state is of one kind: change it back"),
    ):
        if key in changed:
            raise BadInput(source, f"cannot be continued under another {key}", str(changed[key][0]), do)
    fits(groups, progress)
    kept = owner(held.path) and held.set_aside(owner(held.path) or {})
    source = kept if kept and source == held.path else source
    change = {"step": step, "run": source.name, "tokens": progress["tokens"], "flops": progress["flops"]}
    progress |= {"fingerprint": fingerprint, "continued": [*progress["continued"], {**change, "changed": changed}]}
    if "pretrain.precision" in changed:
        del progress["precision"]
    checkpoint.save(held.path, step, groups | {"running": {}}, progress, keep=keep)
    _say(
        f"{held.path}: goes on with {source.name} from step {step:,}, under {describe(changed) or 'the same settings'}"
    )


def _newest(source: Path) -> checkpoint.Saved:
    """The newest good checkpoint of a run that stays as it is."""
    troubles = []
    for step in reversed(checkpoint.steps(source)):
        try:
            return checkpoint.load(source / f"step-{step}")
        except UserError as error:
            troubles.append(str(error))
    raise BadInput(source, " | ".join(troubles) or "holds no checkpoint", "a run that was saved")


def _changes(progress: Progress, fingerprint: Fingerprint) -> str:
    """What differs between a checkpoint and a fingerprint, to be read."""
    if "fingerprint" not in progress:
        return "made by an older version of this project, without a fingerprint"
    return describe(differences(progress["fingerprint"], fingerprint))


def _say(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)
