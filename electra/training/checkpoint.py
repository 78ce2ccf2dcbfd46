"""Checkpoints: a folder `step-N` of safetensors files, `progress.json`, and a manifest of sha256 sums written last.

Written beside, fsynced, renamed. Loading verifies every byte before a tensor reaches a network and falls back to the
newest good one; a damaged folder is kept as `bad-step-N`, never deleted. Knows nothing of networks.
"""

import re
import sys
from pathlib import Path
from typing import Any

import torch

from electra.errors import CorruptFile, NonFinite, UserError
from electra.files import atomic_folder, read_json, remove, rename, write_json
from electra.manifest import verify_manifest, write_manifest
from electra.tensors import Tensors, read_tensors, write_tensors

Groups = dict[str, Tensors]  # file name -> tensor name -> tensor


def steps(run: Path) -> list[int]:
    """Steps that have a checkpoint folder under its final name, oldest first."""
    found = (re.fullmatch(r"step-(\d+)", path.name) for path in run.glob("step-*"))
    return sorted(int(match[1]) for match in found if match)


def save(run: Path, step: int, groups: Groups, progress: dict[str, Any], *, keep: int) -> None:
    """Save `step-N`, read it back, then prune to the newest `keep`. Non-finite tensors are refused."""
    for file, tensors in groups.items():
        for name, tensor in tensors.items():
            if not torch.isfinite(tensor).all():
                raise NonFinite(
                    f"step {step}",
                    f"{file}/{name} holds NaN or infinity",
                    "finite numbers",
                    "nothing was saved; see the last checkpoint",
                )
    folder = run / f"step-{step}"
    with atomic_folder(folder) as temporary:
        for file, tensors in groups.items():
            write_tensors(temporary / f"{file}.safetensors", tensors)
        write_json(temporary / "progress.json", progress)
        write_manifest(temporary, step=step)
    verify_manifest(folder)
    for old in steps(run)[:-keep]:
        remove(run / f"step-{old}")


def load_newest(run: Path) -> tuple[int, Groups, dict[str, Any]] | None:
    """(step, tensors, progress) of the newest good checkpoint; None if there is none at all.

    Raises CorruptFile, listing what is wrong with each, if there are checkpoints but no good one: work is never thrown
    away by starting from step 0 unasked.
    """
    for leftover in run.glob(".step-*.tmp-*"):
        remove(leftover)
    troubles = []
    for step in reversed(steps(run)):
        folder = run / f"step-{step}"
        try:
            manifest = verify_manifest(folder)
            if manifest.get("step") != step:
                raise CorruptFile(folder, f"is of step {manifest.get('step')}", f"step {step}")
            groups = {
                Path(name).stem: read_tensors(folder / name, "")
                for name in manifest["files"]
                if name.endswith(".safetensors")
            }
            return step, groups, read_json(folder / "progress.json")
        except UserError as error:
            troubles.append(str(error))
            bad = folder.with_name(f"bad-step-{step}")
            remove(bad)
            rename(folder, bad)
            print(f"damaged checkpoint set aside as {bad}: {error}", file=sys.stderr, flush=True)
    if troubles:
        raise CorruptFile(
            run,
            "no checkpoint is whole: " + " | ".join(troubles),
            "one good checkpoint",
            f"restore one, or delete {run} to start afresh",
        )
    if set_aside := ", ".join(sorted(path.name for path in run.glob("bad-step-*"))):
        raise CorruptFile(
            run,
            f"only damaged checkpoints are left ({set_aside})",
            "one good checkpoint",
            f"restore one, or delete {run} to start afresh",
        )
    return None
