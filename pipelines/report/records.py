"""What the report is drawn from: a model's results, and an ablation's arms, as plain records.

Nothing here reads a file (`load_results.py` does) or draws.
"""

import itertools
import math
from dataclasses import dataclass, field
from typing import Any

from electra.finetuning.tasks import GLUE, SQUAD
from pipelines.finetuning_runs import summary
from pipelines.report import paper
from pipelines.report.comparison import Difference, difference, mean

ARMS = summary.ARMS
METRICS = {"accuracy": "accuracy", "f1": "F1", "exact": "exact match"}
METRICS |= {name: f"{name.title()} correlation" for name in ("matthews", "spearman", "pearson")}
TITLES = {task: of.title for task, of in GLUE.items()}
TITLES |= {task: f"SQuAD {version}" for version, task in SQUAD.items()}
WITH_NETWORK = ("chance", "replaced_tokens")  # baselines that say nothing of simpler methods
Scores = tuple[float, ...]  # in points, one for each seed
Series = tuple[list[float], list[float]]  # steps, values


def chance_of(task: str) -> float:
    """Return what guessing scores on a task of GLUE: one class in so many, or no correlation."""
    return 100 / len(GLUE[task].labels) if GLUE[task].metrics[0] == "accuracy" else 0.0


@dataclass(frozen=True)
class Measured:
    """A task by the metric that counts: the scores of either arm, and its failed seeds.

    `others` holds every metric of the task, by name and arm. `baselines` has chance, majority,
    bag_of_words and word_overlap (pipelines/stages/baselines.py), or for SQuAD never answering as
    its chance.
    """

    name: str
    title: str
    metric: str
    scores: dict[str, Scores]
    failed: dict[str, tuple[str, ...]] = field(default_factory=dict)
    train_rows: int | None = None
    dev_rows: int | None = None
    others: dict[str, dict[str, Scores]] = field(default_factory=dict)
    baselines: dict[str, float] = field(default_factory=dict)

    @property
    def best_baseline(self) -> tuple[float, str] | None:
        """The best score without a network, and what reached it."""
        simple = [
            (score, name.replace("_", " "))
            for name, score in self.baselines.items()
            if name not in WITH_NETWORK
        ]
        return max(simple, default=None)

    @property
    def difference(self) -> Difference | None:
        """Pre-trained minus from scratch, or None if an arm has no score."""
        return self.compare(self.scores["pretrained"], self.scores["scratch"])

    def compare(self, first: Scores, second: Scores) -> Difference | None:
        """Return the difference of two sets of scores of this task."""
        rows = self.dev_rows if self.metric in {"accuracy", "f1"} else None
        return difference(first, second, rows)

    @property
    def subset(self) -> bool:
        """Whether the task was trained on fewer rows than its official training split has."""
        official = GLUE[self.name].train_rows if self.name in GLUE else 0
        return self.train_rows is not None and self.train_rows < official

    def mean(self, arm: str) -> float | None:
        """Return the mean score of an arm over its seeds, or None without a score."""
        return mean(self.scores[arm])


@dataclass(frozen=True)
class ModelResults:
    """Everything known of one fine-tuning and its model. `recorded`: by task, a score for each of
    several pre-trainings. `before`: by task, the scores of the published weights that this
    pre-training went on from.
    """

    name: str
    data: str  # "sample world", or the label of its task source
    sample: bool
    own: bool  # whether the tasks are the user's
    model: str
    corpus: str
    tasks_source: str
    config: Any  # the model's entry of params.yaml, or None of a published one
    corpus_facts: dict[str, Any]
    pretrain: dict[str, Any]
    curve: dict[str, list[float]]  # column -> values, NaN where a row has none
    tasks: tuple[Measured, ...]
    average: Measured | None
    squad: tuple[Measured, ...]  # each version, by F1
    examples: list[dict[str, Any]]
    recorded: dict[str, Scores] = field(default_factory=dict)
    before: dict[str, Scores] = field(default_factory=dict)

    @property
    def main(self) -> Measured | None:
        """Return the score that opens the page: the mean, else the only task, else SQuAD."""
        if self.average is None and len(self.tasks) == 1:
            return self.tasks[0]
        return self.average or next(iter(self.squad), None)

    @property
    def continued(self) -> bool:
        """Return whether pre-training continued from published weights."""
        return self.config is not None and self.config.pretrain.init_from is not None

    @property
    def flops(self) -> float | None:
        """Pre-training FLOPs, by the authors' convention."""
        return number(self.pretrain, "flops")

    @property
    def parameters(self) -> str | None:
        """The discriminator's size as the paper writes it: 14M."""
        value = number(self.pretrain.get("parameters", {}), "discriminator")
        if value is None:
            return None
        return f"{value / 1e6:.{1 if value < 1e7 else 0}f}M"

    def series(self, metric: str, factor: float = 1.0) -> Series | None:
        """Return a column of the curve times a factor, without empty cells, or None if all are.
        `train_…` is of training.
        """
        pairs = zip(self.curve.get("step", []), self.curve.get(metric, []), strict=False)
        points = [(step, factor * value) for step, value in pairs if math.isfinite(value)]
        if not points:
            return None
        steps, values = zip(*points, strict=True)
        return list(steps), list(values)


@dataclass(frozen=True)
class Point:
    """A run at a fraction of its steps: FLOPs spent, and the score per seed."""

    fraction: float
    flops: float
    scores: Scores


@dataclass(frozen=True)
class Arm:
    """One arm of an ablation. Without a result its `status` says why."""

    name: str
    label: str
    status: str
    flops: float | None
    steps: int | None
    scores: Scores  # the mean over the tasks
    tasks: dict[str, Scores]
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
        settings = " with other settings" if self.record.get("other_settings") else ""
        return f"{self.data}, recorded{settings}"

    @property
    def tasks(self) -> dict[str, str]:
        """The titles of the tasks that any arm was scored on, GLUE's first. SQuAD counts by F1."""
        scored = set(itertools.chain(*(arm.tasks for arm in self.arms)))
        order = [*TITLES, *sorted(scored - TITLES.keys())]
        squad = {task: f"{TITLES[task]}, F1" for task in SQUAD.values()}
        return {task: squad.get(task, TITLES.get(task, task)) for task in order if task in scored}

    @property
    def paper(self) -> paper.PaperScores | None:
        """The paper's numbers for it, if it is one of the paper's."""
        if len(self.axes) > 1:
            return None
        return paper.find_scores({arm.name: arm.settings for arm in self.arms})

    @property
    def reference(self) -> Arm | None:
        """The arm that the others are compared with: the one named, else BERT, else the first."""
        named = [arm for arm in self.arms if arm.name == self.compared]
        bert = [arm for arm in self.arms if arm.settings.get("objective.name") == "mlm"]
        return next(iter([*named, *bert, *self.arms]), None)

    def label(self, value: str) -> str:
        """Return a value of an axis in words."""
        return self.labels.get(value, value)


@dataclass(frozen=True)
class Inputs:
    """All that is read, with a sentence for each thing that is `missing`, and for each that was
    never run.
    """

    models: tuple[ModelResults, ...]
    ablations: tuple[Ablation, ...]
    files: tuple[str, ...]  # what was read, by path
    missing: tuple[str, ...]
    unrun: tuple[str, ...]

    @property
    def labels(self) -> list[str]:
        """The data that this run's numbers are measured on."""
        ablations = [ablation.data for ablation in self.ablations if not ablation.record]
        return list(dict.fromkeys([*(model.data for model in self.models), *ablations]))


def number(values: dict[str, Any], name: str) -> float | None:
    """Return the value of a key, if it is a finite number."""
    value = values.get(name)
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        return None
    return float(value)
