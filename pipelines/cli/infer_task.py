"""Which columns of labelled rows are texts and label, and what kind of task the labels show: for
`electra new --task`.

Every row of the file is read once, so the labels are known wherever they are in it. Nothing is
chosen in silence: what was chosen and what stays unread is returned as notes.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from electra.errors import BadInput, shown
from electra.finetuning.labels import label_name
from pipelines.sources import custom_tasks
from pipelines.text.cleaning import Rejected

# with more distinct numbers than this, a label is a score rather than a class
MOST_CLASSES = 50
REMEMBERED = 10_000  # distinct values of a column
SHOWN = 5  # tags in a message
LABELS = (
    "label",
    "labels",
    "gold_label",
    "class",
    "category",
    "target",
    "tags",
    "ner_tags",
    "score",
)
TAG = re.compile(r"O|[BIES]-.+")


@dataclass
class Column:
    """What all rows show of one column."""

    characters: int = 0  # of text
    texts: int = 0  # rows with text
    lists: int = 0  # rows with a list
    largest: float = 0.0  # of the absolute numbers
    empty: int = 0  # rows with null
    values: dict[str, Any] = field(default_factory=dict)  # distinct ones, by their names as labels
    repeats: bool = False  # whether one of these stands in two rows
    items: dict[str, Any] = field(default_factory=dict)  # distinct items of lists

    def add(self, value: Any) -> None:
        """Take note of one row's value."""
        if isinstance(value, list):
            self.lists += 1
            self.characters += sum(len(str(item)) for item in value)
            self.items |= {label_name(item): item for item in value}
            return
        if value is None:
            self.empty += 1
            return
        if isinstance(value, str):
            self.texts += 1
            self.characters += len(value)
            value = value.strip()
        number = as_number(value)
        if number is not None:
            self.largest = max(self.largest, abs(number))
        name = label_name(value)
        self.repeats = self.repeats or name in self.values
        if len(self.values) <= REMEMBERED:
            self.values[name] = value


def as_number(value: Any) -> float | None:
    """Return a finite number, also of text; None for anything else."""
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def infer_task(file: str, given: Mapping[str, str]) -> tuple[dict[str, Any], int, list[str]]:
    """Return the settings of a task by the rows of its training file, their number, and notes for
    the user.

    `given` has the columns of `a`, `b` and `label`, "" where they are to be inferred. Raises
    BadInput for rows that are no task.
    """
    columns, rows = read_columns(file)
    chosen = choose_columns(file, columns, given, rows)
    column = columns[chosen["label"]]
    kind = infer_kind(f"{file}: the column {chosen['label']!r}", column)
    if kind.get("kind") == "tagging":
        chosen.pop("b", None)
    what = kind.get("kind") or f"{len(kind['labels'])} classes"
    reads = ", ".join(f"{key} = {name}" for key, name in chosen.items())
    notes = [f"{file}: {rows:,} rows; {reads} ({what})"]
    if column.empty or column.values.keys() - labels_of(column).keys():
        notes.append("rows with the label null, '' or '-' are skipped: they have none")
    if "-1" in map(str, kind.get("labels", ())):
        notes.append("-1 is a class here; remove its rows if it means that a row has no label")
    unread = [name for name in columns if name not in chosen.values()]
    if unread:
        notes.append(f"not read: {', '.join(unread)}; --a, --b and --label choose other columns")
    return chosen | kind, rows, notes


def read_columns(file: str) -> tuple[dict[str, Column], int]:
    """Read all rows, and return what they show of each column, and their number."""
    columns: dict[str, Column] = {}
    rows = 0
    rejected: list[Rejected] = []
    for _, row in custom_tasks.records(Path(file)):
        if isinstance(row, Rejected):
            rejected.append(row)
            continue
        rows += 1
        for name, value in row.items():
            columns.setdefault(name, Column()).add(value)
    columns.pop("", None)  # as tables have over their row numbers
    if not columns and rejected:
        raise BadInput(f"{rejected[0].where}: {rejected[0].reason}; no row can be read")
    if not columns:
        raise BadInput(f"{file}: has no row with a text and a label")
    if {"context", "question", "answers"} <= columns.keys():
        do = "write them as SQuAD's own JSON (docs/corpora.md, Tasks)"
        raise BadInput(f"{file}: holds questions with answers as rows; {do}")
    if len(columns) == 1 and "," in next(iter(columns)):
        raise BadInput(f"{file}: is separated by commas; write it as TSV, JSON lines or parquet")
    return columns, rows


def choose_columns(
    file: str, columns: Mapping[str, Column], given: Mapping[str, str], rows: int
) -> dict[str, str]:
    """Return the columns of texts, label and id: as given, by their usual names, or by contents."""
    names = list(columns)
    label = given.get("label") or guess_label(columns, rows)
    others = [name for name in names if name != label]
    pair = next((pair for pair in custom_tasks.PAIRS if set(pair) <= set(others)), ("", ""))
    if given.get("a") or given.get("b"):
        pair = ("", given.get("b", ""))
    texts = [name for name in others if name != pair[1]]
    longest = max(texts, key=lambda name: columns[name].characters, default="")
    chosen = {"a": given.get("a") or pair[0] or longest, "b": pair[1], "label": label}
    for option, name in chosen.items():
        if name not in names and (name or option != "b"):
            listed = ", ".join(map(repr, names))
            raise BadInput(
                f"{file}: which of its columns ({listed}) is the {option}? Give --{option}"
            )
    identity = columns.get("id", Column())
    numbered = len(identity.values) == min(rows, REMEMBERED + 1) and not identity.repeats
    plain = all(
        isinstance(value, str | int) and not isinstance(value, bool)
        for value in identity.values.values()
    )
    chosen["id"] = "id" if numbered and plain and "id" not in chosen.values() else ""
    return {key: name for key, name in chosen.items() if name}


def guess_label(columns: Mapping[str, Column], rows: int) -> str:
    """Return the column of the label by its name, or where clearly the fewest values are. Else
    "".
    """
    usual = [name for name in LABELS if name in columns]
    if usual:
        return usual[0]
    by_count = sorted(
        (len(column.values), name) for name, column in columns.items() if column.values
    )
    if len(by_count) < 2:
        return ""
    (fewest, name), (following, _) = by_count[:2]
    is_clear = 2 <= fewest <= min(MOST_CLASSES, rows // 2) and fewest < following
    return name if is_clear else ""


def infer_kind(where: str, column: Column) -> dict[str, Any]:
    """Return the kind of task that a column of labels shows: tagging, regression or
    classification.
    """
    if column.lists:
        return infer_spans(where, column)
    labels = labels_of(column)
    if odd := [value for value in labels.values() if not isinstance(value, str | int | float)]:
        raise BadInput(f"{where} holds {shown(odd[0])}; a label is text, a number, true or false")
    numbers = [as_number(value) for value in labels.values()]
    are_scores = len(labels) > MOST_CLASSES or any(number and number % 1 for number in numbers)
    if labels and are_scores and None not in numbers:
        return {"kind": "regression", "scale": max(1.0, column.largest)}
    if len(labels) > REMEMBERED:
        raise BadInput(f"{where} has more than {REMEMBERED:,} different labels; give --label")
    if len(labels) < 2:
        only = ", ".join(map(shown, labels)) or "nothing"
        raise BadInput(f"{where} holds {only} in every row; a task needs two classes or more")
    classes = [value if isinstance(value, str | int) else name for name, value in labels.items()]
    return {"labels": sorted(classes, key=str)}


def labels_of(column: Column) -> dict[str, Any]:
    """Return the labels of a column by their names, without what says that a row has none.

    `-` says so beside words, as in SNLI, and is a class of its own beside signs.
    """
    labels = {name: value for name, value in column.values.items() if name}
    words = labels.keys() - {"-"}
    if len(words) > 1 and all(len(name) > 1 for name in words):
        labels.pop("-", None)
    return labels


def infer_spans(where: str, column: Column) -> dict[str, Any]:
    """Return the types of spans that the tags of a column show."""
    if column.values or column.empty:
        raise BadInput(f"{where} holds lists in some rows only; give --label")
    if numbers := [tag for tag in column.items.values() if not isinstance(tag, str)]:
        listed = ", ".join(map(shown, numbers[:SHOWN]))
        more = ", ..." if len(numbers) > SHOWN else ""
        do = "write the names of the tags, such as B-PER"
        raise BadInput(f"{where} holds tags that are no text ({listed}{more}); {do}")
    other = [tag for tag in column.items if not TAG.fullmatch(tag)]
    if other or not column.items:
        fault = f"holds lists with {shown(other[0])}" if other else "holds empty lists"
        raise BadInput(
            f"{where} {fault}, which is no tag such as B-PER; "
            "several classes for one row are not supported"
        )
    spans = sorted({tag.partition("-")[2] for tag in column.items} - {""})
    if not spans:
        raise BadInput(f"{where} has no tag but O")
    return {"kind": "tagging", "labels": spans}
