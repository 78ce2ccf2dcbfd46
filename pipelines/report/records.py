"""What the report is drawn from: a model's results, and an ablation's arms, as plain records.

Nothing here reads a file (`load_results.py` does) or draws.
"""

import math
from dataclasses import dataclass, field
from typing import Any

from electra.finetuning.tasks import GLUE, SQUAD
from pipelines.report import paper
from pipelines.report.comparison import Difference, difference, mean

ARMS = {"pretrained": "pre-trained", "scratch": "from scratch"}
METRICS = {"accuracy": "accuracy", "f1": "F1", "exact": "exact match"}
METRICS |= {name: f"{name.title()} correlation" for name in ("matthews", "spearman", "pearson")}
TITLES = {task: of.title for task, of in GLUE.items()} | {
    task: f"SQuAD {version}" for version, task in SQUAD.items()
}


def chance_of(task: str) -> float:
    """What guessing scores on a task of GLUE: one class in so many, or no correlation."""
    return 100 / len(GLUE[task].labels) if GLUE[task].metrics[0] == "accuracy" else 0.0


# of what a task is compared with: a guess, and a network
NOT_SIMPLE = ("chance", "replaced_tokens")
Series = tuple[list[float], list[float]]  # steps, values


@dataclass(frozen=True)
class Measured:
    """The metric of a task that counts: a score (in points, 0 to 100) per seed for either arm, and
    the failed seeds.

    `others` holds every metric of the task, by name and arm; `ground` has chance, majority,
    bag_of_words and word_overlap (pipelines/stages/baselines.py), or SQuAD's never_answering as its
    chance.
    """

    name: str
    title: str
    metric: str
    scores: dict[str, tuple[float, ...]]
    failed: dict[str, tuple[str, ...]] = field(default_factory=dict)
    train_rows: int | None = None
    dev_rows: int | None = None
    others: dict[str, dict[str, tuple[float, ...]]] = field(default_factory=dict)
    ground: dict[str, float] = field(default_factory=dict)

    @property
    def metric_title(self) -> str:
        """The metric's name in prose."""
        return METRICS.get(self.metric, self.metric)

    @property
    def simple(self) -> tuple[float, str] | None:
        """The best score without a network, and what reached it."""
        found = [
            (score, name.replace("_", " "))
            for name, score in self.ground.items()
            if name not in NOT_SIMPLE
        ]
        return max(found, default=None)

    @property
    def difference(self) -> Difference | None:
        """Pre-trained minus from scratch; None if an arm has no score."""
        return difference(self.scores["pretrained"], self.scores["scratch"])

    @property
    def subset(self) -> bool:
        """Whether the task was trained on fewer rows than its official training split has."""
        return (
            self.name in GLUE
            and self.train_rows is not None
            and self.train_rows < GLUE[self.name].train_rows
        )

    def mean(self, arm: str) -> float | None:
        """The mean score of an arm over its seeds, or None without a score."""
        return mean(self.scores[arm])


@dataclass(frozen=True)
class ModelResults:
    """Everything known of one model."""

    name: str
    data: str  # "sample world", or the label of its task source
    sample: bool
    corpus: str
    tasks_source: str
    discriminator_weight: float
    pretrain: dict[str, Any]
    curve: dict[str, list[float]]  # column -> values; NaN where a row has none
    tasks: tuple[Measured, ...]
    average: Measured | None
    squad: tuple[Measured, ...]  # each version, by F1
    examples: list[dict[str, Any]]
    # task -> a score for each pre-training
    recorded: dict[str, tuple[float, ...]] = field(default_factory=dict)
    # the mean over the tasks after pre-training from the published initial values
    control: float | None = None

    @property
    def flops(self) -> float | None:
        """Pre-training FLOPs, by the authors' convention."""
        return number(self.pretrain, "flops")

    @property
    def parameters(self) -> str | None:
        """The discriminator's size as the paper writes it: 14M."""
        value = number(self.pretrain.get("parameters", {}), "discriminator")
        return (
            None
            if value is None
            else f"{value / 1e6:.1f}M"
            if value < 1e7
            else f"{value / 1e6:.0f}M"
        )

    def series(self, metric: str, factor: float = 1.0) -> Series | None:
        """A column of the curve times a factor, without empty cells; None if all are. `train_…` is
        of training.
        """
        pairs = zip(self.curve.get("step", []), self.curve.get(metric, []), strict=False)
        points = [(step, value) for step, value in pairs if math.isfinite(value)]
        return (
            ([step for step, _ in points], [factor * value for _, value in points])
            if points
            else None
        )


@dataclass(frozen=True)
class Point:
    """A run at a fraction of its steps: FLOPs spent, and the score per seed."""

    fraction: float
    flops: float
    scores: tuple[float, ...]


@dataclass(frozen=True)
class Arm:
    """One arm of an ablation; without a result its `status` says why."""

    name: str
    label: str
    status: str
    flops: float | None
    steps: int | None
    scores: tuple[float, ...]  # the mean over the tasks, one per seed
    tasks: dict[str, tuple[float, ...]]
    settings: dict[str, Any]
    values: tuple[str, ...] = ()  # on a grid's axes
    points: tuple[Point, ...] = ()
    parameters: int | None = None

    @property
    def failed(self) -> bool:
        """Whether it has no result."""
        return self.status != "ok"


@dataclass(frozen=True)
class Ablation:
    """One ablation: arms that differ in named settings. `axes`: a grid's axes, each with the names
    of its values.
    """

    name: str
    title: str
    model: str
    data: str
    arms: tuple[Arm, ...]
    axes: tuple[tuple[str, ...], ...] = ()
    axis_names: tuple[str, ...] = ()
    labels: dict[str, str] = field(default_factory=dict)
    compared: str = ""  # the arm that the others are compared with
    budget: str = "equal_flops"
    record: dict[str, Any] = field(default_factory=dict)  # of a recorded run: when, where, how long
    path: str = ""

    @property
    def origin(self) -> str:
        """Its data, and whether it is a recorded run."""
        if not self.record:
            return self.data
        return f"{self.data}, recorded" + (
            " with other settings" if self.record.get("other_settings") else ""
        )

    @property
    def tasks(self) -> dict[str, str]:
        """The titles of the tasks that any arm was scored on, GLUE's first; SQuAD counts by F1."""
        found = {task for arm in self.arms for task in arm.tasks}
        titles = TITLES | {task: task for task in sorted(found - TITLES.keys())}
        return {
            task: title + ", F1" * (task in SQUAD.values())
            for task, title in titles.items()
            if task in found
        }

    @property
    def paper(self) -> paper.Beside | None:
        """The paper's numbers for it, if it is one of the paper's."""
        return (
            paper.beside({arm.name: arm.settings for arm in self.arms})
            if len(self.axes) < 2
            else None
        )

    @property
    def reference(self) -> Arm | None:
        """The arm that the others are compared with: the one named, else BERT, else the first."""
        named = (arm for arm in self.arms if arm.name == self.compared)
        plain = (arm for arm in self.arms if arm.settings.get("objective.name") == "mlm")
        return next(named, next(plain, self.arms[0] if self.arms else None))

    def label(self, value: str) -> str:
        """A value of an axis in words."""
        return self.labels.get(value, value)


@dataclass(frozen=True)
class Inputs:
    """All that is read, with a sentence for each thing that is `missing`, and for each that was
    never run.
    """

    models: tuple[ModelResults, ...]
    ablations: tuple[Ablation, ...]
    data: dict[str, dict[str, Any]]  # path of a record of a corpus, tokens or tasks -> its numbers
    missing: tuple[str, ...]
    unrun: tuple[str, ...]

    @property
    def labels(self) -> list[str]:
        """The data that this run's numbers are measured on."""
        ablations = (ablation.data for ablation in self.ablations if not ablation.record)
        return list(dict.fromkeys([*(model.data for model in self.models), *ablations]))


def number(values: dict[str, Any], name: str) -> float | None:
    """The value of a key, if it is a finite number."""
    value = values.get(name)
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        return None
    return float(value)
