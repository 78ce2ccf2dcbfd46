"""What a fine-tuned model is asked: a record, by the names of its columns, becomes a row without a label."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from electra.errors import BadInput, shown
from electra.files import encodes
from electra.finetuning import spans
from electra.finetuning.tasks import Task

Row = dict[str, Any]


@dataclass(frozen=True)
class Asked:
    """What a model reads: names for the columns of its texts, its own first; `task` is None for questions about a context."""

    names: tuple[tuple[str, ...], ...]
    task: Task | None = None

    @property
    def id(self) -> str:
        """The column of the id."""
        return self.task.id if self.task else "id"

    @property
    def expected(self) -> str:
        """The columns, for a sentence."""
        return "the columns " + " or ".join(", ".join(choice) for choice in dict.fromkeys(self.names))


def of(task: Task | None, official: Sequence[str] = ()) -> Asked:
    """What the texts of a row may be called: as the task says, else as its `official` files do; `a` and `b` always."""
    if task is None:
        return Asked((("question", "context"),))
    if task.tagging:
        return Asked((task.columns or ("words",), ("words",)), task)
    columns = task.columns or tuple(official)
    short = ("a", "b")[: len(columns) or 1]
    return Asked((columns or ("a",), short, *([] if columns else [("a", "b")])), task)


def as_row(asked: Asked, record: Mapping[str, Any], number: str, where: str) -> Row:
    """A record as a row without a label; raises BadInput for one that cannot be answered."""
    chosen = next((choice for choice in reversed(asked.names) if set(choice) <= set(record)), None)
    if chosen is None:
        raise BadInput(where, f"has {', '.join(map(str, record))[:80] or 'nothing'}", asked.expected)
    identity = record.get(asked.id, record.get("id", number))
    if not isinstance(identity, str | int) or isinstance(identity, bool) or not encodes(str(identity)):
        raise BadInput(where, f"has the id {shown(identity)}", "text or a whole number")
    texts = [record[column] for column in chosen]
    if asked.task is not None and asked.task.tagging:
        words = texts[0].split() if isinstance(texts[0], str) else texts[0]
        row: Row = {"id": str(identity), "words": words, "tags": None}
        spans.check_row(row, asked.task, where, labelled=False)
        if not encodes("".join(words)):
            raise BadInput(where, f"has {chosen[0]} {shown(words)}", "text")
        return row
    for column, text in zip(chosen, texts, strict=True):
        if not isinstance(text, str) or not text.strip() or not encodes(text):
            raise BadInput(where, f"has {column} {shown(text)}", "text")
    if asked.task is None:
        return {"id": str(identity), "question": texts[0], "context": texts[1], "answers": [], "impossible": True}
    second = texts[1].strip() if len(texts) > 1 else None
    return {"id": str(identity), "a": texts[0].strip(), "b": second, "label": None}
