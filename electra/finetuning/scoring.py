"""Figures of a file of predictions beside a file of references: both must speak of the same rows."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from electra.errors import BadInput
from electra.files import read_json, read_jsonl
from electra.finetuning import spans, squad_metrics
from electra.finetuning.metrics import score
from electra.finetuning.tasks import Task

Rows = Sequence[Mapping[str, Any]]


def read_predictions(path: Path) -> dict[str, Any]:
    """Prediction by id: JSON lines with `id` and `prediction`, the leaderboard's TSV, or one JSON object (SQuAD's)."""
    if path.suffix == ".json":
        found = read_json(path)
        if not isinstance(found, dict):
            raise BadInput(path, "holds no object", "answers by question id")
        return found
    if path.suffix == ".tsv":
        header, *lines = path.read_text(encoding="utf-8").splitlines() or [""]
        if header.split("\t") != ["index", "prediction"]:
            raise BadInput(f"{path}:1", f"has the header {header!r:.60}", "index and prediction, parted by a tab")
        pairs = [(f"{path}:{number}", line.split("\t")) for number, line in enumerate(lines, 2)]
    else:
        records = [(f"{path}:{number}", record) for number, record in enumerate(read_jsonl(path), 1)]
        pairs = [
            (
                where,
                [record["id"], record["prediction"]]
                if isinstance(record, dict) and {"id", "prediction"} <= set(record)
                else [],
            )
            for where, record in records
        ]
    answers: dict[str, Any] = {}
    for where, pair in pairs:
        if len(pair) != 2:
            raise BadInput(where, f"has {len(pair)} fields", "an id and a prediction")
        if str(pair[0]) in answers:
            raise BadInput(where, f"predicts {pair[0]} again", "each id once")
        answers[str(pair[0])] = pair[1]
    return answers


def score_task(task: Task, rows: Rows, answers: Mapping[str, Any], where: Path) -> dict[str, float]:
    """Every metric of the task; raises BadInput for a row without a prediction, and for one that no row asked for."""
    _match(rows, answers, where)
    if task.tagging:
        return spans.tag_scores([answers[row["id"]] for row in rows], [row["tags"] for row in rows])
    index = {name: number for number, name in enumerate(task.labels)}
    predicted = []
    for number, row in enumerate(rows, 1):
        answer = answers[row["id"]]
        try:
            predicted.append(float(answer) if task.regression else index[str(answer)])
        except (ValueError, TypeError, KeyError):
            expected = "a number" if task.regression else f"one of {', '.join(task.labels)}"
            raise BadInput(where, f"predicts {answer!r} for id {row['id']} (row {number})", expected) from None
    predicted_N = np.array(predicted, dtype=np.float64)
    if not np.isfinite(predicted_N).all():
        raise BadInput(where, f"predicts {predicted_N[~np.isfinite(predicted_N)][0]}", "finite numbers")
    label_N = np.array([row["label"] if task.regression else index[row["label"]] for row in rows], dtype=np.float64)
    return {name: score(name, predicted_N, label_N) for name in task.metrics}


def score_answers(
    rows: Rows, answers: Mapping[str, Any], version: squad_metrics.Version, where: Path
) -> dict[str, float]:
    """Exact match and F1 as the official scripts give them; answers are as handed in, empty where there is none."""
    _match(rows, answers, where)
    for key, text in answers.items():
        if not isinstance(text, str):
            raise BadInput(where, f"answers {text!r:.40} to {key}", "text")
    figures = squad_metrics.evaluate(rows, answers, dict.fromkeys(answers, 0.0), version, 0.0)
    return {name: value for name, value in figures.items() if not name.startswith("best_")}


def _match(rows: Rows, answers: Mapping[str, Any], where: Path) -> None:
    known = {row["id"] for row in rows}
    for number, row in enumerate(rows, 1):
        if row["id"] not in answers:
            raise BadInput(
                where, f"has no prediction for id {row['id']} (row {number})", f"one for each of {len(rows):,} rows"
            )
    if strange := [key for key in answers if key not in known]:
        raise BadInput(
            where,
            f"predicts id {strange[0]}, which is not among the references ({len(strange):,} such)",
            f"the {len(rows):,} ids of the references",
            "set predictions beside the split they were made for",
        )
