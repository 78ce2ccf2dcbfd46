"""What the report is made of: results/** and build/** as plain records; what is absent is noted, never hidden.

    results/M/{pretrain.json, pretrain.csv, glue.json, squad.json}  one model
    results/ablations/A.json                                        one ablation (ablation_records.py: or its record)
    benchmarks/results/*.json                                       recorded runs of other models (records.py)
    benchmarks/results/M-marks.json                                 one model over several pre-trainings, as recorded
    results/{corpus,tokens,tasks}/N.json                            its data
    build/models/M/examples.json, build/{glue,squad}/M/**           what a person can read

Of the stages' results only what `params.yaml: run` selects is read, so the page depends on nothing that
its DVC stage does not name.
"""

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from electra.errors import UserError
from electra.files import as_written, read_json
from electra.finetuning.tasks import GLUE, SQUAD
from electra.storage.manifest import MANIFEST, verify_manifest
from pipelines.report import ablation_records, records
from pipelines.report.ablation_records import Ablation, number
from pipelines.report.records import Record
from pipelines.stages import again

ARMS = ("pretrained", "scratch")
ARM_TITLES = {"pretrained": "pre-trained", "scratch": "from scratch"}
METRIC_TITLES = {
    "matthews": "Matthews correlation",
    "accuracy": "accuracy",
    "f1": "F1",
    "spearman": "Spearman correlation",
    "pearson": "Pearson correlation",
    "exact": "exact match",
}


@dataclass(frozen=True)
class Measured:
    """One metric of one task: a score (in points, 0 to 100) per seed for either arm, and the seeds that failed.

    `others` holds the task's other metrics, by name and arm; `ground` has chance, majority, bag_of_words, word_overlap
    and replaced_tokens (pipelines/stages/baselines.py), or SQuAD's never_answering as its chance.
    """

    name: str
    title: str
    metric: str
    scores: dict[str, tuple[float, ...]]
    failed: dict[str, tuple[str, ...]] = field(default_factory=dict)
    train_rows: int | None = None
    dev_rows: int | None = None
    others: dict[str, dict[str, tuple[float, ...]]] = field(default_factory=dict)
    ground: dict[str, float] = field(default_factory=dict)  # what no fine-tuned network is needed for, by name
    on_train: dict[str, tuple[float, ...]] = field(default_factory=dict)  # scores on training rows, by arm

    @property
    def metric_title(self) -> str:
        """The metric's name in prose."""
        return METRIC_TITLES.get(self.metric, self.metric)


@dataclass(frozen=True)
class ModelResults:
    """Everything known of one model."""

    name: str
    data: str  # "sample world", or the label that its task source carries
    sample: bool
    corpus: str
    tasks_source: str
    tokens: str
    discriminator_weight: float
    pretrain: dict[str, Any]
    curve: dict[str, list[float]]  # column -> values; NaN where a row has none
    tasks: tuple[Measured, ...]
    average: Measured | None
    squad: dict[str, tuple[Measured, ...]]  # version -> exact match, F1
    examples: list[dict[str, Any]]
    recorded: dict[tuple[str, str], tuple[float, ...]] = field(
        default_factory=dict
    )  # by task and metric, one per pre-training

    @property
    def flops(self) -> float | None:
        """Pre-training FLOPs, by the authors' convention."""
        return number(self.pretrain, "flops")


@dataclass(frozen=True)
class Inputs:
    """All that is read, and one sentence for each thing that is missing."""

    models: tuple[ModelResults, ...]
    ablations: tuple[Ablation, ...]
    corpora: dict[str, dict[str, Any]]
    tokens: dict[str, dict[str, Any]]
    tasks: dict[str, dict[str, Any]]
    missing: tuple[str, ...]
    unrun: tuple[str, ...] = ()  # ablations that nobody has run here
    records: tuple[Record, ...] = ()


@as_written("results")
def load(params: Any, root: Path = Path()) -> Inputs:
    """Read what `params.run` selects from the results below `root`."""
    reader = Reader(root)
    models = tuple(_model(reader, name, params) for name in params.run.models)
    ablations = ablation_records.load(reader, params, _label)
    ablated = [params.ablations[name] for name in params.run.ablations]
    rows = dict.fromkeys(
        [*(params.models[name].tokens for name in params.run.models), *(one.tokens for one in ablated)]
    )
    used = dict.fromkeys(
        [*(params.finetunings[name].tasks for name in params.run.models), *(one.data for one in ablated)]
    )
    tokens = {name: reader.json(f"results/tokens/{name}.json") for name in rows}
    corpora = {
        name: reader.json(f"results/corpus/{name}.json")
        for name in dict.fromkeys(params.tokens[token].corpus for token in tokens)
    }
    tasks = {name: reader.json(f"results/tasks/{name}.json") for name in used}
    return Inputs(
        models,
        ablations,
        corpora,
        tokens,
        tasks,
        tuple(reader.missing),
        tuple(reader.unrun),
        records.load(root, params.models),
    )


class Reader:
    """Reads files below a root and keeps a sentence for each that is absent or broken."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.missing: list[str] = []
        self.unrun: list[str] = []

    def json(self, path: str, *, optional: bool = False) -> Any:
        """The file's value; {} with a note if there is none."""
        if optional and not (self.root / path).exists():
            return {}
        try:
            if path.startswith("build/") and (self.root / path).exists():
                check(self.root / path)
            return read_json(self.root / path)
        except UserError as error:
            self.missing.append(f"{path}: {error.found}")
            return {}

    def curve(self, path: str) -> dict[str, list[float]]:
        """A CSV of numbers by column; an empty cell is NaN."""
        try:
            with (self.root / path).open(encoding="utf-8", newline="") as file:
                rows = list(csv.DictReader(file))
        except FileNotFoundError:
            self.missing.append(f"{path}: there is no such file")
            return {}
        except (OSError, ValueError, csv.Error) as error:
            self.missing.append(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error})")
            return {}
        return {column: [_float(row.get(column)) for row in rows] for column in (rows[0] if rows else {})}


def check(path: Path) -> None:
    """Check a file of build/<kind>/<name>, or of a folder in there, against the manifest of that folder."""
    folder = next((parent for parent in path.parents if (parent / MANIFEST).exists()), path.parent)
    stage = "pretrain" if folder.parent.name == "models" else folder.parent.name
    verify_manifest(folder, only=[str(path.relative_to(folder))], do=again(stage, folder.name), name=folder.name)


def _model(reader: Reader, name: str, params: Any) -> ModelResults:
    config, source = params.models[name], params.finetunings[name].tasks
    glue = reader.json(f"results/{name}/glue.json")
    squad = reader.json(f"results/{name}/squad.json")
    examples = reader.json(f"build/models/{name}/examples.json")
    known = list(GLUE)
    tasks = sorted(glue.get("tasks", {}).items(), key=lambda item: known.index(item[0]) if item[0] in GLUE else 99)
    measured = []
    for task, values in tasks:
        title = GLUE[task].title if task in GLUE else task
        measured.append(_measured(reader, f"{name}, {title}", (task, title, str(values.get("metric", ""))), values))
    average = glue.get("average")
    return ModelResults(
        name=name,
        data=_label(source, params, measured),
        sample=_is_sample(source, params),
        corpus=params.tokens[config.tokens].corpus,
        tasks_source=source,
        tokens=config.tokens,
        discriminator_weight=config.objective.discriminator_weight,
        pretrain=reader.json(f"results/{name}/pretrain.json"),
        curve=reader.curve(f"results/{name}/pretrain.csv"),
        tasks=tuple(measured),
        average=_measured(reader, "", ("average", _average_name(average), ""), average) if average else None,
        squad={
            version: tuple(_squad(reader, name, version, metric, values) for metric in ("exact", "f1"))
            for version, values in sorted(squad.get("versions", {}).items())
        },
        examples=examples if isinstance(examples, list) else [],
        recorded=_recorded(reader, name),
    )


def _recorded(reader: Reader, name: str) -> dict[tuple[str, str], tuple[float, ...]]:
    """The pre-trained arm over several pre-trainings, from the record beside a model's name, if there is one."""
    values = reader.json(f"benchmarks/results/{name}-marks.json", optional=True)
    rows = {**values.get("tasks", {}), "average": values.get("mean_of_nine")}
    names = {task: (f"squad {version}", "f1") for version, task in SQUAD.items()} | {"average": ("average", "")}
    return {
        names.get(task, (task, row.get("metric", ""))): tuple(map(float, row["pretrained"]["scores"]))
        for task, row in rows.items()
        if row
    }


def _measured(
    reader: Reader, where: str, names: tuple[str, str, str], values: dict[str, Any], key: str | None = None
) -> Measured:
    """Scores of both arms of `names` (its own, title, metric); `key` picks a metric where arms hold several."""
    scores, failed = {}, {}
    for arm in ARMS:
        part = values.get(arm) or {}
        chosen = (part.get(key) or {}) if key else part
        scores[arm] = tuple(float(score) for score in chosen.get("scores", []) if score is not None)
        failed[arm] = tuple(str(seed) for seed in [*part.get("failed", []), *(chosen.get("failed", []) if key else [])])
        if failed[arm] and where:
            reader.missing.append(f"{where}, {ARM_TITLES[arm]}: failed, {'; '.join(failed[arm])}")
        elif not scores[arm] and where and key != "f1":
            reader.missing.append(f"{where}, {ARM_TITLES[arm]}: no scores")
    others: dict[str, dict[str, tuple[float, ...]]] = {}
    for arm in ARMS if key is None else ():
        for other, found in ((values.get(arm) or {}).get("all") or {}).items():
            others.setdefault(other, {})[arm] = tuple(map(float, found))
    ground = dict(values.get("baselines") or {})
    if key and isinstance(values.get("never_answering"), int | float):
        ground["chance"] = float(values["never_answering"])
    on_train = {}
    for arm in ARMS:
        learned = (values.get(arm) or {}).get("train") or ()
        on_train[arm] = tuple(map(float, learned.get(key, ()) if isinstance(learned, dict) else learned))
    rows = values.get("train_rows"), values.get("dev_rows")
    return Measured(*names, scores, failed, *rows, others, ground, on_train)


def _squad(reader: Reader, model: str, version: str, metric: str, values: dict[str, Any]) -> Measured:
    where = f"{model}, SQuAD {version}" if metric == "exact" else ""
    return _measured(reader, where, (f"squad {version}", f"SQuAD {version}", metric), values, key=metric)


def _is_sample(tasks: str, params: Any) -> bool:
    return str(params.tasks[tasks].kind) == "sample"


def _label(tasks: str, params: Any, measured: Sequence[Measured] = ()) -> str:
    """What the tasks' numbers stand for, in a few words."""
    if _is_sample(tasks, params):
        return "sample world"
    kind = str(params.tasks[tasks].kind)
    if kind == "own":
        return "own tasks"
    return f"GLUE and SQuAD, {kind}" + (" subsets" if any(map(is_subset, measured)) else "")


def is_subset(row: Measured) -> bool:
    """Whether a task was trained on fewer rows than its official train split has."""
    return row.name in GLUE and row.train_rows is not None and row.train_rows < GLUE[row.name].train_rows


def _average_name(average: dict[str, Any]) -> str:
    """Its exact name, unless that lists the tasks, which the table does better."""
    name, tasks = str(average.get("name", "mean")), average.get("tasks") or []
    return name if len(name) < 60 else f"mean over {len(tasks)} tasks"


def _float(text: str | None) -> float:
    try:
        return float(text) if text else math.nan
    except ValueError:
        return math.nan


def training(curve: dict[str, list[float]], name: str) -> tuple[list[float], list[float]] | None:
    """Steps and values of a metric on training batches."""
    return _series(curve, f"train_{name}")


def held_out(curve: dict[str, list[float]], name: str) -> tuple[list[float], list[float]] | None:
    """Steps and values of a metric on held-out rows."""
    return _series(curve, name)


def _series(curve: dict[str, list[float]], name: str) -> tuple[list[float], list[float]] | None:
    """A column, without the rows that have no value in it; None for one without any."""
    pairs = zip(curve.get("step", []), curve.get(name, []), strict=False)
    points = [(step, value) for step, value in pairs if math.isfinite(value)]
    return ([step for step, _ in points], [value for _, value in points]) if points else None
