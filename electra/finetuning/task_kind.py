"""The base class of the kinds of tasks (texts, words, questions about a context), each bound to its
task.

    rows      column_names, split_fields, parse_row, display, check_row   records -> checked rows
    arrays    encode                       rows -> Encoded
    network   network                      an encoder -> an encoder with a head
    outputs   score_split, answers         outputs -> scores and files; or records for `predict`
    files     export, restore, score       Hugging Face folders, and predictions as handed in

`kind_of` (reading.py) is the one place that decides between them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from torch import nn

from electra.errors import BadConfig, BadInput, short_repr
from electra.files import encodes
from electra.finetuning.batches import Examples
from electra.finetuning.tasks import FinetuneConfig, Task
from electra.nn.config import EncoderConfig
from electra.nn.encoder import Encoder
from electra.nn.huggingface import CONFIG, ModelFolder
from electra.storage.tensors import Tensors, load_exactly, read_tensors

FOLDER_ADVICE = "give the folder of a fine-tuned model, as it was written"
Row = dict[str, Any]


@dataclass(frozen=True)
class Encoded:
    """Rows and their arrays, which may have more of them: pairs in both orders, windows."""

    rows: list[Row]
    examples: Examples


@dataclass(frozen=True)
class SplitResult:
    """Predictions and scores of a split."""

    files: dict[str, Any]  # content by suffix, behind the split's name: `.jsonl`
    scores: dict[str, float]  # every metric, in points; none for rows without labels
    fault: str | None  # the sign that nothing was learned, in words
    finite: bool = True  # whether all outputs were
    ensemble: dict[str, Any] = field(default_factory=dict)  # files that an ensemble of seeds needs


@dataclass(frozen=True)
class Exported:
    """A head: `architecture` is the class of transformers that loads the folder whole."""

    architecture: str
    task_json: dict[str, Any]  # of task.json: facts that config.json has no key for
    labels: tuple[str, ...] = ()  # names of the outputs
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
        """The path of the folder."""
        return self.folder.path

    @property
    def heads(self) -> Tensors:
        """The tensors of model.safetensors besides the encoder's."""
        return self.folder.head_tensors

    def extra_file(self, name: str) -> Tensors:
        """Return the tensors of another file of the folder."""
        return read_tensors(self.path / name, FOLDER_ADVICE)

    def labels(self) -> tuple[str, ...]:
        """Return the names of the outputs."""
        names = self.folder.config_json.get("id2label") or {"0": "LABEL_0", "1": "LABEL_1"}
        keys = [str(number) for number in range(len(names) if isinstance(names, dict) else 0)]
        known = keys and set(names) == set(keys)
        if not known or len(set(map(str, names.values()))) < len(keys):
            raise BadInput(
                f"{self.path / CONFIG}: id2label is {short_repr(names)}; it should have another "
                "label for each number from 0"
            )
        return tuple(str(names[key]) for key in keys)

    def load_exactly(self, head: nn.Module, heads: Tensors) -> None:
        """Load a head from these tensors, which must be exactly its own."""
        load_exactly(head, heads, self.path, FOLDER_ADVICE)


class TaskKind:
    """Base of all kinds of tasks. Each kind also has these methods:

    | method | what it does |
    |---|---|
    | `column_names(official)` | returns names for the columns of a row's texts, the task's own first; `official`: those of its usual files |
    | `parse_row(values, where)` | returns texts by the names of their columns as a row without id and label, or raises BadInput |
    | `display(row)` | returns the values of a labelled row, and the right answer |
    | `check_row(row, where, labelled)` | raises BadInput if a row of a split is malformed |
    | `encode(rows, tokenizer, config)` | returns checked rows as arrays; rows without a label get a target that is not read |
    | `network(encoder, config)` | returns the encoder with a new head, drawn from torch's global generator |
    | `score_split(outputs, encoded, config, labelled)` | returns predictions of a split, and scores if its rows have labels |
    | `answers(outputs, encoded, config)` | yields the answer to each row, as electra/inference.py lists it |
    | `score(rows, answers, where)` | returns every metric of predictions by id, one for each labelled row, or raises BadInput |
    | `export(network, config)` | returns the head as files have it |
    | `restore(stored)` | returns the network with a folder's head, and how rows are laid out for it |
    | `task_of(stored)` | returns the task of a folder that was fine-tuned elsewhere |
    | `card_example()` | returns which lines of Python a model card shows |
    """  # noqa: E501

    example: ClassVar[str] = "rows"  # name of its training examples, in messages
    label: ClassVar[str] = "label"  # key of a row's right answer
    # whether training rows are scored as well, to see if they were learned at all
    scores_training: ClassVar[bool] = True

    def __init__(self, task: Task) -> None:
        self.task = task

    def split_fields(self, row: str | Sequence[Any]) -> list[Any]:
        """Return a row that names no columns as one value for each."""
        return [row] if isinstance(row, str) else list(row)

    def check_config(self, config: FinetuneConfig, encoder: EncoderConfig, keep: str) -> None:
        """Raise BadConfig for settings that do not fit the task and the encoder."""
        if config.length > encoder.positions:
            raise BadConfig(
                f"finetune of {self.task.name}: has length {config.length}; expected at most the "
                f"model's positions ({encoder.positions})"
            )


def require_texts(values: Mapping[str, Any], where: str) -> list[str]:
    """Return the values. Raise BadInput unless all are text that is not blank."""
    for column, text in values.items():
        if not isinstance(text, str) or not text.strip() or not encodes(text):
            raise BadInput(f"{where}: {column} is {short_repr(text)}; it should be text")
    return list(values.values())
