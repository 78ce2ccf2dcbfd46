"""A task and its fine-tuning for files of labelled rows."""

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from electra.data.text import Rejected
from electra.errors import BadConfig, BadInput
from pipelines.commands.new.columns import records

ROWS = 5_000  # read to infer columns and labels
MANY = 50  # with more distinct numbers than this, a label is a score rather than a class
LABELS = ("label", "labels", "class", "category", "target", "tags", "score")


def entries(name: str, files: Sequence[str], columns: dict[str, str], model: str) -> dict[str, Any]:
    """The entries of params.yaml, inferred from the rows of the first file."""
    if len(files) not in {2, 3}:
        raise BadConfig("--task", f"names {len(files)} files", "two or three: train, dev and perhaps test")
    rows = [row for _, row in islice(records(Path(files[0])), ROWS) if not isinstance(row, Rejected)]
    if not rows:
        raise BadInput(files[0], "has no row that can be read", "rows with a text and a label")
    found = dict(zip(("train", "dev", "test"), files, strict=False))
    found |= {key: value for key, value in _columns(files[0], rows, columns).items() if value}
    labels = [row.get(found["label"]) for row in rows]
    return {
        "tasks": {"kind": "own", "tasks": {name.replace("-", "_"): found | _kind(labels)}},
        "recipes": {"defaults": {"epochs": 10}},
        "finetunings": {"model": model, "tasks": name, "recipe": name, "arms": ["pretrained", "scratch"]},
    }


def _columns(file: str, rows: list[Any], given: dict[str, str]) -> dict[str, str]:
    """The columns of texts, label and id: as given, by their usual names, or by their contents."""
    names = list(dict.fromkeys(key for row in rows for key in row))
    kinds = {name: len({str(row.get(name)) for row in rows}) for name in names}
    fewest = sorted(names, key=kinds.__getitem__)[:2]
    most = min(MANY, len(rows) // 2)
    clear = len(fewest) == 2 and 2 <= kinds[fewest[0]] <= most and kinds[fewest[0]] < kinds[fewest[1]]
    usual = [name for name in LABELS if name in names]
    label = given.get("label") or next(iter(usual or fewest[:clear]), "")
    others = [name for name in names if name != label]
    a = given.get("a") or max(others, key=lambda name: sum(len(str(row.get(name))) for row in rows), default="")
    for option, column in {"label": label, "a": a, "b": given.get("b") or label}.items():
        if column not in names:
            found = f"has the columns {', '.join(map(repr, names))}"
            raise BadInput(file, found, f"the {option} among them", f"say --{option}")
    known = {row.get("id") for row in rows if isinstance(row.get("id"), str | int)}
    return {"a": a, "b": given.get("b", ""), "label": label, "id": "id" if len(known) == len(rows) else ""}


def _kind(labels: list[Any]) -> dict[str, Any]:
    """The kind of task that the labels show: tagging, regression or classification."""
    if any(isinstance(label, list) for label in labels):
        tags = {tag.partition("-")[2] for label in labels if isinstance(label, list) for tag in label}
        return {"kind": "tagging", "labels": sorted(tags - {""})}
    try:
        numbers = {float(label) for label in labels if not isinstance(label, bool)}
    except (TypeError, ValueError):
        numbers = set()
    if len(numbers) > MANY or any(number % 1 for number in numbers):
        return {"kind": "regression", "scale": max(1.0, *map(abs, numbers))}
    return {"labels": sorted({label for label in labels if isinstance(label, str | int)}, key=str)}
