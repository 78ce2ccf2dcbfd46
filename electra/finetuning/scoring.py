"""Figures of a file of predictions beside a file of references: both must speak of the same rows."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from electra.errors import BadInput
from electra.finetuning.task_kind import RowSequence
from electra.finetuning.task_registry import kind_of
from electra.finetuning.tasks import Task


def read_predictions(path: Path) -> dict[str, Any]:
    """Prediction by id: JSON lines of `id` and `prediction` (or `tags`), the leaderboard's TSV, or SQuAD's JSON."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise BadInput(path, f"cannot be read ({error.strerror})", "a file of predictions") from None
    except UnicodeDecodeError as error:
        raise BadInput(path, f"is not UTF-8 (byte {error.start:,})", "a file of predictions") from None
    if path.suffix == ".json":
        parsed = _parsed(text, path)
        if not isinstance(parsed, dict):
            raise BadInput(path, "holds no object", "answers by question id")
        return parsed
    if path.suffix == ".tsv":
        header, *lines = text.splitlines() or [""]
        if header.split("\t") != ["index", "prediction"]:
            raise BadInput(f"{path}:1", f"has the header {header!r:.60}", "index and prediction, parted by a tab")
        pairs: list[tuple[str, list[Any]]] = [
            (f"{path}:{number}", line.split("\t")) for number, line in enumerate(lines, 2)
        ]
    else:
        pairs = []
        for number, line in enumerate(text.split("\n"), 1):
            if line.strip():
                record = _parsed(line, where := f"{path}:{number}")
                given = record if isinstance(record, dict) else {}
                pairs.append((where, [given[key] for key in ("id", "prediction", "tags") if key in given]))
    answers: dict[str, Any] = {}
    for where, pair in pairs:
        if len(pair) != 2 or not isinstance(pair[0], str | int):
            raise BadInput(where, f"has {len(pair)} fields", "an id and a prediction")
        if str(pair[0]) in answers:
            raise BadInput(where, f"predicts {pair[0]} again", "each id once")
        answers[str(pair[0])] = pair[1]
    return answers


def _parsed(text: str, where: object) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise BadInput(where, f"is {text[:60]!r}, which is not JSON", "predictions") from None


def score(task: Task, rows: RowSequence, answers: Mapping[str, Any], where: Path) -> dict[str, float]:
    """Every metric of the task; raises BadInput for a row without a prediction, and for one that no row asked for."""
    _match(rows, answers, where)
    return kind_of(task).score(rows, answers, task, where)


def _match(rows: RowSequence, answers: Mapping[str, Any], where: Path) -> None:
    known = {row["id"] for row in rows}
    for number, row in enumerate(rows, 1):
        if row["id"] not in answers:
            found = f"has no prediction for id {row['id']} (row {number})"
            raise BadInput(where, found, f"one for each of {len(rows):,} rows")
    if strange := [key for key in answers if key not in known]:
        found = f"predicts id {strange[0]}, which is not among the references ({len(strange):,} such)"
        do = "set predictions beside the split they were made for"
        raise BadInput(where, found, f"the {len(rows):,} ids of the references", do)
