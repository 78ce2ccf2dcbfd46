"""Infer from labelled rows which columns are texts and label, and the kind of task, for
`electra new --task`.

All rows of the file are read, so the labels are known wherever they are in it. Nothing is chosen in
silence: choices and unread columns are returned as notes.
"""

import itertools
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from electra.errors import BadInput, pluralize, short_repr
from electra.finetuning.labels import label_name, read_label, split_words
from pipelines.sources import custom_tasks
from pipelines.text.cleaning import Rejected

# with more distinct numbers than this, a label is a score rather than a class
MOST_CLASSES = 50
ONE_CLASS = "several classes for one row are not supported"
MOST_LABELS = 10_000
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
TEXTS = ("text", "sentence", "tokens", "words")
TAG = re.compile(r"O|[BIES]-.+")
Columns = dict[str, list[Any]]  # the values of all rows that have one


def infer_task(file: str, given: Mapping[str, str]) -> tuple[dict[str, Any], int, list[str]]:
    """Return the settings of a task by the rows of its training file, their number, and notes for
    the user.

    `given` has the columns of `a`, `b` and `label`, "" where they are to be inferred. Raises
    BadInput for rows that do not make a task.
    """
    columns, rows, rejected = read_columns(file)
    chosen = choose_columns(file, columns, given, rows)
    values = columns[chosen["label"]]
    kind = infer_kind(f"{file}: the column {chosen['label']!r}", values)
    if kind.get("kind") == "tagging":
        chosen.pop("b", None)
    what = kind.get("kind") or f"{len(kind['labels'])} classes"
    reads = ", ".join(f"{key} = {name}" for key, name in chosen.items())
    notes = [f"{file}: {pluralize(rows, 'row')}; {reads} ({what})"]
    if rejected:
        fault = f"{rejected[0].where}: {rejected[0].reason}"
        notes.append(
            f"warning: {pluralize(len(rejected), 'row')} cannot be read; the first is {fault}"
        )
    classes = list(map(str, kind.get("labels", ())))
    missing = [value for value in values if custom_tasks.is_missing(value, classes)]
    if missing:
        notes.append(
            f"left out: {pluralize(len(missing), 'row')} with the label null, '', '-' or -1; if "
            "that is a class, add it to `labels`"
        )
    unread = [name for name in columns if name not in chosen.values()]
    if unread:
        notes.append(f"not read: {', '.join(unread)}; --a, --b and --label choose other columns")
    return chosen | kind, rows, notes


def read_columns(file: str) -> tuple[Columns, int, list[Rejected]]:
    """Read all rows, and return their columns, their number and those that cannot be read."""
    columns: Columns = {}
    rows = 0
    rejected: list[Rejected] = []
    for _, row in custom_tasks.records(Path(file)):
        if isinstance(row, Rejected):
            rejected.append(row)
            continue
        rows += 1
        for name, value in row.items():
            columns.setdefault(name, []).append(value)
    columns.pop("", None)  # as tables have over their row numbers
    if not columns and rejected:
        raise BadInput(f"{rejected[0].where}: {rejected[0].reason}; no row can be read")
    if not columns:
        raise BadInput(f"{file}: has no row with a text and a label")
    if {"context", "question", "answers"} <= columns.keys():
        do = "`new` writes no settings for them; do it by hand (docs/corpora.md, Tasks)"
        raise BadInput(f"{file}: holds questions with answers; {do}")
    if len(columns) == 1:
        only = short_repr(next(iter(columns)))
        do = "write a table with a header, JSON lines, parquet or CoNLL"
        raise BadInput(f"{file}: has only the column {only}; {do}")
    return columns, rows, rejected


def choose_columns(
    file: str, columns: Columns, given: Mapping[str, str], rows: int
) -> dict[str, str]:
    """Return the columns of texts, label and id: as given, by their usual names, or by contents."""
    label = given.get("label") or guess_label(columns, rows)
    others = [name for name in columns if name != label]
    pair = next((pair for pair in custom_tasks.PAIRS if set(pair) <= set(others)), ("", ""))
    if given.get("a") or given.get("b"):
        pair = ("", given.get("b", ""))
    texts = [name for name in others if name != pair[1]]
    if holds_lists(columns.get(label, ())):
        texts = [name for name in texts if holds_lists(columns[name])] or texts
    longest = max(texts, key=lambda name: count_characters(columns[name]), default="")
    usual = next((name for name in TEXTS if name in texts), longest)
    chosen = {"a": given.get("a") or pair[0] or usual, "b": pair[1], "label": label}
    for option, name in chosen.items():
        if name not in columns and (name or option != "b"):
            listed = ", ".join(map(repr, columns))
            raise BadInput(
                f"{file}: which of its columns ({listed}) is the {option}? Give --{option}"
            )
    ids = columns.get("id", [])
    are_ids = all(isinstance(value, str | int) and not isinstance(value, bool) for value in ids)
    if are_ids and len(set(map(str, ids))) == rows and "id" not in chosen.values():
        chosen["id"] = "id"
    return {key: name for key, name in chosen.items() if name}


def holds_lists(values: Sequence[Any]) -> bool:
    """Return whether some rows of a column have lists."""
    return any(isinstance(value, list) for value in values)


def count_characters(values: Sequence[Any]) -> int:
    """Return the characters of all texts and words of a column."""
    return sum(len(str(value)) for value in values if isinstance(value, str | list))


def distinct(values: Sequence[Any]) -> dict[str, Any]:
    """Return the different values of a column by their names as labels."""
    stripped = (value.strip() if isinstance(value, str) else value for value in values)
    present = (value for value in stripped if not custom_tasks.is_missing(value))
    return {label_name(value): value for value in present}


def guess_label(columns: Columns, rows: int) -> str:
    """Return the column of the label: by its name, or the one that clearly has the fewest values.
    Else "".
    """
    usual = [name for name in LABELS if name in columns]
    if usual:
        return usual[0]
    by_count = sorted((len(distinct(values)), name) for name, values in columns.items())
    by_count = [(count, name) for count, name in by_count if count]
    if len(by_count) < 2:
        return ""
    (fewest, name), (following, _) = by_count[:2]
    is_clear = 2 <= fewest <= min(MOST_CLASSES, rows // 2) and fewest < following
    return name if is_clear else ""


def infer_kind(where: str, values: Sequence[Any]) -> dict[str, Any]:
    """Return the kind of task that a column of labels shows: tagging, regression or
    classification.
    """
    present = [value for value in values if not custom_tasks.is_missing(value)]
    if holds_lists(present):
        return infer_spans(where, present)
    words = [split_words(value) for value in present]
    if are_tags(words):
        return infer_spans(where, words)
    labels = label_names(values)
    if odd := [value for value in labels.values() if not isinstance(value, str | int | float)]:
        raise BadInput(
            f"{where} holds {short_repr(odd[0])}; a label is text, a number, true or false"
        )
    numbers = [read_label(value, ())[0] for value in labels.values()]
    sizes = [abs(number) for number in numbers if isinstance(number, float)]
    are_scores = len(labels) > MOST_CLASSES or any(size % 1 for size in sizes)
    if are_scores and len(sizes) == len(labels):
        return {"kind": "regression", "scale": max(1.0, *sizes)}
    if len(labels) > MOST_LABELS:
        raise BadInput(f"{where} has more than {MOST_LABELS:,} different labels; give --label")
    if len(labels) < 2:
        only = ", ".join(map(short_repr, labels)) or "nothing"
        raise BadInput(f"{where} holds {only} in every row; a task needs two classes or more")
    classes = [value if isinstance(value, str | int) else name for name, value in labels.items()]
    return {"labels": sorted(classes, key=str)}


def label_names(values: Sequence[Any]) -> dict[str, Any]:
    """Return the names of the labels in a column, without marks for a missing label.

    Next to words, `-` marks a row without a label, as in SNLI. Next to signs it is a class. -1
    marks such a row next to words and next to 0, 1, ..., as `datasets` numbers classes.
    """
    labels = distinct(values)
    words = labels.keys() - {"-", "-1"}
    if len(words) > 1 and all(len(name) > 1 for name in words):
        labels.pop("-", None)
    numbered = words == set(map(str, range(len(words))))
    if len(words) > 1 and (numbered or all(read_label(name, ())[1] for name in words)):
        labels.pop("-1", None)
    return labels


def are_tags(rows: Sequence[Any]) -> bool:
    """Return whether rows are lists of tags, more than one in some."""
    if not all(isinstance(row, list) for row in rows) or all(len(row) < 2 for row in rows):
        return False
    return all(map(TAG.fullmatch, itertools.chain.from_iterable(rows)))


def infer_spans(where: str, values: Sequence[Any]) -> dict[str, Any]:
    """Return the types of spans that the tags of a column show."""
    if not all(isinstance(value, list) for value in values):
        raise BadInput(f"{where} holds lists in some rows only; give --label")
    tags = list(itertools.chain.from_iterable(values))
    if numbers := [tag for tag in tags if not isinstance(tag, str)]:
        do = f"write the names of the tags, such as B-PER; {ONE_CLASS}"
        raise BadInput(
            f"{where} holds lists with {short_repr(numbers[0])}, which is not text; {do}"
        )
    other = [tag for tag in tags if not TAG.fullmatch(tag)]
    if other or not tags:
        fault = f"holds lists with {short_repr(other[0])}" if other else "holds empty lists"
        raise BadInput(f"{where} {fault}, which is not a tag such as B-PER; {ONE_CLASS}")
    spans = sorted({tag.partition("-")[2] for tag in tags} - {""})
    if not spans:
        raise BadInput(f"{where} has no tag but O")
    return {"kind": "tagging", "labels": spans}
