"""Recorded runs of models that this clone has not run: benchmarks/results/*.json, shown as what they are.

A record holds a model's fine-tuning scores with a sentence on its data. Other files of that
folder (timings) are passed by.
"""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from electra.errors import UserError
from electra.files import read_json
from electra.finetuning.tasks import GLUE
from pipelines.report.table import Cell, Column, Spread, Table, integer

FOLDER = "benchmarks/results"
SUBSET = "subset"


@dataclass(frozen=True)
class Record:
    """One recorded run: a name, its data, what is to be known of it, and scores by task and arm."""

    name: str
    data: str
    details: tuple[tuple[str, str], ...]
    rows: tuple[tuple[Cell, ...], ...]  # task, metric, train rows, pre-trained, from scratch


def load(root: Path, models: Collection[str]) -> tuple[Record, ...]:
    """Every record below `root`, by name; one that is called like none of the `models` of today says so."""
    found = []
    for path in sorted((root / FOLDER).glob("*.json")):
        try:
            values = read_json(path)
        except UserError:
            continue
        if isinstance(values, dict) and (made := _record(path.stem, values, path.stem in models)):
            found.append(made)
    return tuple(found)


def _record(name: str, values: dict[str, Any], known: bool) -> Record | None:
    tasks = values.get("tasks") or (values.get("glue") or {}).get("tasks")
    pretrain = values.get("pretrain")
    if not isinstance(tasks, dict) or not isinstance(pretrain, dict):
        return None
    rows: list[tuple[Cell, ...]] = []
    subset = False
    for task in [task for task in GLUE if isinstance(tasks.get(task), dict)]:
        metric = GLUE[task].metrics[0]
        part = tasks[task]
        seen = part.get("train_rows") or next(
            (part[arm].get("train_rows") for arm in ("pretrained", "scratch") if isinstance(part.get(arm), dict)), None
        )
        subset |= isinstance(seen, int) and seen < GLUE[task].train_rows
        scores = [_scores(part.get(arm), metric) for arm in ("pretrained", "scratch")]
        rows.append((GLUE[task].title, metric, seen, *(Spread(found) for found in scores)))
    if not rows:
        return None
    text = str(pretrain.get("label", "")).replace("_", " ")
    data = f"GLUE, {text}" if text != "sample world" else text
    if subset and text != "sample world":
        data = f"GLUE {SUBSET}s, pre-trained on {text}"
    details = [
        ("status", str(values.get("status", ""))),
        ("settings", "" if known else "of an earlier params.yaml, which had an entry of this name"),
        ("data", str(values.get("data", "")) if isinstance(values.get("data"), str) else ""),
        ("pre-training", f"{integer(pretrain.get('steps'))} steps, {integer(pretrain.get('tokens'))} tokens"),
        (
            "discriminator",
            f"AUC {pretrain['disc_auc']:.3f}, recall {pretrain['disc_recall']:.3f} on held-out text"
            if {"disc_auc", "disc_recall"} <= set(pretrain)
            else "",
        ),
        ("recorded", f"{values.get('recorded', '')}, {FOLDER}/{name}.json"),
    ]
    return Record(name, data, tuple((key, said) for key, said in details if said), tuple(rows))


def _scores(part: Any, metric: str) -> tuple[float, ...]:
    """Scores of an arm: a list over seeds, or the metrics of a single run."""
    if not isinstance(part, dict):
        return ()
    if "scores" in part:
        return tuple(float(score) for score in part["scores"] if score is not None)
    found = (part.get("metrics") or {}).get(metric)
    return () if found is None else (float(found),)


def table(record: Record) -> Table:
    """A record's scores."""
    return Table(
        name=f"record-{record.name}",
        title=f"{record.name}: recorded run, points on dev ({record.data})",
        columns=(
            Column("task", align="left"),
            Column("metric", under="task", align="left"),
            Column("train rows"),
            Column("pre-trained", 1),
            Column("from scratch", 1),
        ),
        rows=record.rows,
    )
