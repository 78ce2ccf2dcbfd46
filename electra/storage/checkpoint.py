"""Checkpoints: a folder `step-N` of safetensors files, `progress.json`, and a manifest of sha256
sums written last.

`progress.json` holds the rest of a run, with its fingerprint and the curve so far: nothing outside
of the folder is needed, or trusted. A folder is written under a temporary name, fsynced and
renamed. Loading verifies every byte before a tensor reaches a network and falls back to the newest
good one; a bad folder is kept as `bad-step-N`, never deleted. One that cannot be read just now ends
the command instead. Knows nothing of networks.
"""

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import ConfigDict
from pydantic.dataclasses import dataclass

from electra.config import build
from electra.errors import CorruptFile, NonFinite, Unreadable, UserError
from electra.files import (
    atomic_folder,
    read_errors,
    read_json,
    remove,
    rename,
    unused_path,
    write_json,
)
from electra.storage.manifest import verify_manifest, write_manifest

# Torch is imported where tensors are read and written: code that only lists runs, as text stages
# do, saves 190 MB.
if TYPE_CHECKING:
    from electra.storage.tensors import Tensors

PROGRESS = "progress.json"
Groups = dict[str, "Tensors"]  # file name -> tensor name -> tensor
Progress = dict[str, Any]
Saved = tuple[int, Groups, Progress]

_strict = dataclass(config=ConfigDict(strict=True, allow_inf_nan=False))


@_strict
class _Spent:
    step: int
    tokens: int
    flops: float


@_strict
class _Change(_Spent):
    run: str


@_strict
class _Record(_Spent):
    """The fields of `progress.json` that a later process reads. The hash does not prove their
    types.
    """

    stage: str
    fingerprint: dict[str, Any]
    history: list[dict[str, float]]
    continued: list[_Change]
    code: list[tuple[int, str]]
    precision: Literal["fp32", "bf16"] = "fp32"  # missing where it has to be chosen again


def steps(run: Path) -> list[int]:
    """Return the steps that have a checkpoint folder under its final name, oldest first."""
    matches = (re.fullmatch(r"step-(0|[1-9][0-9]*)", path.name) for path in run.glob("step-*"))
    return sorted(int(match[1]) for match in matches if match)


def save(run: Path, step: int, groups: Groups, progress: dict[str, Any], *, keep: int) -> None:
    """Save `step-N`, read it back, then prune to the newest `keep`. Raise NonFinite for a tensor
    that is not finite.
    """
    from electra.storage.tensors import write_tensors

    folder = run / f"step-{step}"
    with atomic_folder(folder) as temporary:
        for file, tensors in groups.items():
            for name, tensor in tensors.items():
                if not tensor.isfinite().all():
                    fault = f"{file}/{name} holds NaN or infinity; nothing was saved"
                    raise NonFinite(f"step {step}: {fault}, see the last checkpoint")
            write_tensors(temporary / f"{file}.safetensors", tensors)
        write_json(temporary / PROGRESS, progress)
        write_manifest(temporary, step=step)
    verify_manifest(folder)
    for old in steps(run)[:-keep]:
        remove(run / f"step-{old}")


def read_progress(folder: Path) -> Progress:
    """Return a checkpoint's own record, without reading tensors."""
    with read_errors(folder):
        verify_manifest(folder, only=[PROGRESS])
        return _read_progress(folder)


def _read_progress(folder: Path) -> Progress:
    path = folder / PROGRESS
    progress: Progress = read_json(path)
    build(_Record, progress, str(path))
    if folder.name != f"step-{progress['step']}":
        raise CorruptFile(f"{path}: is the record of step {progress['step']:,}")
    return progress


def load_newest(
    run: Path,
    check: Callable[[Groups], None] = lambda groups: None,
    *,
    rename_bad: bool = True,
) -> Saved | None:
    """Return (step, tensors, progress) of the newest good checkpoint; None if there is none at all.

    `check` raises a UserError for an intact checkpoint that cannot be used here. Raises
    CorruptFile, listing what is wrong with each, if there are checkpoints but no good one: work is
    never thrown away by starting from step 0 unasked. Raises Unreadable where the disk does not
    answer: the checkpoint may be whole.
    """
    troubles = []
    for step in reversed(steps(run)):
        try:
            saved = load(run / f"step-{step}")
            check(saved[1])
            return saved
        except Unreadable:
            raise
        except UserError as error:
            troubles.append(str(error))
            if rename_bad:
                set_aside(run, step, "bad", str(error))
    troubles = troubles or sorted(path.name for path in run.glob("bad-step-*"))
    if not troubles:
        return None
    do = "bring one back, or move the folder away to begin again"
    raise CorruptFile(f"{run}: no checkpoint is good: {' | '.join(troubles)}; {do}")


def load(folder: Path) -> Saved:
    """Return (step, tensors, progress) of the checkpoint `step-N`, every byte verified."""
    from electra.storage.tensors import read_tensors

    step = int(folder.name.removeprefix("step-"))
    with read_errors(folder):
        names = verify_manifest(folder, step=step)["files"]
        files = [folder / name for name in names if name.endswith(".safetensors")]
        groups = {file.stem: read_tensors(file, "") for file in files}
        return step, groups, _read_progress(folder)


def set_aside(run: Path, step: int, what: str, why: str) -> None:
    """Rename a checkpoint that cannot be used here."""
    kept = unused_path(run / f"{what}-step-{step}")
    rename(run / f"step-{step}", kept)
    print(f"checkpoint set aside as {kept}: {why}", file=sys.stderr, flush=True)
