"""The interface of a kind of task (texts, words, questions about a context): one object each.

    rows      columns, row, check_row          what is asked -> checked rows
    arrays    encode                           rows -> Encoded
    network   network                          an encoder -> with a head, whose losses and outputs the loop reads
    outputs   judge, answers                   outputs -> scores and files of predictions; or what `predict` prints
    files     export, restore, score           Hugging Face folders, and predictions as they are handed in

`kind_of` (reading.py) is the one place that decides between them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol

from electra.card import Use
from electra.data.tokenizer import Tokenizer
from electra.errors import BadConfig, BadInput, shown
from electra.files import encodes
from electra.finetuning.batches import Examples
from electra.finetuning.checkpoint_head import Exported, Stored
from electra.finetuning.heads import Network, OutputArrays
from electra.finetuning.tasks import FinetuneConfig, Task
from electra.nn.config import AnyEncoderConfig
from electra.nn.encoder import Encoder

Row = dict[str, Any]
RowSequence = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Encoded:
    """Rows and their arrays, which may have more of them: pairs turned round, windows."""

    rows: list[Row]
    examples: Examples

    def first(self, count: int) -> "Encoded":
        """The first rows alone."""
        return Encoded(self.rows[:count], self.examples.first(count))


@dataclass(frozen=True)
class SplitResult:
    """What the outputs for a split come to."""

    files: dict[str, Any]  # content by what follows the split's name: `.jsonl`
    scores: dict[str, float]  # every metric, in points; none for rows without labels
    fault: str | None  # what shows that nothing was learned, in words
    finite: bool = True  # whether the outputs all were
    ensemble: dict[str, Any] = field(default_factory=dict)  # files that seeds which answer together need


class TaskKind(Protocol):
    """A kind of task. `values` in these methods are the texts of a row by the names of their columns."""

    architecture: ClassVar[str]  # the class of transformers that does the same
    example: ClassVar[str] = "rows"  # what it is trained on, for a sentence
    label: ClassVar[str] = "label"  # key of what a row is scored against
    scores_training: ClassVar[bool] = True  # whether training rows are scored, too, to see if they were learned at all

    def columns(self, task: Task, official: Sequence[str]) -> tuple[tuple[str, ...], ...]:
        """Names for the columns of a row's texts, the task's own first; `official`: those of its usual files."""

    def fields(self, row: str | Sequence[Any]) -> list[Any]:
        """A row that names no columns, as one value for each."""
        return [row] if isinstance(row, str) else list(row)

    def row(self, values: Mapping[str, Any], task: Task, where: str) -> Row:
        """A row without id and label; raises BadInput for one that cannot be answered."""

    def show(self, row: Mapping[str, Any]) -> tuple[list[Any], Any]:
        """The values of a labelled row, and what is the right answer."""

    def check_row(self, row: Row, task: Task, where: str, *, labelled: bool) -> None:
        """Raise BadInput for what is wrong with a row of a split."""

    def check_config(self, task: Task, config: FinetuneConfig, encoder: AnyEncoderConfig, keep: str) -> None:
        """Raise BadConfig for settings that do not fit the task and the encoder."""
        if config.length > encoder.positions:
            expected = f"at most the model's positions ({encoder.positions})"
            raise BadConfig(f"finetune of {task.name}", f"has length {config.length}", expected)

    def encode(self, rows: list[Row], task: Task, tokenizer: Tokenizer, config: FinetuneConfig) -> Encoded:
        """Checked rows to arrays; what has no label gets a target that is not read."""

    def network(self, encoder: Encoder, task: Task, config: FinetuneConfig) -> Network:
        """The encoder with a new head, drawn from torch's global generator."""

    def judge(
        self, outputs: OutputArrays, encoded: Encoded, task: Task, config: FinetuneConfig, *, labelled: bool
    ) -> SplitResult:
        """Predictions of a split, and their scores if its rows have labels."""

    def answers(self, outputs: OutputArrays, encoded: Encoded, task: Task, config: FinetuneConfig) -> Iterator[Row]:
        """What is said of each row, as electra/inference.py lists it."""

    def score(self, rows: RowSequence, answers: Mapping[str, Any], task: Task, where: Path) -> dict[str, float]:
        """Every metric of predictions by id, one for each labelled row; raises BadInput for one that is none."""

    def export(self, network: Any, task: Task, config: FinetuneConfig) -> Exported:
        """The head as files have it."""

    def restore(self, stored: Stored, task: Task) -> tuple[Network, FinetuneConfig]:
        """The network with the head that a folder holds, and how rows are laid out for it."""

    def task_of(self, stored: Stored) -> Task:
        """The task of a folder that others have fine-tuned."""

    def use(self, task: Task) -> Use:
        """Which lines of Python a model card shows."""


def require_texts(values: Mapping[str, Any], where: str) -> list[str]:
    """The values, if all are text that is not blank."""
    for column, text in values.items():
        if not isinstance(text, str) or not text.strip() or not encodes(text):
            raise BadInput(where, f"has {column} {shown(text)}", "text")
    return list(values.values())
