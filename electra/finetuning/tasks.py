"""The nine GLUE tasks, SQuAD and own tasks as facts (labels, metrics, splits), and the settings of
fine-tuning.

Defaults are the published ones of the Base model (paper, Table 7).
"""

import dataclasses
import itertools
from dataclasses import field
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field
from pydantic.dataclasses import dataclass

from electra.config import (
    BelowOne,
    Count,
    Fraction,
    Positive,
    Probability,
    Rate,
    Seed,
    Settings,
    Weight,
    build,
    require,
    require_unique,
)
from electra.files import read_json

ArmName = Literal["pretrained", "scratch"]
Length = Annotated[int, Field(ge=8, le=2**20)]  # tokens of a row
Vector = Literal["cls", "mean", "max"]
Pooling = Literal[Vector, "pair", "align"]
Layers = Literal["last", "all"]


@dataclass(frozen=True, kw_only=True)
class Task(Settings):
    """One task: a class or a number for a sentence or a pair of sentences, or a tag for each word
    of a sentence.
    """

    name: str
    title: str
    # class names in the order of the logits (tagging: types of spans); empty for regression
    labels: tuple[str, ...]
    # names in electra.finetuning.metrics; the first is the one that counts
    metrics: tuple[str, ...]
    # of the complete official train split: fewer rows are a subset and are called so; 0: no
    # official one
    train_rows: int = 0
    evaluation: tuple[str, ...] = ("dev",)
    scale: float = 1.0  # regression: the model is trained on label / scale
    tagging: bool = False
    columns: tuple[str, ...] = ()  # names of the first and the second text in a file of rows
    label: str = "label"  # and its label
    id: str = "id"

    @property
    def regression(self) -> bool:
        """Whether the label is a number."""
        return not self.labels

    @property
    def classes(self) -> tuple[str, ...]:
        """The class of each logit. Tagging has BIOES tags of every type."""
        if not self.tagging:
            return self.labels
        tags = [f"{edge}-{label}" for label, edge in itertools.product(self.labels, "BIES")]
        return ("O", *tags)


_BINARY = ("0", "1")
_ENTAILMENT = ("entailment", "not_entailment")
_THREE = ("contradiction", "entailment", "neutral")


def _glue(
    title: str, train_rows: int, labels: tuple[str, ...], metrics: tuple[str, ...], **more: Any
) -> Task:
    name = title.lower().replace("-", "")
    return Task(
        name=name, title=title, train_rows=train_rows, labels=labels, metrics=metrics, **more
    )


_TASKS = [
    _glue("CoLA", 8_551, _BINARY, ("matthews", "accuracy")),
    _glue("SST-2", 67_349, _BINARY, ("accuracy",)),
    _glue("MRPC", 3_668, _BINARY, ("accuracy", "f1")),
    _glue("STS-B", 5_749, (), ("spearman", "pearson"), scale=5.0),
    _glue("QQP", 363_846, _BINARY, ("accuracy", "f1")),
    _glue("MNLI", 392_702, _THREE, ("accuracy",), evaluation=("dev", "dev_mismatched")),
    _glue("QNLI", 104_743, _ENTAILMENT, ("accuracy",)),
    _glue("RTE", 2_490, _ENTAILMENT, ("accuracy",)),
    _glue("WNLI", 635, _BINARY, ("accuracy",)),
]
GLUE: dict[str, Task] = {task.name: task for task in _TASKS}

DIAGNOSTIC: dict[str, tuple[str, ...]] = {"mnli": ("test_diagnostic",)}
"""Splits that a task's model predicts besides its own test sets: GLUE's diagnostic set (AX)."""

PAPER_AVERAGE = tuple(name for name in GLUE if name != "wnli")
"""The paper's GLUE average: the plain mean of these eight, each by its first metric, MNLI matched.
"""


@dataclass(frozen=True, kw_only=True)
class SquadTask(Task):
    """Questions about a context, by the rules of one version of SQuAD."""

    title: str = "SQuAD"
    labels: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ("f1", "exact")
    version: Literal["1.1", "2.0"]


@dataclass(frozen=True, kw_only=True)
class PublishedTags(Task):
    """Tags of words as a model from elsewhere has them: its own names of the logits, in any of the
    schemes IOB1, IOB2 and BIOES.
    """

    tags: tuple[str, ...]

    @property
    def classes(self) -> tuple[str, ...]:
        """The class of each logit."""
        return self.tags


SQUAD: dict[str, str] = {"1.1": "squad1", "2.0": "squad2"}
"""Version -> name of its task folder."""

SQUAD_1 = SquadTask(name="squad1", version="1.1")
SQUAD_2 = SquadTask(name="squad2", version="2.0")
TASKS: dict[str, Task] = {**GLUE, "squad1": SQUAD_1, "squad2": SQUAD_2}

FACTS = "task.json"
"""The description of a custom task, next to its rows."""


def find(rows: Path, name: str) -> Task:
    """Return a task by its name: GLUE's, SQuAD, or as `task.json` next to its rows says."""
    return TASKS[name] if name in TASKS else build(Task, read_json(rows / FACTS), str(rows / FACTS))


@dataclass(frozen=True, kw_only=True)
class ScratchConfig(Settings):
    """Settings that differ for fresh weights, so that both arms are tuned fairly. The budget stays
    the same.
    """

    learning_rate: Rate | None = None
    layer_decay: Rate | None = None
    warmup: Probability | None = None
    weight_decay: Probability | None = None
    dropout: BelowOne | None = None
    head_dropout: BelowOne | None = None


@dataclass(frozen=True, kw_only=True)
class FinetuneConfig(Settings):
    """One task's fine-tuning. Defaults: the paper's, for Base."""

    learning_rate: Rate = 1e-4
    layer_decay: Rate = 0.8
    # published: the top layer has decay ** 2
    layer_decay_exponent: Literal["published", "plain"] = "published"
    epochs: Positive = 3.0
    warmup: Probability = 0.1  # fraction of the steps
    weight_decay: Probability = 0.0  # paper; the authors' repository has 0.01
    batch: Count = 32
    length: Length = 128
    # Transformer layers of new weights between the encoder and the head
    new_layers: Literal[0, 1, 2] = 0
    pooling: Pooling = "cls"  # input of a sentence task's head: see heads.py, `pooled`
    # of the last layer, or of the embeddings and all layers end to end
    head_layers: Layers = "last"
    dropout: BelowOne = 0.1  # of the encoder: of hidden states and of attention
    head_dropout: BelowOne = 0.1
    max_grad_norm: Positive = 1.0  # of the batch's summed loss, so it nearly always clips
    beta1: BelowOne = 0.9
    beta2: BelowOne = 0.999
    eps: Fraction = 1e-6  # outside the square root
    bias_correction: bool = False
    # auto: bf16 on GPUs that have it, otherwise fp32
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    both_orders: bool = False  # train on (a, b) and on (b, a)
    # start from the encoder fine-tuned on this task with the same seed: mnli for RTE, STS-B, MRPC
    init_from_task: str | None = None
    max_train_rows: Count | None = None
    predict_test: bool = False  # predict the test sets as well
    ensemble: bool = False  # and let the seeds of each arm answer together
    # seeds of the pre-trained arm whose model is kept, ready for use
    keep_models: Literal["none", "first", "all"] = "first"
    # at most: far above all use, and each layer of each task is checked with them
    seeds: Annotated[tuple[Seed, ...], Field(max_length=1_000)] = (1, 2, 3)
    arms: tuple[ArmName, ...] = ("pretrained", "scratch")
    scratch: ScratchConfig = field(default_factory=ScratchConfig)

    def __post_init__(self) -> None:
        for key in ("seeds", "arms"):
            require_unique(getattr(self, key), key)

    def for_arm(self, arm: str) -> "FinetuneConfig":
        """Return the settings of an arm, with the changes in `scratch` for the one with fresh
        weights. Settings that don't affect the result of a single run (which arms, which seeds) get
        their defaults, so that two runs with equal results have equal configs.
        """
        changes = {
            key: value
            for key, value in vars(self.scratch).items()
            if arm == "scratch" and value is not None
        }
        usual = {
            key: getattr(FinetuneConfig(), key)
            for key in ("scratch", "seeds", "arms", "ensemble", "keep_models")
        }
        return dataclasses.replace(self, **changes, **usual)

    def layout(self, *, train: bool) -> Self:
        """Return only the settings that affect the arrays of a split, and defaults for the
        others.
        """
        keys = (
            "length",
            "stride",
            "question_length",
            *(("both_orders", "max_train_rows") if train else ()),
        )
        return type(self)(**{key: getattr(self, key) for key in keys if hasattr(self, key)})


@dataclass(frozen=True, kw_only=True)
class SquadConfig(FinetuneConfig):
    """SQuAD's fine-tuning: the same training, and its windows, head and answers."""

    versions: tuple[Literal["1.1", "2.0"], ...] = ("2.0",)
    epochs: Positive = 2.0
    length: Length = 512
    stride: Count = 128  # tokens from the start of one window to the start of the next
    question_length: Count = 64  # word pieces; longer questions are cut
    # XLNet's: the end sees the start; or BERT's
    head: Literal["conditional", "independent"] = "conditional"
    beam: Annotated[int, Field(ge=1, le=200)] = 20  # starts tried, and ends tried for each
    answer_length: Count = 30  # word pieces
    n_best: Count = 20
    answerability: bool = True
    answerability_weight: Weight = 0.5
    # a question whose null score is above it is left unanswered
    null_threshold: Annotated[float, Field(ge=-1e9, le=1e9)] = -2.75

    def __post_init__(self) -> None:
        super().__post_init__()
        require_unique(self.versions, "versions")

    def check_merged(self, where: str) -> None:
        """Raise BadConfig for windows that hold no text or skip some, and for settings of sentence
        tasks.

        It is called once all layers are merged.
        """
        for key, kept in (("pooling", "cls"), ("head_layers", "last")):
            value = getattr(self, key)
            fits = f"should be {kept}, since an answer is looked for among all tokens"
            require(value == kept, f"{where}.{key}: is {value}, {fits}; set squad.{key}: {kept}")
        room = self.length - self.question_length - 3  # [CLS] question [SEP] text [SEP]
        require(self.stride <= room, f"{where}.stride: is {self.stride}, should be at most {room}")
