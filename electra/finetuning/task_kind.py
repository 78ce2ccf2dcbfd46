"""The base class of the kinds of tasks (texts, words, questions about a context), each bound to its
task.

    rows      column_names, split_fields, parse_row, display, check_row   records -> checked rows
    arrays    encode                       rows -> Encoded
    network   network                      an encoder -> an encoder with a head
    outputs   score_split, answers         outputs -> scores and files; or what `predict` prints
    files     export, restore, score       Hugging Face folders, and predictions as handed in

`kind_of` (reading.py) is the one place that decides between them.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from torch import nn

from electra.card import Use
from electra.data.tokenizer import Tokenizer
from electra.errors import BadConfig, BadInput, shown
from electra.files import encodes
from electra.finetuning.batches import Examples
from electra.finetuning.heads import Network, OutputArrays
from electra.finetuning.tasks import FinetuneConfig, Task
from electra.nn.config import EncoderConfig
from electra.nn.encoder import Encoder
from electra.nn.huggingface import CONFIG, ModelFolder
from electra.storage.tensors import Tensors, fill, read_tensors

DO = "give the folder of a fine-tuned model, as it was written"
Row = dict[str, Any]


@dataclass(frozen=True)
class Encoded:
    """Rows and their arrays, which may have more of them: pairs in both orders, windows."""

    rows: list[Row]
    examples: Examples


@dataclass(frozen=True)
class SplitResult:
    """Predictions and scores of a split."""

    files: dict[str, Any]  # content by what follows the split's name: `.jsonl`
    scores: dict[str, float]  # every metric, in points; none for rows without labels
    fault: str | None  # what shows that nothing was learned, in words
    finite: bool = True  # whether all outputs were
    ensemble: dict[str, Any] = field(default_factory=dict)  # files that an ensemble of seeds needs


@dataclass(frozen=True)
class Exported:
    """A head: `architecture` is the class of transformers that loads the folder whole."""

    architecture: str
    task_json: dict[str, Any]  # of task.json: what config.json has no place for
    labels: tuple[str, ...] = ()  # what each output stands for
    config: dict[str, Any] = field(default_factory=dict)  # more of config.json
    # of model.safetensors, added to the encoder's or in their place
    tensors: Tensors = field(default_factory=dict)
    # more files, for heads that transformers does not have
    extra_files: dict[str, Tensors] = field(default_factory=dict)


@dataclass(frozen=True)
class Stored:
    """The contents of a fine-tuned folder: its encoder, and everything about its head."""

    folder: ModelFolder
    encoder: Encoder
    length: int
    task_json: dict[str, Any]  # task.json; nothing in a folder that others have fine-tuned

    @property
    def path(self) -> Path:
        """Where the folder is."""
        return self.folder.path

    @property
    def heads(self) -> Tensors:
        """What model.safetensors holds besides the encoder."""
        return self.folder.head_tensors

    def extra_file(self, name: str) -> Tensors:
        """Return the tensors of another file of the folder."""
        return read_tensors(self.path / name, DO)

    def labels(self) -> tuple[str, ...]:
        """Return what each output stands for."""
        names = self.folder.config_json.get("id2label") or {"0": "LABEL_0", "1": "LABEL_1"}
        keys = [str(number) for number in range(len(names) if isinstance(names, dict) else 0)]
        if not keys or set(names) != set(keys):
            raise BadInput(
                f"{self.path / CONFIG}: id2label is {shown(names)}; it should have a label for "
                "each number from 0"
            )
        return tuple(str(names[key]) for key in keys)

    def fill(self, head: nn.Module, heads: Tensors) -> None:
        """Fill a head from the tensors of its names, which must be all that there are."""
        missing = [name for name in head.state_dict() if name not in heads]
        if missing:
            raise BadInput(
                f"{self.path}: has no {missing[0]}, so it is not a fine-tuned model; {DO}"
            )
        fill(head, heads, self.path, DO)


class TaskKind(ABC):
    """A kind of task. `values` in these methods are the texts of a row by the names of their
    columns.
    """

    task: Task
    architecture: ClassVar[str]  # the class of transformers with the same head
    example: ClassVar[str] = "rows"  # what it is trained on, for a sentence
    label: ClassVar[str] = "label"  # key of what a row is scored against
    # whether training rows are scored as well, to see if they were learned at all
    scores_training: ClassVar[bool] = True

    def __init__(self, task: Task) -> None:
        self.task = task

    @abstractmethod
    def column_names(self, official: Sequence[str]) -> tuple[tuple[str, ...], ...]:
        """Return names for the columns of a row's texts, the task's own first. `official`: those of
        its usual files.
        """

    def split_fields(self, row: str | Sequence[Any]) -> list[Any]:
        """Return a row that names no columns as one value for each."""
        return [row] if isinstance(row, str) else list(row)

    @abstractmethod
    def parse_row(self, values: Mapping[str, Any], where: str) -> Row:
        """Return a row without id and label. Raise BadInput for one that cannot be answered."""

    @abstractmethod
    def display(self, row: Mapping[str, Any]) -> tuple[list[Any], Any]:
        """Return the values of a labelled row, and the right answer."""

    @abstractmethod
    def check_row(self, row: Row, where: str, *, labelled: bool) -> None:
        """Raise BadInput if a row of a split is malformed."""

    def check_config(self, config: FinetuneConfig, encoder: EncoderConfig, keep: str) -> None:
        """Raise BadConfig for settings that do not fit the task and the encoder."""
        if config.length > encoder.positions:
            raise BadConfig(
                f"finetune of {self.task.name}: has length {config.length}; expected at most the "
                f"model's positions ({encoder.positions})"
            )

    @abstractmethod
    def encode(self, rows: list[Row], tokenizer: Tokenizer, config: FinetuneConfig) -> Encoded:
        """Convert checked rows to arrays. What has no label gets a target that is not read."""

    @abstractmethod
    def network(self, encoder: Encoder, config: FinetuneConfig) -> Network:
        """Return the encoder with a new head, drawn from torch's global generator."""

    @abstractmethod
    def score_split(
        self, outputs: OutputArrays, encoded: Any, config: Any, *, labelled: bool
    ) -> SplitResult:
        """Return predictions of a split, and their scores if its rows have labels."""

    @abstractmethod
    def answers(self, outputs: OutputArrays, encoded: Any, config: Any) -> Iterator[Row]:
        """Yield the answer to each row, as electra/inference.py lists it."""

    @abstractmethod
    def score(
        self, rows: Sequence[Row], answers: Mapping[str, Any], where: Path
    ) -> dict[str, float]:
        """Return every metric of predictions by id, one for each labelled row. Raise BadInput for a
        malformed one.
        """

    @abstractmethod
    def export(self, network: Any, config: FinetuneConfig) -> Exported:
        """Return the head as files have it."""

    @abstractmethod
    def restore(self, stored: Stored) -> tuple[Network, FinetuneConfig]:
        """Return the network with a folder's head, and how rows are laid out for it."""

    @staticmethod
    @abstractmethod
    def task_of(stored: Stored) -> Task:
        """Return the task of a folder that was fine-tuned elsewhere."""

    @abstractmethod
    def card_example(self) -> Use:
        """Return which lines of Python a model card shows."""


def require_texts(values: Mapping[str, Any], where: str) -> list[str]:
    """Return the values. Raise BadInput unless all are text that is not blank."""
    for column, text in values.items():
        if not isinstance(text, str) or not text.strip() or not encodes(text):
            raise BadInput(f"{where}: {column} is {shown(text)}; it should be text")
    return list(values.values())
