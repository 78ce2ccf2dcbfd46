"""Results files to records; what is absent or broken becomes a sentence, never a gap without a
word.

    results/M/{pretrain,glue,squad}.json, results/curves/M.csv  one model
    results/A/ablation.json                                     one ablation that params.yaml: run selects
    results/{M,A}/{corpus,tokens,tasks}.json                    their data
    benchmarks/results/ablations/A.json                         the others, as recorded (record_ablations.py)
    benchmarks/results/M-marks.json, controls.json              one model over several pre-trainings, as recorded
    build/models/M/examples.json                                what the generator wrote

Of the stages' results only what `run` selects is read: the page depends on nothing that its DVC
stage does not name.
"""

import csv
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from electra.errors import UserError
from electra.files import as_written, read_json
from electra.finetuning.tasks import GLUE, SQUAD
from electra.storage.manifest import MANIFEST, verify_manifest
from pipelines import again
from pipelines.config.params import settings_digest
from pipelines.report import paper
from pipelines.report.records import (
    ARMS,
    Ablation,
    Arm,
    Inputs,
    Measured,
    ModelResults,
    Point,
    number,
)

RECORDS = "benchmarks/results"
ABLATION_RECORDS = f"{RECORDS}/ablations"


@as_written("results")
def load(params: Any, root: Path = Path()) -> Inputs:
    """Read what `params.run` selects from the results below `root`; CorruptFile where a record has
    another shape.
    """
    reader = Reader(root)
    models = tuple(_model(reader, name, params) for name in params.run.models)
    ablations = _ablations(reader, params)
    paths = [
        f"results/{name}/{stage}.json"
        for name in (*params.run.models, *params.run.ablations)
        for stage in ("corpus", "tokens", "tasks")
    ]
    data = {path: reader.json(path) for path in paths}
    return Inputs(models, ablations, data, tuple(reader.missing), tuple(reader.unrun))


class Reader:
    """Reads files below a root and collects a sentence for each that is absent or broken."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.missing: list[str] = []
        self.unrun: list[str] = []

    def json(self, path: str, *, optional: bool = False) -> Any:
        """The file's value; {} if it cannot be read, which is noted unless it is absent and
        `optional`.
        """
        if optional and not (self.root / path).exists():
            return {}
        try:
            if path.startswith("build/") and (self.root / path).exists():
                check(self.root / path)
            return read_json(self.root / path)
        except UserError as error:
            self.missing.append(str(error).removeprefix(f"{self.root}/"))
            return {}

    def curve(self, path: str) -> dict[str, list[float]]:
        """A CSV of numbers by column; an empty cell is NaN."""
        try:
            with (self.root / path).open(encoding="utf-8", newline="") as file:
                rows = list(csv.DictReader(file))
            return {
                column: [float(row[column] or "nan") for row in rows]
                for column in (rows[0] if rows else {})
            }
        except (OSError, ValueError, csv.Error) as error:
            self.missing.append(
                f"{path}: cannot be read ({getattr(error, 'strerror', None) or error})"
            )
            return {}


def check(path: Path) -> None:
    """Verify a file in build/<kind>/<name> against that folder's manifest; CorruptFile if it does
    not match.
    """
    folder = next((parent for parent in path.parents if (parent / MANIFEST).exists()), path.parent)
    stage = "pretrain" if folder.parent.name == "models" else folder.parent.name
    verify_manifest(
        folder, only=[str(path.relative_to(folder))], do=again(stage, folder.name), name=folder.name
    )


def _model(reader: Reader, name: str, params: Any) -> ModelResults:
    config, source = params.models[name], params.finetunings[name].tasks
    glue, squad = (reader.json(f"results/{name}/{stage}.json") for stage in ("glue", "squad"))
    examples = reader.json(f"build/models/{name}/examples.json")
    tasks, answers = measured_tasks(glue), measured_squad(squad)
    for row in (*tasks, *answers):
        reader.missing += _faults(f"{name}, {row.title}", row)
    pretrain, curve = (
        reader.json(f"results/{name}/pretrain.json"),
        reader.curve(f"results/curves/{name}.csv"),
    )
    return ModelResults(
        name=name,
        data=_label(source, params, subset=any(row.subset for row in tasks)),
        sample=params.tasks[source].kind == "sample",
        corpus=params.tokens[config.tokens].corpus,
        tasks_source=source,
        discriminator_weight=config.objective.discriminator_weight,
        pretrain=pretrain,
        curve=curve,
        tasks=tasks,
        average=measured_average(glue, tasks),
        squad=answers,
        examples=examples if isinstance(examples, list) else [],
        recorded=_recorded(reader, name),
        control=_control(reader, name),
    )


def measured_tasks(glue: dict[str, Any]) -> tuple[Measured, ...]:
    """Each task of a glue.json by the metric that counts, GLUE's own tasks first and in GLUE's
    order.
    """
    parts = glue.get("tasks", {})
    titles = {task: GLUE[task].title for task in GLUE if task in parts}
    titles |= {task: task for task in parts if task not in GLUE}
    return tuple(
        _measured(task, title, parts[task].get("metric", ""), parts[task])
        for task, title in titles.items()
    )


def measured_average(glue: dict[str, Any], tasks: Sequence[Measured] = ()) -> Measured | None:
    """The mean over the tasks of a glue.json by its exact name, unless that lists the tasks: the
    table does so.

    It comes with the means of chance and of the best without a network, if all of these tasks have
    them.
    """
    average = glue.get("average")
    if not average:
        return None
    name = str(average.get("name", "mean"))
    title = name if len(name) < 60 else f"mean over {len(average.get('tasks') or [])} tasks"
    counted = [row for row in tasks if row.name in average.get("tasks", [row.name])]
    ground = {"chance": [row.ground["chance"] for row in counted if "chance" in row.ground]}
    ground["the best of each"] = [row.simple[0] for row in counted if row.simple]
    whole = {
        name: statistics.fmean(of) for name, of in ground.items() if 0 < len(of) == len(counted)
    }
    return replace(_measured("average", title, "", average), ground=whole)


def measured_squad(squad: dict[str, Any]) -> tuple[Measured, ...]:
    """Each version of a squad.json by F1; the other figures are those of the same answers."""
    versions = sorted(squad.get("versions", {}).items())
    return tuple(
        _measured(f"squad {version}", f"SQuAD {version}", "f1", values)
        for version, values in versions
    )


def _measured(name: str, title: str, metric: str, values: dict[str, Any]) -> Measured:
    """The scores of both arms: those of the metric that counts, and of all."""
    scores, failed, others = {}, {}, dict[str, dict[str, tuple[float, ...]]]()
    for arm in ARMS:
        part = values.get(arm) or {}
        for other, found in (part.get("all") or {}).items():
            others.setdefault(other, {})[arm] = tuple(map(float, found))
        scores[arm] = tuple(float(score) for score in part.get("scores", []) if score is not None)
        failed[arm] = tuple(map(str, part.get("failed", [])))
    ground = dict(values.get("baselines") or {})
    if "never_answering" in ground:
        ground["chance"] = float(ground.pop("never_answering"))
    rows = values.get("train_rows"), values.get("dev_rows")
    return Measured(name, title, metric, scores, failed, *rows, others, ground)


def _faults(where: str, row: Measured) -> Iterator[str]:
    for arm, title in ARMS.items():
        if row.failed[arm]:
            yield f"{where}, {title}: failed, {'; '.join(row.failed[arm])}"
        elif not row.scores[arm]:
            yield f"{where}, {title}: no scores"


def _label(source: str, params: Any, *, subset: bool = False) -> str:
    """What data a task source's numbers are measured on, in a few words."""
    kind = str(params.tasks[source].kind)
    if kind in {"sample", "own"}:
        return {"sample": "sample world", "own": "own tasks"}[kind]
    return f"GLUE and SQuAD, {kind}" + (" subsets" if subset else "")


def _recorded(reader: Reader, name: str) -> dict[str, tuple[float, ...]]:
    """The pre-trained arm over several pre-trainings, from the record of that model, if there is
    one.
    """
    values = reader.json(f"{RECORDS}/{name}-marks.json", optional=True)
    rows = {**values.get("tasks", {}), "average": values.get("mean_of_nine")}
    names = {task: f"squad {version}" for version, task in SQUAD.items()}
    return {
        names.get(task, task): tuple(map(float, of["pretrained"]["scores"]))
        for task, of in rows.items()
        if of
    }


def _control(reader: Reader, name: str) -> float | None:
    """The mean over the tasks after pre-training from the published initial values, from the record
    of controls.
    """
    values = reader.json(f"{RECORDS}/controls.json", optional=True)
    return (
        float(values["controls"]["published_start"]["mean_of_nine"]["pretrained"])
        if name in values
        else None
    )


def _ablations(reader: Reader, params: Any) -> tuple[Ablation, ...]:
    """Every ablation with a result: selected ones from this run, the others from their records."""
    ablations, absent = [], []
    for name, config in params.ablations.items():
        selected = name in params.run.ablations
        path = f"results/{name}/ablation.json" if selected else f"{ABLATION_RECORDS}/{name}.json"
        values = reader.json(path, optional=not selected)
        if values:
            rows = values.get("train_rows") or {}
            subset = any(rows[task] < GLUE[task].train_rows for task in rows if task in GLUE)
            settings = (values.get("provenance") or {}).get("settings_digest")
            if values.get("record") and settings and settings != settings_digest(name, params):
                values["record"]["other_settings"] = True
            data = _label(config.base.data, params, subset=subset)
            ablations.append(_ablation(reader, name, config, values, data, path))
        elif not selected:
            absent.append(f"ablation {name}: {config.title}: not run")
    reader.unrun += absent
    return tuple(ablations)


def _ablation(
    reader: Reader, name: str, config: Any, values: dict[str, Any], data: str, path: str
) -> Ablation:
    order = list(config.settings)
    if not config.grid and (beside := paper.beside(config.settings)):
        best_first = list(beside.arms)
        order.sort(key=lambda arm: best_first.index(arm) if arm in best_first else len(best_first))
    parts = values.get("arms", {})
    names = sorted(parts, key=lambda arm: order.index(arm) if arm in order else len(order))
    arms = tuple(_arm(arm, parts[arm]) for arm in names)
    # what a record lacks is not missing here
    gaps = reader.unrun if values.get("record") else reader.missing
    for arm in arms:
        if arm.failed:
            gaps.append(f"ablation {name}, {arm.label}: {arm.status}")
        faults = parts[arm.name].get("failed") or []
        gaps += [
            f"ablation {name}, {arm.label}: failed {fault}"
            for fault in faults
            if fault not in arm.status
        ]
    gaps += [f"ablation {name}: the arm {arm} has no result" for arm in order if arm not in parts]
    return Ablation(
        name=name,
        title=config.title,
        model=config.base.model,
        data=data,
        arms=arms,
        axes=tuple(tuple(config.axis(axis)) for axis in config.grid),
        axis_names=tuple(axis.rpartition(".")[2].replace("_", " ") for axis in config.grid),
        labels=config.labels,
        compared=str(values.get("reference", "")),
        budget=str(values.get("budget", "equal_flops")),
        record=values.get("record") or {},
        path=path,
    )


def _arm(name: str, part: dict[str, Any]) -> Arm:
    return Arm(
        name=name,
        **{key: part[key] for key in ("label", "status", "settings")},
        flops=number(part, "flops"),
        steps=part.get("steps"),
        scores=tuple(map(float, (part.get("average") or {}).get("scores", []))),
        tasks={
            task: tuple(map(float, scores)) for task, scores in (part.get("glue") or {}).items()
        },
        values=tuple(part.get("values") or ()),
        points=tuple(
            Point(
                float(point["fraction"]), float(point["flops"]), tuple(map(float, point["scores"]))
            )
            for point in part.get("points") or []
        ),
        parameters=part.get("parameters", {}).get("discriminator"),
    )
