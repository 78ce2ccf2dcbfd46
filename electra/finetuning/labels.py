"""Labels of rows: names of classes, finite numbers, and tags of words, which are scored by entity
F1.

1. tags of a row (IOB1, IOB2 or BIOES) -> spans (type, first word, last word), by the rules of
  conlleval
2. spans -> BIOES, which a model learns
3. predicted BIOES -> spans -> IOB2, which is written and scored
"""

import math
from collections.abc import Sequence
from typing import Any

from electra.errors import BadInput, shown
from electra.finetuning.tasks import Task

Span = tuple[str, int, int]


def read_label(value: Any, labels: Sequence[str]) -> tuple[str | float | None, str]:
    """A row's label and what is wrong with it ("" if nothing): a class name, or without classes a
    finite number.
    """
    if not labels:
        try:
            number = math.nan if isinstance(value, bool) else float(value)
        except (TypeError, ValueError, OverflowError):
            return None, f"label {shown(value)} is no number"
        return (
            (number, "")
            if math.isfinite(number)
            else (None, f"label {shown(value)} is no finite number")
        )
    name = label_name(value)
    if name not in labels and isinstance(value, bool | str) and set(labels) <= {"true", "false"}:
        name = name.lower()  # as tables write them
    elif isinstance(value, bool) and str(value) in labels:
        name = str(value)
    return (
        (name, "")
        if name in labels
        else (None, f"unknown label {shown(name)}, not one of {', '.join(labels)}")
    )


def label_name(value: object) -> str:
    """Return a class as text: `true` and `1` as JSON and YAML write them, whatever type a reader
    made of them.
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return value if isinstance(value, str) else shown(value)


def spans(tags: Sequence[str]) -> list[Span]:
    """(type, first, last) of each span, as conlleval and seqeval read them: a broken sequence
    starts a new span.
    """
    result: list[Span] = []
    begin, last = 0, ("O", "")
    for place, tag in enumerate([*tags, "O"]):
        edge, _, kind = tag.partition("-")
        ends = last[0] in "ES" or (last[0] in "BI" and (edge in "BSO" or kind != last[1]))
        if ends and last[0] != "O":
            result.append((last[1], begin, place - 1))
        starts = edge in "BS" or (edge in "EI" and (last[0] in "ESO" or kind != last[1]))
        if starts:
            begin = place
        last = (edge, kind)
    return result


def bioes(marked: Sequence[Span], words: int) -> list[str]:
    """Return spans as one tag a word: B … E, S for a single word, O outside."""
    tags = ["O"] * words
    for kind, first, last in marked:
        tags[first : last + 1] = [f"I-{kind}"] * (last + 1 - first)
        tags[first], tags[last] = (f"B-{kind}", f"E-{kind}") if first < last else (f"S-{kind}",) * 2
    return tags


def iob2(marked: Sequence[Span], words: int) -> list[str]:
    """Return spans as one tag a word: B I I, O outside."""
    tags = ["O"] * words
    for kind, first, last in marked:
        tags[first : last + 1] = [f"B-{kind}", *[f"I-{kind}"] * (last - first)]
    return tags


def entity_f1(predicted: Sequence[Sequence[str]], gold: Sequence[Sequence[str]]) -> float:
    """F1 over spans of all rows, in points: one is right if type, first and last word are; 0 if
    there are none.
    """
    ours = {(row, *span) for row, tags in enumerate(predicted) for span in spans(tags)}
    theirs = {(row, *span) for row, tags in enumerate(gold) for span in spans(tags)}
    return 200 * len(ours & theirs) / (len(ours) + len(theirs)) if ours or theirs else 0.0


def tag_scores(
    predicted: Sequence[Sequence[str]], gold: Sequence[Sequence[str]]
) -> dict[str, float]:
    """Return entity F1, and the share of words whose tag is right (both read as IOB2)."""
    same = [
        ours == theirs
        for row, tags in zip(predicted, gold, strict=True)
        for ours, theirs in zip(row, iob2(spans(tags), len(tags)), strict=True)
    ]
    return {
        "entity_f1": round(entity_f1(predicted, gold), 6),
        "accuracy": round(100 * sum(same) / len(same), 6),
    }


def check_tags(row: Any, task: Task, where: str, *, labelled: bool) -> None:
    """Raise BadInput for a row that is not words, each with a known tag."""
    words = row.get("words") if isinstance(row, dict) else None
    if (
        not isinstance(words, list)
        or not words
        or not all(isinstance(word, str) and word.strip() for word in words)
    ):
        raise BadInput(
            f'{where}: is {shown(row)}; expected an object with an id and words under "words"'
        )
    if not labelled:
        return
    tags = row.get("tags")
    if not isinstance(tags, list) or len(tags) != len(words):
        found = f"{len(tags)} tags" if isinstance(tags, list) else "no tags"
        raise BadInput(f"{where}: has {found} for {len(words)} words; expected a tag for each word")
    for tag in tags:
        if tag not in task.classes:
            raise BadInput(
                f"{where}: has the tag {shown(tag)}; expected O, or one of B-, I-, E-, S- before "
                f"{', '.join(task.labels)}"
            )
