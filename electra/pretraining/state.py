"""Save and load the state of a run: weights, optimizer, running sums, and the curve so far.

The main process reads and writes, so a checkpoint does not depend on the number of processes.
"""

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.optim import AdamW

from electra.errors import OutOfRoom
from electra.files import well_formed, write_atomic, write_errors
from electra.pretraining.distributed import World
from electra.storage import checkpoint
from electra.storage.fingerprint import Fingerprint
from electra.storage.tensors import require_fit


@dataclass
class State:
    """The parts of a run that change; `sums` are this process's own until they are pooled."""

    run: Path
    fingerprint: Fingerprint
    world: World
    names: dict[Tensor, str]  # parameters
    optimizer: AdamW
    sums: dict[str, dict[str, Tensor]] = field(default_factory=lambda: {"log": {}, "eval": {}})
    # records with a `step`; no clock times in them
    history: list[dict[str, Any]] = field(default_factory=list)

    def begin_history(self, records: Sequence[dict[str, Any]]) -> None:
        """Start from the records of a checkpoint. `metrics.jsonl` is a copy for people who watch
        the run. The program never reads it.
        """
        self.history = list(records)
        if self.world.main:
            write_atomic(self.run / "metrics.jsonl", "".join(map(_line, records)))

    def record(self, record: dict[str, Any]) -> None:
        """Add a record to the history and its copy."""
        self.history.append(record)
        path = self.run / "metrics.jsonl"
        if self.world.main:
            with write_errors(path), path.open("a", encoding="utf-8") as file:
                file.write(_line(record))

    def require_room(self, keep: int) -> None:
        """Refuse at the start a disk without room for the checkpoints: one more than `keep` while
        one is written.
        """
        if not self.world.main:
            return
        # weights and two moments
        size = sum(tensor.numel() * tensor.element_size() for tensor in self.names) * 3
        missing = keep + 1 - len(checkpoint.steps(self.run))
        free = shutil.disk_usage(self.run).free
        if free < missing * size:
            raise OutOfRoom(
                f"{self.run}: has {free:,} bytes free, and {missing} checkpoints take "
                f"{missing * size:,}: free some space, or move the project"
            )

    def save(self, step: int, progress: dict[str, Any], keep: int) -> None:
        """Write checkpoint `step`."""
        running: dict[str, Tensor] = {}
        for kind, sums in self.sums.items():
            pooled = self.world.all_reduce_sum(sums)
            running |= {f"{kind}/{name}": value for name, value in pooled.items()}
            # from here the main process holds them all, as after a resume
            self.sums[kind] = {
                name: value if self.world.main else value * 0 for name, value in pooled.items()
            }
        if self.world.main:
            groups = {**self._tensors(), "running": running}
            progress = progress | {"fingerprint": self.fingerprint}
            checkpoint.save(self.run, step, groups, progress, keep=keep)

    def require_fit(self, groups: checkpoint.Groups) -> None:
        """Raise BadInput for a checkpoint with tensors of other names or shapes than these
        networks'.
        """
        with well_formed(self.run):
            names = [name for name in groups["running"] if name.partition("/")[0] in self.sums]
            running = {name: torch.zeros(()) for name in names}
            for file, tensors in {**self._tensors(), "running": running}.items():
                require_fit(tensors, groups[file], self.run, "change the settings back")

    def load(self) -> dict[str, Any] | None:
        """Load the newest good checkpoint and return its progress; None if there is none."""
        newest = None
        if self.world.main:
            newest = checkpoint.load_newest(self.run, self.require_fit)
        progress: dict[str, Any] | None = self.world.broadcast_object(newest and newest[2])
        if progress is None:
            return None
        groups: checkpoint.Groups = newest[1] if newest else {"running": {}}
        for file, tensors in self._tensors().items():
            for name, tensor in tensors.items():
                self.world.broadcast(tensor, groups[file][name] if newest else None)
        for name, value in groups["running"].items():
            kind, _, key = name.partition("/")
            self.sums[kind][key] = value.to(self.world.device)
        return progress

    def _tensors(self) -> checkpoint.Groups:
        """Return weights and the optimizer's state by name, in their own memory."""
        weights = {name: parameter.detach() for parameter, name in self.names.items()}
        moments: dict[str, Tensor] = {}
        for parameter, state in self.optimizer.state.items():
            moments |= {f"{key}.{self.names[parameter]}": value for key, value in state.items()}
        return {"model": weights, "optimizer": moments}


def _line(record: dict[str, Any]) -> str:
    return json.dumps(record, sort_keys=True) + "\n"
