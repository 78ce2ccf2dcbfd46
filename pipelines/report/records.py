"""The records from which the report is drawn: a model's results, and an ablation's arms.

Nothing here reads a file (`load_results.py` does) or draws. The parts that are read as they stand
in a results file are pydantic's, which checks them.
"""

import itertools
import math
from dataclasses import dataclass, field
from typing import Any

import pydantic.dataclasses
from pydantic import AliasPath, Field

from electra.finetuning.tasks import GLUE, SQUAD
from pipelines.config.ablation_config import AblationConfig
from pipelines.finetuning_runs import summary
from pipelines.report.comparison import Difference, compare_scores, mean
from pipelines.report.paper import PaperScores

ARMS = summary.ARMS
METRICS = {"accuracy": "accuracy", "f1": "F1", "exact": "exact match"}
METRICS |= {name: f"{name.title()} correlation" for name in ("matthews", "spearman", "pearson")}
TITLES = {task: of.title for task, of in GLUE.items()}
TITLES |= {task: f"SQuAD {version}" for version, task in SQUAD.items()}
# baselines that are not simpler methods
NOT_SIMPLE = ("chance", "never_answering", "replaced_tokens")
Scores = tuple[float, ...]  # in points, one for each seed
Series = tuple[list[float], list[float]]  # steps, values


def chance_score(task: str) -> float:
    """Return the score of guessing on a task of GLUE: one class in so many, or no correlation."""
    return 100 / len(GLUE[task].labels) if GLUE[task].metrics[0] == "accuracy" else 0.0


def is_subset(task: str, rows: int) -> bool:
    """Return whether a task's official training split has more rows."""
    return task in GLUE and rows < GLUE[task].train_rows


@pydantic.dataclasses.dataclass(frozen=True)
class ArmScores:
    """An arm's scores by the metric that counts, those by every metric, and its failed seeds."""

    scores: Scores = ()
    all: dict[str, Scores] = field(default_factory=dict)
    failed: tuple[str, ...] = ()


@pydantic.dataclasses.dataclass(frozen=True)
class Measured:
    """A task in both arms. `baselines` has chance, majority, bag_of_words and word_overlap
    (pipelines/stages/baselines.py), or for SQuAD never answering.
    """

    name: str
    title: str
    metric: str = ""
    pretrained: ArmScores = field(default_factory=ArmScores)
    scratch: ArmScores = field(default_factory=ArmScores)
    train_rows: int | None = None
    dev_rows: int | None = None
    baselines: dict[str, float] = field(default_factory=dict)

    @property
    def scores(self) -> dict[str, Scores]:
        """The scores of either arm."""
        return {"pretrained": self.pretrained.scores, "scratch": self.scratch.scores}

    @property
    def chance(self) -> float | None:
        """The score of guessing, or for SQuAD of never answering."""
        return self.baselines.get("chance", self.baselines.get("never_answering"))

    @property
    def best_baseline(self) -> tuple[float, str] | None:
        """The best score without a network, and its method."""
        simple = [
            (score, name.replace("_", " "))
            for name, score in self.baselines.items()
            if name not in NOT_SIMPLE
        ]
        return max(simple, default=None)

    @property
    def difference(self) -> Difference | None:
        """Pre-trained minus from scratch, or None if an arm has no score."""
        return self.compare(self.pretrained.scores, self.scratch.scores)

    def compare(self, first: Scores, second: Scores) -> Difference | None:
        """Return the difference of two sets of scores of this task."""
        rows = self.dev_rows if self.metric in {"accuracy", "f1"} else None
        return compare_scores(first, second, rows)

    @property
    def subset(self) -> bool:
        """Whether the task was trained on fewer rows than its official training split has."""
        return self.train_rows is not None and is_subset(self.name, self.train_rows)

    def mean(self, arm: str) -> float | None:
        """Return the mean score of an arm over its seeds, or None without a score."""
        return mean(self.scores[arm])


@dataclass(frozen=True)
class ModelResults:
    """Everything known of one fine-tuning and its model. `recorded`: by task, a score for each of
    several pre-trainings. `before`: by task, the scores of the published weights that this
    pre-training continued from.
    """

    name: str
    data: str  # "sample world", or the label of its task source
    source: str  # of its tasks
    kind: str  # of that source
    model: str
    config: Any  # the model's entry of params.yaml, or None of a published one
    tasks: tuple[Measured, ...]
    average: Measured | None
    squad: tuple[Measured, ...]  # each version, by F1
    recorded: dict[str, Scores]
    before: dict[str, Scores]
    examples: list[dict[str, Any]]
    corpus: str = ""
    corpus_facts: dict[str, Any] = field(default_factory=dict)
    pretrain: dict[str, Any] = field(default_factory=dict)
    # column -> values, NaN where a row has none
    curve: dict[str, list[float]] = field(default_factory=dict)

    @property
    def main(self) -> Measured | None:
        """Return the score that opens the page: the mean, else the only task, else SQuAD."""
        if self.average is None and len(self.tasks) == 1:
            return self.tasks[0]
        return self.average or next(iter(self.squad), None)

    @property
    def rows(self) -> list[Measured]:
        """The mean, each task, and SQuAD."""
        average = [self.average] if self.average else []
        return [*average, *self.tasks, *self.squad]

    @property
    def seeds(self) -> int:
        """The largest number of fine-tunings of a task in an arm."""
        return max((max(map(len, row.scores.values())) for row in self.tasks), default=0)

    @property
    def continued(self) -> bool:
        """Return whether pre-training continued from published weights."""
        return self.config is not None and self.config.pretrain.init_from is not None

    @property
    def parameters(self) -> str | None:
        """The discriminator's size as the paper writes it: 14M."""
        value = self.pretrain.get("parameters", {}).get("discriminator")
        if value is None:
            return None
        return f"{value / 1e6:.{1 if value < 1e7 else 0}f}M"

    def series(self, metric: str, factor: float = 1.0) -> Series | None:
        """Return a column of the curve times a factor, without empty cells, or None if all are."""
        pairs = zip(self.curve.get("step", []), self.curve.get(metric, []), strict=False)
        points = [(step, factor * value) for step, value in pairs if math.isfinite(value)]
        if not points:
            return None
        steps, values = zip(*points, strict=True)
        return list(steps), list(values)


@pydantic.dataclasses.dataclass(frozen=True)
class Point:
    """A run at a fraction of its steps: FLOPs spent, and the score per seed."""

    flops: float
    scores: Scores


@pydantic.dataclasses.dataclass(frozen=True, config={"populate_by_name": True})
class Arm:
    """One arm of an ablation. Without a result its `status` says why."""

    name: str
    label: str
    status: str
    settings: dict[str, Any]
    flops: float | None = None
    steps: int | None = None
    # the mean over the tasks
    scores: Scores = Field(default=(), validation_alias=AliasPath("average", "scores"))
    tasks: dict[str, Scores] = Field(default_factory=dict, validation_alias="glue")
    values: tuple[str, ...] = ()  # on a grid's axes
    points: tuple[Point, ...] = ()
    failed: tuple[str, ...] = ()
    # of the discriminator
    parameters: int = Field(default=0, validation_alias=AliasPath("parameters", "discriminator"))

    @property
    def ok(self) -> bool:
        """Whether it has a result."""
        return self.status == "ok"


@dataclass(frozen=True)
class Ablation:
    """One ablation: its entry of params.yaml, and arms that differ in named settings."""

    name: str
    config: AblationConfig
    data: str
    arms: tuple[Arm, ...]
    compared: str  # the arm that the others are compared with
    paper: PaperScores | None  # the paper's numbers for it, if it is one of the paper's
    budget: str = "equal_flops"
    record: dict[str, Any] = field(default_factory=dict)  # of a recorded run: when, where, how long
    other_settings: bool = False  # recorded with settings other than those in params.yaml

    @property
    def title(self) -> str:
        """The title in params.yaml, which says what the arms compare."""
        return self.config.title

    @property
    def origin(self) -> str:
        """Its data, and whether it is a recorded run."""
        if not self.record:
            return self.data
        settings = " with other settings" if self.other_settings else ""
        return f"{self.data}, recorded{settings}"

    @property
    def tasks(self) -> dict[str, str]:
        """The titles of the tasks that any arm was scored on, GLUE's first. SQuAD counts by F1."""
        scored = set(itertools.chain(*(arm.tasks for arm in self.arms)))
        order = [*TITLES, *sorted(scored - TITLES.keys())]
        squad = {task: f"{TITLES[task]}, F1" for task in SQUAD.values()}
        return {task: squad.get(task, TITLES.get(task, task)) for task in order if task in scored}

    @property
    def reference(self) -> Arm:
        """The arm that the others are compared with, or the first where that is absent."""
        named = [arm for arm in self.arms if arm.name == self.compared]
        return [*named, *self.arms][0]


@dataclass(frozen=True)
class Inputs:
    """All inputs, with a sentence for each that is `missing`, and for each that was never run."""

    models: tuple[ModelResults, ...]
    ablations: tuple[Ablation, ...]
    files: tuple[str, ...]  # paths that were read
    missing: tuple[str, ...]
    unrun: tuple[str, ...]

    @property
    def labels(self) -> list[str]:
        """The data that this run's numbers are measured on."""
        ablations = [ablation.data for ablation in self.ablations if not ablation.record]
        return list(dict.fromkeys([*(model.data for model in self.models), *ablations]))
