"""What a checkpoint holds of a run, to disk and back: weights, optimizer, running sums, and the curve so far.

The main process reads and writes, so a checkpoint does not depend on the number of processes. From a GPU one is copied
and written by another thread while training goes on; an error there is raised at the next save, or by `written`. The
host's copies stay allocated from save to save: pinned memory takes long to get, and freeing it in that thread would
disturb a recording.
"""

import copy
import json
import shutil
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import torch
from torch import Tensor

from electra.errors import CorruptFile, NonFinite, OutOfRoom
from electra.files import room, write_atomic
from electra.optim.adamw import AdamW, state_tensors
from electra.pretraining.distributed import World
from electra.storage import checkpoint
from electra.storage.fingerprint import Fingerprint, describe, differences
from electra.storage.manifest import write_sealed
from electra.storage.run_dir import identity

Sums = dict[str, Tensor]


@dataclass
class State:
    """The parts of a run that change; `sums` are this process's own until they are pooled."""

    run: Path
    fingerprint: Fingerprint
    world: World
    names: dict[Tensor, str]  # parameters
    optimizer: AdamW
    sums: dict[str, Sums] = field(default_factory=lambda: {"log": {}, "eval": {}})
    history: list[dict[str, Any]] = field(default_factory=list)  # records with a `step`; no clock times in them
    background: bool = False  # whether checkpoints are written by another thread
    writer: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "checkpoint"))
    writing: Future[None] | None = None
    copies: checkpoint.Groups = field(default_factory=dict)  # on the host, what is being written

    def begin_history(self, records: Sequence[dict[str, Any]]) -> None:
        """Start from the records of a checkpoint; `metrics.jsonl` is a copy for whoever watches, and never read."""
        self.history = list(records)
        if self.world.main:
            write_atomic(self.run / "metrics.jsonl", "".join(map(_line, records)))

    def record(self, record: dict[str, Any]) -> None:
        """Add a record to the history and its copy."""
        self.history.append(record)
        path = self.run / "metrics.jsonl"
        if self.world.main:
            with room(path), path.open("a", encoding="utf-8") as file:
                file.write(_line(record))

    def require_room(self, keep: int) -> None:
        """Refuse at the start a disk without room for the checkpoints: one more than `keep` while one is written."""
        if not self.world.main:
            return
        one = sum(tensor.numel() * tensor.element_size() for tensor in self.names) * 3  # weights and two moments
        missing = keep + 1 - len(checkpoint.steps(self.run))
        free = shutil.disk_usage(self.run).free
        if missing > 0 and free < missing * one:
            expected, do = (
                f"{missing * one:,} for {missing} checkpoints",
                "free some space or put the project elsewhere",
            )
            raise OutOfRoom(self.run, f"has {free:,} bytes free", expected, do)

    def save(self, step: int, progress: dict[str, Any], keep: int) -> None:
        """Write checkpoint `step`."""
        for kind, sums in self.sums.items():  # from here the main process holds them all: as after a resume
            pooled = self.world.all_reduce_sum(sums)
            self.sums[kind] = {name: value if self.world.main else value * 0 for name, value in pooled.items()}
        if not self.world.main:
            return
        groups: checkpoint.Groups = {
            "model": {name: parameter.detach() for parameter, name in self.names.items()},
            "optimizer": state_tensors(self.optimizer, self.names),
            "running": {f"{kind}/{name}": value for kind, sums in self.sums.items() for name, value in sums.items()},
        }
        self.written()
        write = partial(checkpoint.save, self.run, step, keep=keep)
        progress = copy.deepcopy(progress) | {"fingerprint": self.fingerprint}  # the history keeps growing
        if self.background:
            self._copy(groups)
            self.writing = self.writer.submit(write, self.copies, progress)
        else:
            write(groups, progress)

    def written(self) -> None:
        """Wait until the last checkpoint lies on the disk, whole and read back."""
        if self.writing is not None:
            writing, self.writing = self.writing, None
            writing.result()

    def _copy(self, groups: checkpoint.Groups) -> None:
        """Copy all to the host, from a GPU into pinned memory: the host waits for it once."""
        for file, tensors in groups.items():
            places, self.copies[file] = self.copies.get(file, {}), {}
            for name, tensor in tensors.items():
                place = places.get(name)
                if place is None:
                    place = torch.empty_like(tensor, device="cpu", pin_memory=tensor.is_cuda)
                self.copies[file][name] = place.copy_(tensor, non_blocking=True)
        if self.world.device.type == "cuda":
            torch.cuda.synchronize(self.world.device)

    def check(self, groups: checkpoint.Groups, progress: checkpoint.Progress) -> None:
        """Raise CorruptFile for a checkpoint of another run."""
        if (theirs := identity(progress)) != self.fingerprint:
            changes = describe(differences(theirs or {}, self.fingerprint))
            raise CorruptFile(self.run, f"holds a checkpoint of another run ({changes})", "one of this run")
        self.check_shapes(groups)

    def check_shapes(self, groups: checkpoint.Groups) -> None:
        """Raise CorruptFile for a checkpoint whose tensors have other names or shapes than these networks'."""
        tensors = {"model": {name: parameter for parameter, name in self.names.items()}}
        tensors["optimizer"] = state_tensors(self.optimizer, self.names)
        for file, expected in tensors.items():
            saved = groups.get(file, {})
            for name in expected.keys() | saved.keys():
                theirs, ours = (tuple(of[name].shape) if name in of else None for of in (saved, expected))
                if theirs != ours:
                    raise CorruptFile(
                        self.run, f"holds a checkpoint with {name} of shape {theirs}", f"{ours}, as the settings say"
                    )

    def load(self) -> dict[str, Any] | None:
        """Load the newest good checkpoint and return its progress; None if there is none."""
        newest = checkpoint.load_newest(self.run, self.check) if self.world.main else None
        progress: dict[str, Any] | None = self.world.broadcast_object(newest and newest[2])
        if progress is None:
            return None
        groups: checkpoint.Groups = newest[1] if newest else {"model": {}, "optimizer": {}, "running": {}}
        for parameter, name in self.names.items():
            self.world.broadcast(parameter, groups["model"].get(name))
        for name, value in state_tensors(self.optimizer, self.names).items():
            self.world.broadcast(value, groups["optimizer"].get(name))
        for name, value in groups["running"].items():
            kind, _, key = name.partition("/")
            self.sums[kind][key] = value.to(self.world.device)
        return progress


def _line(record: dict[str, Any]) -> str:
    return json.dumps(record, sort_keys=True) + "\n"


def refuse_nonfinite(run: Path, record: dict[str, Any], *, write: bool) -> NoReturn:
    """Raise NonFinite for `record["step"]`; with `write`, leave a file from which the step can be replayed."""
    bundle = run / f"nonfinite-step-{record['step']}.json"
    if write:
        write_sealed(bundle, record | {"checkpoint": max(checkpoint.steps(run), default=0)})
    raise NonFinite(
        f"step {record['step']}",
        f"loss {record['loss']}, gradient norm {record['gradient_norm']}",
        "finite numbers",
        f"no update was made with them; {bundle} holds what replays the step from the last checkpoint; "
        "a lower pretrain.learning_rate usually helps",
    )
