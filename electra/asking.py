"""What a fine-tuned model is asked: a record, by the names of its columns, becomes a row without a label."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from electra.errors import BadInput, shown
from electra.files import encodes
from electra.finetuning.task_kind import Row
from electra.finetuning.task_registry import kind_of
from electra.finetuning.tasks import Task


@dataclass(frozen=True)
class Asked:
    """What a model reads: its task, and names for the columns of its texts, its own first."""

    names: tuple[tuple[str, ...], ...]
    task: Task

    @property
    def expected(self) -> str:
        """The columns, for a sentence."""
        return "the columns " + " or ".join(", ".join(choice) for choice in dict.fromkeys(self.names))


def of(task: Task, official: Sequence[str] = ()) -> Asked:
    """What the texts of a row may be called: as the task says, else as its `official` files do; `a` and `b` always."""
    return Asked(kind_of(task).columns(task, official), task)


def as_row(asked: Asked, record: Mapping[str, Any], number: str, where: str) -> Row:
    """A record as a row without a label; raises BadInput for one that cannot be answered."""
    chosen = next((choice for choice in reversed(asked.names) if set(choice) <= set(record)), None)
    if chosen is None:
        raise BadInput(where, f"has {', '.join(map(str, record))[:80] or 'nothing'}", asked.expected)
    identity = record.get(asked.task.id, record.get("id", number))
    if not isinstance(identity, str | int) or isinstance(identity, bool) or not encodes(str(identity)):
        raise BadInput(where, f"has the id {shown(identity)}", "text or a whole number")
    values = {column: record[column] for column in chosen}
    return {"id": str(identity), **kind_of(asked.task).row(values, asked.task, where)}
