"""Labels of rows: names of classes, finite numbers, and tags of words, which are scored by entity
F1.

1. tags of a row (IOB1, IOB2 or BIOES) -> spans (type, first word, last word), by the rules of
  conlleval
2. spans -> BIOES, which a model learns
3. predicted BIOES -> spans -> IOB2, which is written and scored
"""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from electra.errors import BadInput, short_repr
from electra.finetuning.tasks import Task

Span = tuple[str, int, int]
_WORDS = re.compile(r"[^ \t\n\r\f\v]+")  # a no-break space is part of a word


def split_words(value: Any) -> Any:
    """Return the words of a text, and anything else as it is."""
    return _WORDS.findall(value) if isinstance(value, str) else value


def read_label(value: Any, labels: Sequence[str]) -> tuple[str | float | None, str]:
    """Return a row's label and what is wrong with it ("" if nothing): a class name, or without
    classes a finite number.
    """
    if not labels:
        try:
            number = float(value)
        except (TypeError, ValueError, OverflowError):
            number = None
        if number is None or isinstance(value, bool) or "_" in str(value):  # Python reads 1_000
            return None, f"label {short_repr(value)} is not a number"
        if not math.isfinite(number):
            return None, f"label {short_repr(value)} is not a finite number"
        return number, ""
    name = label_name(value)
    if name not in labels and isinstance(value, bool | str) and set(labels) <= {"true", "false"}:
        name = name.lower()  # as tables write them
    elif isinstance(value, bool) and str(value) in labels:
        name = str(value)
    if name in labels:
        return name, ""
    return None, f"unknown label {short_repr(name)}, not one of {', '.join(labels)}"


def label_name(value: object) -> str:
    """Return a class as text: `true` and `1` as JSON and YAML write them, whatever their type."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return value if isinstance(value, str) else short_repr(value)


def spans(tags: Sequence[str]) -> list[Span]:
    """Return (type, first, last) of each span, as conlleval and seqeval read them: a broken
    sequence starts a new span.
    """
    result: list[Span] = []
    begin = 0
    last_edge = "O"
    last_type = ""
    for place, tag in enumerate([*tags, "O"]):
        edge, _, span_type = tag.partition("-")
        other = span_type != last_type
        if last_edge in "ES" or (last_edge in "BI" and (edge in "BSO" or other)):
            result.append((last_type, begin, place - 1))
        if edge in "BS" or (edge in "EI" and (last_edge in "ESO" or other)):
            begin = place
        last_edge = edge
        last_type = span_type
    return result


def bioes(marked: Sequence[Span], words: int) -> list[str]:
    """Return spans as one tag a word: B … E, S for a single word, O outside."""
    tags = iob2(marked, words)
    for span_type, first, last in marked:
        tags[last] = f"E-{span_type}" if first < last else f"S-{span_type}"
    return tags


def iob2(marked: Sequence[Span], words: int) -> list[str]:
    """Return spans as one tag a word: B I I, O outside."""
    tags = ["O"] * words
    for span_type, first, last in marked:
        tags[first : last + 1] = [f"B-{span_type}", *[f"I-{span_type}"] * (last - first)]
    return tags


def entity_f1(predicted: Sequence[Sequence[str]], gold: Sequence[Sequence[str]]) -> float:
    """Return F1 over spans of all rows, in points, or 0 if there are none. A span is right if type,
    first and last word are.
    """
    total = sum(len(spans(tags)) for tags in [*predicted, *gold])
    right = sum(
        len({*spans(ours)} & {*spans(theirs)}) for ours, theirs in zip(predicted, gold, strict=True)
    )
    return 200 * right / total if total else 0.0


def tag_scores(
    predicted: Sequence[Sequence[str]], gold: Sequence[Sequence[str]]
) -> dict[str, float]:
    """Return entity F1, and the share of words with the right tag (both read as IOB2)."""
    right: list[bool] = []
    for ours, theirs in zip(predicted, gold, strict=True):
        expected = iob2(spans(theirs), len(theirs))
        right += [tag == other for tag, other in zip(ours, expected, strict=True)]
    return {
        "entity_f1": round(entity_f1(predicted, gold), 6),
        "accuracy": round(100 * sum(right) / len(right), 6),
    }


def check_tags(row: Mapping[str, Any], task: Task, where: str, *, labelled: bool) -> None:
    """Raise BadInput for a row that is not words, each with a known tag."""
    words = row.get("words")
    words = words if isinstance(words, list) else []
    if not words or not all(isinstance(word, str) and word.strip() for word in words):
        raise BadInput(
            f'{where}: is {short_repr(row)}; expected an object with an id and words under "words"'
        )
    if not labelled:
        return
    tags = row.get("tags")
    if not isinstance(tags, list) or len(tags) != len(words):
        count = f"{len(tags)} tags" if isinstance(tags, list) else "no tags"
        raise BadInput(f"{where}: has {count} for {len(words)} words; expected a tag for each word")
    for tag in tags:
        if tag not in task.classes:
            raise BadInput(
                f"{where}: has the tag {short_repr(tag)}; expected O, or one of B-, I-, E-, S- "
                f"before {', '.join(task.labels)}"
            )
