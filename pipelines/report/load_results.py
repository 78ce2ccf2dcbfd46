"""Results files to records. What is absent or broken becomes a sentence.

    results/M/{pretrain,glue,squad}.json, results/curves/M.csv  one model
    results/A/ablation.json                                     one ablation that `run` selects
    results/{M,A}/{corpus,tokens,tasks}.json                    their data
    benchmarks/results/ablations/A.json                         the other ablations, as recorded
    benchmarks/results/M-marks.json                             several pre-trainings of a model
    build/models/M/examples.json                                what the generator wrote

Of the stages' results only what `run` selects is read: the page depends on nothing that its DVC
stage does not name.
"""

import csv
import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from electra.errors import UserError
from electra.files import read_json, well_formed
from electra.finetuning.tasks import GLUE, SQUAD
from electra.storage.manifest import MANIFEST, verify_manifest
from pipelines import again
from pipelines.config.params import settings_digest
from pipelines.report.records import (
    ARMS,
    Ablation,
    Arm,
    Inputs,
    Measured,
    ModelResults,
    Point,
    Scores,
    number,
)

BEFORE = "before.json"  # glue.json of the weights that a pre-training started from
RECORDS = "benchmarks/results"
ABLATION_RECORDS = f"{RECORDS}/ablations"


@well_formed("results")
def load(params: Any, root: Path = Path(), name: str = "") -> Inputs:
    """Read the results of a fine-tuning ("": of what `params.run` selects) below `root`. Raises
    CorruptFile where a record has another shape.

    Where all tasks are the user's own, the ablations are those of `params.run` alone.
    """
    reader = Reader(root)
    names = (name,) if name else params.run.models
    models = tuple(_model(reader, model, params) for model in names)
    selected = () if name else params.run.ablations
    is_own = bool(models) and all(model.own for model in models)
    ablations = _ablations(reader, params, selected, only=is_own)
    for key in (*names, *selected):
        published = key in params.finetunings and params.finetunings[key].model in params.published
        for stage in ("tasks",) if published else ("corpus", "tokens", "tasks"):
            reader.json(f"results/{key}/{stage}.json")
    return Inputs(
        models, ablations, tuple(reader.files), tuple(reader.missing), tuple(reader.unrun)
    )


class Reader:
    """Reads files below a root and collects a sentence for each that is absent or broken."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.files: dict[str, Any] = {}
        self.missing: list[str] = []
        self.unrun: list[str] = []

    def json(self, path: str, *, optional: bool = False) -> Any:
        """Return the file's value, or {} if it cannot be read, which is noted unless it is absent
        and `optional`.
        """
        return self._read(path, read_json, optional)

    def curve(self, path: str) -> dict[str, list[float]]:
        """Return a CSV of numbers by column. An empty cell is NaN."""
        values: dict[str, list[float]] = self._read(path, _read_columns, False)
        return values

    def _read(self, path: str, read: Callable[[Path], Any], optional: bool) -> Any:
        file = self.root / path
        if path in self.files or (optional and not file.exists()):
            return self.files.get(path, {})
        try:
            if path.startswith("build/") and file.exists():
                check(file)
            self.files[path] = read(file)
        except UserError as error:
            self.missing.append(str(error).removeprefix(f"{self.root}/"))
        except (OSError, ValueError, csv.Error) as error:
            reason = getattr(error, "strerror", None) or error
            self.missing.append(f"{path}: cannot be read ({reason})")
        return self.files.get(path, {})


def _read_columns(path: Path) -> dict[str, list[float]]:
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return {
        column: [float(row[column] or "nan") for row in rows]
        for column in (rows[0] if rows else {})
    }


def check(path: Path) -> None:
    """Verify a file in build/<kind>/<name> against that folder's manifest. Raises CorruptFile if it
    does not match.
    """
    folder = next((parent for parent in path.parents if (parent / MANIFEST).exists()), path.parent)
    stage = "pretrain" if folder.parent.name == "models" else folder.parent.name
    verify_manifest(
        folder, only=[str(path.relative_to(folder))], do=again(stage, folder.name), name=folder.name
    )


def _model(reader: Reader, name: str, params: Any) -> ModelResults:
    model = params.finetunings[name].model
    config = params.models.get(model)
    source = params.finetunings[name].tasks
    glue = reader.json(f"results/{name}/glue.json")
    before = reader.json(f"results/{name}/{BEFORE}", optional=True)
    tasks = measured_tasks(glue)
    has_squad = bool(params.squad_versions(name))
    squad = measured_squad(reader.json(f"results/{name}/squad.json", optional=not has_squad))
    examples = reader.json(f"build/models/{model}/examples.json", optional=True)
    for row in (*tasks, *squad):
        for arm, title in ARMS.items():
            if row.failed[arm]:
                failures = "; ".join(row.failed[arm])
                reader.missing.append(f"{name}, {row.title}, {title}: failed, {failures}")
            elif not row.scores[arm]:
                reader.missing.append(f"{name}, {row.title}, {title}: no scores")
    return ModelResults(
        name=name,
        data=_label(source, params, subset=any(row.subset for row in tasks)),
        sample=params.tasks[source].kind == "sample",
        own=params.tasks[source].kind == "custom",
        model=model,
        corpus=params.tokens[config.tokens].corpus if config else "",
        tasks_source=source,
        config=config,
        corpus_facts=reader.json(f"results/{name}/corpus.json") if config else {},
        pretrain=reader.json(f"results/{name}/pretrain.json") if config else {},
        curve=reader.curve(f"results/curves/{name}.csv") if config else {},
        tasks=tasks,
        average=measured_average(glue, tasks),
        squad=squad,
        examples=examples if isinstance(examples, list) else [],
        recorded=_recorded(reader, name),
        before={row.name: row.scores["pretrained"] for row in measured_tasks(before)},
    )


def measured_tasks(glue: dict[str, Any]) -> tuple[Measured, ...]:
    """Return each task of a glue.json by the metric that counts, GLUE's own tasks first and in
    GLUE's order.
    """
    parts = glue.get("tasks", {})
    order = [
        *(task for task in GLUE if task in parts),
        *(task for task in parts if task not in GLUE),
    ]
    return tuple(
        _measured(
            task,
            GLUE[task].title if task in GLUE else task,
            parts[task].get("metric", ""),
            parts[task],
        )
        for task in order
    )


def measured_average(glue: dict[str, Any], tasks: Sequence[Measured] = ()) -> Measured | None:
    """Return the mean over the tasks of a glue.json by its exact name, unless that lists the tasks:
    the table does so. None over a single task.

    It comes with the means of chance and of the best without a network, if all of these tasks have
    them.
    """
    average = glue.get("average")
    if not average or len(average.get("tasks", ())) == 1:
        return None
    name = str(average.get("name", "mean"))
    title = name if len(name) < 60 else f"mean over {len(average.get('tasks') or [])} tasks"
    counted = [row for row in tasks if row.name in average.get("tasks", [row.name])]
    baselines = {
        "chance": [row.baselines["chance"] for row in counted if "chance" in row.baselines],
        "the best of each": [row.best_baseline[0] for row in counted if row.best_baseline],
    }
    means = {
        name: statistics.fmean(scores)
        for name, scores in baselines.items()
        if 0 < len(scores) == len(counted)
    }
    return replace(_measured("average", title, "", average), baselines=means)


def measured_squad(squad: dict[str, Any]) -> tuple[Measured, ...]:
    """Return each version of a squad.json by F1."""
    versions = sorted(squad.get("versions", {}).items())
    return tuple(
        _measured(f"squad {version}", f"SQuAD {version}", "f1", values)
        for version, values in versions
    )


def _measured(name: str, title: str, metric: str, values: dict[str, Any]) -> Measured:
    """Return the scores of both arms: those of the metric that counts, and of all."""
    parts = {arm: values.get(arm) or {} for arm in ARMS}
    others: dict[str, dict[str, Scores]] = {}
    for arm, part in parts.items():
        for other, scores in (part.get("all") or {}).items():
            others.setdefault(other, {})[arm] = tuple(map(float, scores))
    baselines = dict(values.get("baselines") or {})
    if "never_answering" in baselines:
        baselines["chance"] = float(baselines.pop("never_answering"))
    return Measured(
        name=name,
        title=title,
        metric=metric,
        scores={arm: tuple(map(float, part.get("scores", ()))) for arm, part in parts.items()},
        failed={arm: tuple(map(str, part.get("failed", ()))) for arm, part in parts.items()},
        train_rows=values.get("train_rows"),
        dev_rows=values.get("dev_rows"),
        others=others,
        baselines=baselines,
    )


def _label(source: str, params: Any, *, subset: bool = False) -> str:
    """Return what data a task source's numbers are measured on, in a few words."""
    kind = str(params.tasks[source].kind)
    real = f"GLUE and SQuAD, {kind}" + (" subsets" if subset else "")
    return {"sample": "sample world", "custom": "custom tasks"}.get(kind, real)


def _recorded(reader: Reader, name: str) -> dict[str, Scores]:
    """Return the pre-trained arm over several pre-trainings, from the record of that model, if
    there is one.
    """
    values = reader.json(f"{RECORDS}/{name}-marks.json", optional=True)
    rows = {**values.get("tasks", {}), "average": values.get("mean_of_nine")}
    names = {task: f"squad {version}" for version, task in SQUAD.items()}
    return {
        names.get(task, task): tuple(map(float, facts["pretrained"]["scores"]))
        for task, facts in rows.items()
        if facts
    }


def _ablations(
    reader: Reader, params: Any, run: Sequence[str], *, only: bool
) -> tuple[Ablation, ...]:
    """Return every ablation with a result: those of this run, and unless `only` they count, the
    others from their records.
    """
    ablations: list[Ablation] = []
    never_run: list[str] = []
    for name, config in params.ablations.items():
        selected = name in run
        if only and not selected:
            continue
        path = f"results/{name}/ablation.json" if selected else f"{ABLATION_RECORDS}/{name}.json"
        values = reader.json(path, optional=not selected)
        if values:
            record = dict(values.get("record") or {})
            settings = (values.get("provenance") or {}).get("settings_digest")
            if record and settings and settings != settings_digest(name, params):
                record["other_settings"] = True
            rows = values.get("train_rows") or {}
            subset = any(rows[task] < GLUE[task].train_rows for task in rows if task in GLUE)
            data = _label(config.base.data, params, subset=subset)
            ablations.append(_ablation(reader, name, config, values, data, record, path))
        elif not selected:
            never_run.append(f"ablation {name}: {config.title}: not run")
    reader.unrun += never_run
    return tuple(ablations)


def _ablation(
    reader: Reader,
    name: str,
    config: Any,
    values: dict[str, Any],
    data: str,
    record: dict[str, Any],
    path: str,
) -> Ablation:
    parts = values.get("arms", {})
    order = [arm for arm in config.settings if arm in parts]
    order += [arm for arm in parts if arm not in order]
    ablation = Ablation(
        name=name,
        title=config.title,
        model=config.base.model,
        data=data,
        arms=tuple(_arm(arm, parts[arm]) for arm in order),
        axes=tuple(tuple(config.axis(axis)) for axis in config.grid),
        axis_names=tuple(axis.rpartition(".")[2].replace("_", " ") for axis in config.grid),
        labels=config.labels,
        compared=str(values.get("reference", "")),
        budget=str(values.get("budget", "equal_flops")),
        record=record,
        path=path,
    )
    if not ablation.axes and ablation.paper:
        best_first = list(ablation.paper.arms)
        arms = sorted(
            ablation.arms,
            key=lambda arm: best_first.index(arm.name) if arm.name in best_first else len(order),
        )
        ablation = replace(ablation, arms=tuple(arms))
    # what a record lacks is not missing here
    gaps = reader.unrun if record else reader.missing
    for arm in ablation.arms:
        if arm.failed:
            gaps.append(f"ablation {name}, {arm.label}: {arm.status}")
        for fault in parts[arm.name].get("failed") or ():
            if fault not in arm.status:
                gaps.append(f"ablation {name}, {arm.label}: failed {fault}")
    gaps += [
        f"ablation {name}: the arm {arm} has no result"
        for arm in config.settings
        if arm not in parts
    ]
    return ablation


def _arm(name: str, part: dict[str, Any]) -> Arm:
    points = [
        Point(float(point["fraction"]), float(point["flops"]), tuple(map(float, point["scores"])))
        for point in part.get("points") or ()
    ]
    tasks = part.get("glue") or {}
    return Arm(
        name=name,
        label=part["label"],
        status=part["status"],
        settings=part["settings"],
        flops=number(part, "flops"),
        steps=part.get("steps"),
        scores=tuple(map(float, (part.get("average") or {}).get("scores", ()))),
        tasks={task: tuple(map(float, scores)) for task, scores in tasks.items()},
        values=tuple(part.get("values") or ()),
        points=tuple(points),
        parameters=part.get("parameters", {}).get("discriminator"),
    )
