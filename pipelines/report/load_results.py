"""Results files to records. Each absent or broken file becomes a sentence.

    results/M/{pretrain,glue,squad}.json, results/curves/M.csv  one model
    results/A/ablation.json                                     one ablation that `run` selects
    results/{M,A}/{corpus,tokens,tasks}.json                    their data
    benchmarks/results/ablations/A.json                         the other ablations, as recorded
    benchmarks/results/M-marks.json                             several pre-trainings of a model
    build/models/M/examples.json                                the generator's replacements

Only results that `run` selects are read: the page depends on nothing that its DVC stage does not
name.
"""

import csv
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from electra.config import faults
from electra.errors import CorruptFile, UserError
from electra.files import read_json
from electra.finetuning.tasks import GLUE, SQUAD
from electra.storage.manifest import MANIFEST, verify_manifest
from pipelines import rebuild_advice
from pipelines.config.params import Params, settings_digest
from pipelines.report.paper import find_scores
from pipelines.report.records import (
    ARMS,
    TITLES,
    Ablation,
    Arm,
    Inputs,
    Measured,
    ModelResults,
    is_subset,
)

T = TypeVar("T")
BEFORE = "before.json"  # glue.json of the weights that a pre-training started from
RECORDS = "benchmarks/results"
ABLATION_RECORDS = f"{RECORDS}/ablations"


def load(params: Params, name: str = "") -> Inputs:
    """Read the results of a fine-tuning ("": of those that `params.run` selects).

    Where all tasks are the user's own, the ablations are those of `params.run` alone.
    """
    reader = Reader()
    names = (name,) if name else params.run.models
    models = tuple(read_model(reader, model, params) for model in names)
    selected = () if name else params.run.ablations
    shown = (
        selected if models and all(model.kind == "custom" for model in models) else params.ablations
    )
    ablations = []
    never_run = []
    for key in shown:
        if ablation := read_ablation(reader, key, params, selected=key in selected):
            ablations.append(ablation)
        elif key not in selected:
            never_run.append(f"ablation {key}: {params.ablations[key].title}: not run")
    for key in (*names, *selected):
        for stage in ("corpus", "tokens", "tasks"):
            reader.read(f"results/{key}/{stage}.json", optional=True)
    return Inputs(
        models,
        tuple(ablations),
        tuple(reader.files),
        tuple(reader.missing),
        (*reader.unrun, *never_run),
    )


class Reader:
    """Reads files and collects a sentence for each that is absent or broken."""

    def __init__(self) -> None:
        self.files: dict[str, Any] = {}
        self.missing: list[str] = []
        self.unrun: list[str] = []

    def read(
        self, path: str, read: Callable[[Path], Any] = read_json, *, optional: bool = False
    ) -> Any:
        """Return the file's value, or {} if it cannot be read, which is noted unless it is absent
        and `optional`.
        """
        file = Path(path)
        if path in self.files or (optional and not file.exists()):
            return self.files.get(path, {})
        try:
            if path.startswith("build/") and file.exists():
                check(file)
            self.files[path] = read(file)
        except UserError as error:
            self.missing.append(str(error))
        except (OSError, ValueError, csv.Error) as error:
            reason = getattr(error, "strerror", None) or error
            self.missing.append(f"{path}: cannot be read ({reason})")
        return self.files.get(path, {})


def read_columns(path: Path) -> dict[str, list[float]]:
    """Return a CSV of numbers by column. An empty cell is NaN."""
    with path.open(encoding="utf-8", newline="") as file:
        names, *rows = csv.reader(file)
    columns = zip(names, zip(*rows, strict=True), strict=True)
    return {name: [float(cell or "nan") for cell in column] for name, column in columns}


def check(path: Path) -> None:
    """Verify a file in build/<kind>/<name> against that folder's manifest. Raises CorruptFile if it
    does not match.
    """
    folder = next((parent for parent in path.parents if (parent / MANIFEST).exists()), path.parent)
    stage = "pretrain" if folder.parent.name == "models" else folder.parent.name
    verify_manifest(
        folder,
        only=[str(path.relative_to(folder))],
        do=rebuild_advice(stage, folder.name),
        name=folder.name,
    )


def parse(kind: type[T], values: Any, where: str) -> T:
    """Return a part of a results file as a record. Raises CorruptFile with its faults."""
    try:
        return TypeAdapter(kind).validate_python(values)
    except ValidationError as error:
        raise CorruptFile("; ".join(faults(error, values, where))) from None


def read_model(reader: Reader, name: str, params: Params) -> ModelResults:
    """Return all results of a fine-tuning and its model."""
    finetuning = params.finetunings[name]
    config = params.models.get(finetuning.model)
    kind = params.tasks[finetuning.tasks].kind
    has_glue = bool(params.selected_tasks(name))
    glue = reader.read(f"results/{name}/glue.json", optional=not has_glue)
    before = reader.read(f"results/{name}/{BEFORE}", optional=True)
    tasks = measure_tasks(glue)
    has_squad = bool(params.squad_versions(name))
    squad = reader.read(f"results/{name}/squad.json", optional=not has_squad)
    versions = sorted(squad.get("versions", {}).items())
    questions = tuple(measure(SQUAD[version], values) for version, values in versions)
    examples = reader.read(f"build/models/{finetuning.model}/examples.json", optional=True)
    for row in (*tasks, *questions):
        for arm, title in ARMS.items():
            scores = getattr(row, arm)
            if scores.failed:
                failures = "; ".join(scores.failed)
                reader.missing.append(f"{name}, {row.title}, {title}: failed, {failures}")
            elif not scores.scores:
                reader.missing.append(f"{name}, {row.title}, {title}: no scores")
    pretraining = {}
    if config:
        pretraining = {
            "corpus": params.tokens[config.tokens].corpus,
            "corpus_facts": reader.read(f"results/{name}/corpus.json"),
            "pretrain": reader.read(f"results/{name}/pretrain.json"),
            "curve": reader.read(f"results/curves/{name}.csv", read_columns),
        }
    marks = reader.read(f"{RECORDS}/{name}-marks.json", optional=True)
    recorded = list(measure_tasks(marks))
    if marks:
        recorded.append(measure("average", marks["mean_of_nine"]))
    return ModelResults(
        name=name,
        data=label_data(kind, subset=any(row.subset for row in tasks)),
        source=finetuning.tasks,
        kind=kind,
        model=finetuning.model,
        config=config,
        tasks=tasks,
        average=measure_average(glue, tasks),
        squad=questions,
        recorded={row.name: row.pretrained.scores for row in recorded},
        before={row.name: row.pretrained.scores for row in measure_tasks(before)},
        examples=examples or [],
        **pretraining,
    )


def measure_tasks(glue: dict[str, Any]) -> tuple[Measured, ...]:
    """Return each task of a glue.json, GLUE's own tasks first and in GLUE's order."""
    tasks = glue.get("tasks", {})
    order = [*GLUE, *tasks]
    return tuple(measure(task, tasks[task]) for task in sorted(tasks, key=order.index))


def measure_average(glue: dict[str, Any], tasks: Sequence[Measured]) -> Measured | None:
    """Return the mean over the tasks of a glue.json by its exact name, unless that lists the tasks:
    the table does so. None over a single task.

    It comes with the means of chance and of the best without a network, if all of these tasks have
    them.
    """
    average = glue.get("average", {})
    counted = [row for row in tasks if row.name in average.get("tasks", ())]
    if len(counted) < 2:
        return None
    title = average["name"]
    if len(title) >= 60:
        title = f"mean over {len(counted)} tasks"
    baselines = {
        "chance": [row.chance for row in counted if row.chance is not None],
        "the best of each": [row.best_baseline[0] for row in counted if row.best_baseline],
    }
    means = {
        name: statistics.fmean(scores)
        for name, scores in baselines.items()
        if len(scores) == len(counted)
    }
    return measure("average", {**average, "baselines": means}, title)


def measure(task: str, values: dict[str, Any], title: str = "") -> Measured:
    """Return the scores of both arms, as in a results file."""
    title = title or TITLES.get(task, task)
    return parse(Measured, {**values, "name": task, "title": title}, task)


def label_data(kind: str, *, subset: bool) -> str:
    """Return a short name for the data of a kind of source, for its numbers."""
    real = f"GLUE and SQuAD, {kind}{' subsets' if subset else ''}"
    return {"sample": "sample world", "custom": "custom tasks"}.get(kind, real)


def read_ablation(reader: Reader, name: str, params: Params, *, selected: bool) -> Ablation | None:
    """Return an ablation of this run, or from its record, or None without a result."""
    config = params.ablations[name]
    path = f"results/{name}/ablation.json" if selected else f"{ABLATION_RECORDS}/{name}.json"
    values = reader.read(path, optional=not selected)
    if not values:
        return None
    parts = values["arms"]
    published = None
    if len(config.grid) < 2:
        published = find_scores({arm: part["settings"] for arm, part in parts.items()})
    order = [*config.settings, *parts]
    if published and not config.grid:  # best first
        order = [*published.arms, *order]
    arms = [
        parse(Arm, {**parts[arm], "name": arm}, f"{path}: arms.{arm}")
        for arm in sorted(parts, key=order.index)
    ]
    record = values.get("record", {})
    # a record may have fewer results
    gaps = reader.unrun if record else reader.missing
    for arm in arms:
        gaps += [f"ablation {name}, {arm.label}: failed, {fault}" for fault in arm.failed]
    absent = [arm for arm in config.settings if arm not in parts]
    gaps += [f"ablation {name}: the arm {arm} has no result" for arm in absent]
    settings = values.get("provenance", {}).get("settings_digest")
    rows = values.get("train_rows", {})
    return Ablation(
        name=name,
        config=config,
        data=label_data(
            params.tasks[config.base.data].kind,
            subset=any(is_subset(task, rows[task]) for task in rows),
        ),
        arms=tuple(arms),
        compared=values.get("reference", ""),
        paper=published,
        budget=values.get("budget", "equal_flops"),
        record=record,
        other_settings=bool(record and settings) and settings != settings_digest(name, params),
    )
