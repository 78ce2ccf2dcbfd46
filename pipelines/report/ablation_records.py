"""An ablation's record as the report uses it, wherever it lies, and one line for each that has none.

results/ablations/A.json              what params.yaml: run selects, and this clone has run
benchmarks/results/ablations/A.json   the others: a record of an earlier run (benchmarks/record_ablations.py)
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from electra.finetuning.tasks import GLUE, SQUAD
from pipelines.config.params import settings_digest
from pipelines.report import paper

if TYPE_CHECKING:
    from pipelines.report.inputs import Reader

RECORDS = "benchmarks/results/ablations"
TITLES = {**{name: task.title for name, task in GLUE.items()}, **{task: f"SQuAD {v}, F1" for v, task in SQUAD.items()}}


@dataclass(frozen=True)
class Point:
    """A run at a fraction of its steps: what it had spent, and its score per seed."""

    fraction: float
    flops: float
    scores: tuple[float, ...]


@dataclass(frozen=True)
class ArmRecord:
    """One arm of an ablation."""

    name: str
    label: str
    status: str
    flops: float | None
    steps: int | None
    scores: tuple[float, ...]  # the mean over the tasks, one per seed
    tasks: dict[str, tuple[float, ...]]
    pretrain: dict[str, Any]
    settings: dict[str, Any]
    values: tuple[str, ...] = ()  # of a grid's axes
    points: tuple[Point, ...] = ()
    parameters: int | None = None

    @property
    def failed(self) -> bool:
        """Whether it has no result."""
        return self.status != "ok"


@dataclass(frozen=True)
class Ablation:
    """One ablation: arms that differ in named settings. `axes`: a grid's axes, each with the names of its values."""

    name: str
    title: str
    model: str
    data: str
    arms: tuple[ArmRecord, ...]
    axes: tuple[tuple[str, ...], ...] = ()
    axis_names: tuple[str, ...] = ()
    labels: dict[str, str] = field(default_factory=dict)
    compared: str = ""  # the arm that the others are compared with
    budget: str = "equal_flops"
    record: dict[str, Any] = field(default_factory=dict)  # when, where and how long, of a recorded one
    provenance: dict[str, Any] = field(default_factory=dict)  # hashes of data, settings and code; seeds
    path: str = ""

    @property
    def origin(self) -> str:
        """Its data, and whether its numbers are this run's or a record's."""
        if not self.record:
            return self.data
        return f"{self.data}, recorded" + (" with other settings" if self.record.get("other_settings") else "")

    @property
    def tasks(self) -> dict[str, str]:
        """The titles of the tasks that any arm was scored on, in GLUE's order."""
        present = {task for arm in self.arms for task in arm.tasks}
        order = [task for task in TITLES if task in present] + sorted(present - set(TITLES))
        return {task: TITLES.get(task, task) for task in order}

    @property
    def paper(self) -> paper.Beside | None:
        """The paper's numbers for it, if it is one of the paper's."""
        return paper.beside({arm.name: arm.settings for arm in self.arms}) if len(self.axes) < 2 else None

    @property
    def reference(self) -> ArmRecord | None:
        """The arm that the others are compared with: the one named, else BERT, else the first."""
        named = (arm for arm in self.arms if arm.name == self.compared)
        plain = (arm for arm in self.arms if arm.settings.get("objective.name") == "mlm")
        return next(named, next(plain, self.arms[0] if self.arms else None))

    def label(self, value: str) -> str:
        """A value of an axis in words."""
        return self.labels.get(value, value)


def load(reader: "Reader", params: Any, label: Any) -> tuple[Ablation, ...]:
    """Every ablation that has a result; what is selected is read from this run, the rest from records.

    `label(task source, params)` names the data of a model's tasks.
    """
    found, absent = [], []
    for name, config in params.ablations.items():
        selected = name in params.run.ablations
        path = f"results/ablations/{name}.json" if selected else f"{RECORDS}/{name}.json"
        values = reader.json(path, optional=not selected)
        if values:
            data = label(config.data, params)
            seen = values.get("train_rows") or {}
            if data != "sample world" and any(seen[task] < GLUE[task].train_rows for task in seen if task in GLUE):
                data += " subsets"
            told = (values.get("provenance") or {}).get("settings_digest")
            if values.get("record") and told and told != settings_digest(name, params):
                values["record"]["other_settings"] = True
            found.append(_ablation(reader, name, config, values, data, path))
        elif not selected:
            absent.append(f"{name}: {config.title}")
    for line in absent:
        reader.unrun.append(f"ablation {line}: not run")
    return tuple(found)


def _ablation(reader: "Reader", name: str, config: Any, values: dict[str, Any], data: str, path: str) -> Ablation:
    settings = config.settings
    order = list(settings)
    if not config.grid and (beside := paper.beside(settings)):
        known = list(beside.arms)
        order.sort(key=lambda arm: known.index(arm) if arm in known else len(known))
    told = values.get("arms", {})
    lacking = reader.unrun if values.get("record") else reader.missing  # a record's gaps are none of this run
    arms = []
    for arm in sorted(told, key=lambda arm: order.index(arm) if arm in order else len(order)):
        part = told[arm]
        made = _arm(arm, part, settings.get(arm, {}))
        arms.append(made)
        if made.failed:
            lacking.append(f"ablation {name}, {made.label}: {made.status}")
        for fault in part.get("failed") or []:
            if fault not in made.status:
                lacking.append(f"ablation {name}, {made.label}: failed {fault}")
    for arm in order:
        if arm not in told:
            lacking.append(f"ablation {name}: the arm {arm} has no result")
    return Ablation(
        name=name,
        title=config.title,
        model=config.model,
        data=data,
        arms=tuple(arms),
        axes=tuple(tuple(config.axis(axis)) for axis in config.grid),
        axis_names=tuple(axis.rpartition(".")[2].replace("_", " ") for axis in config.grid),
        labels=config.labels,
        compared=str(values.get("reference", "")),
        budget=str(values.get("budget", "equal_flops")),
        record=values.get("record") or {},
        provenance={
            **{key: values[key] for key in ("rows_sha256", "seeds", "budget") if key in values},
            **(values.get("provenance") or {}),
        },
        path=path,
    )


def _arm(name: str, part: dict[str, Any], settings: dict[str, Any]) -> ArmRecord:
    return ArmRecord(
        name=name,
        label=str(part.get("label", name)),
        status=str(part.get("status", "ok")),
        flops=number(part, "flops"),
        steps=part.get("steps"),
        scores=tuple(map(float, (part.get("average") or {}).get("scores", []))),
        tasks={task: tuple(map(float, scores)) for task, scores in (part.get("glue") or {}).items()},
        pretrain=part.get("pretrain") or {},
        settings=part.get("settings", settings),
        values=tuple(part.get("values") or ()),
        points=tuple(
            Point(float(point["fraction"]), float(point["flops"]), tuple(map(float, point["scores"])))
            for point in part.get("points") or []
        ),
        parameters=part.get("parameters", {}).get("discriminator"),
    )


def number(values: dict[str, Any], name: str) -> float | None:
    """The value of a key, if it is a finite number."""
    value = values.get(name)
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        return None
    return float(value)


def by_cell(ablation: Ablation) -> dict[tuple[str, ...], ArmRecord]:
    """A grid's arms by their values."""
    return {arm.values: arm for arm in ablation.arms if arm.values}


def lines(ablation: Ablation) -> tuple[tuple[str, ...], tuple[str, ...], Sequence[Sequence[ArmRecord | None]]] | None:
    """A grid as lines over its longest axis: (values along it, names of the lines, arms by line and value)."""
    if not 0 < len(ablation.axes) < 3 or max(map(len, ablation.axes)) < 2:
        return None
    long = max(range(len(ablation.axes)), key=lambda axis: len(ablation.axes[axis]))
    cells = by_cell(ablation)
    along = ablation.axes[long]
    if len(ablation.axes) == 1:
        return along, ("",), [[cells.get((value,)) for value in along]]
    across = ablation.axes[1 - long]
    return along, across, [[cells.get((v, w) if long == 0 else (w, v)) for v in along] for w in across]
