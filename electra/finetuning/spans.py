"""Tags of words and the spans they stand for, scored by entity F1.

1. tags of a row (IOB1, IOB2 or BIOES) -> spans (type, first word, last word), by the rules of conlleval
2. spans -> BIOES, which a model learns
3. predicted BIOES -> spans -> IOB2, what is handed out and scored
"""

from collections.abc import Sequence
from typing import Any

from electra.errors import BadInput, shown
from electra.finetuning.tasks import Task

Span = tuple[str, int, int]


def spans(tags: Sequence[str]) -> list[Span]:
    """(type, first, last) of each span, as conlleval and seqeval read them: a broken sequence starts a new span."""
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
    """Spans as one tag a word: B … E, S for a single word, O outside."""
    tags = ["O"] * words
    for kind, first, last in marked:
        tags[first : last + 1] = [f"I-{kind}"] * (last + 1 - first)
        if first == last:
            tags[first] = f"S-{kind}"
        else:
            tags[first], tags[last] = f"B-{kind}", f"E-{kind}"
    return tags


def iob2(marked: Sequence[Span], words: int) -> list[str]:
    """Spans as one tag a word: B I I, O outside."""
    tags = ["O"] * words
    for kind, first, last in marked:
        tags[first : last + 1] = [f"B-{kind}", *[f"I-{kind}"] * (last - first)]
    return tags


def entity_f1(predicted: Sequence[Sequence[str]], gold: Sequence[Sequence[str]]) -> float:
    """F1 over spans of all rows, in points: one is right if type, first and last word are; 0 if there are none."""
    ours = {(row, *span) for row, tags in enumerate(predicted) for span in spans(tags)}
    theirs = {(row, *span) for row, tags in enumerate(gold) for span in spans(tags)}
    return 200 * len(ours & theirs) / (len(ours) + len(theirs)) if ours or theirs else 0.0


def tag_scores(predicted: Sequence[Sequence[str]], gold: Sequence[Sequence[str]]) -> dict[str, float]:
    """Entity F1, and the share of words whose tag is right (both read as IOB2)."""
    same = [
        ours == theirs
        for row, tags in zip(predicted, gold, strict=True)
        for ours, theirs in zip(row, iob2(spans(tags), len(tags)), strict=True)
    ]
    return {"entity_f1": round(entity_f1(predicted, gold), 6), "accuracy": round(100 * sum(same) / len(same), 6)}


def check_row(row: Any, task: Task, where: str, *, labelled: bool) -> None:
    """Raise BadInput for a row that is not words, each with a known tag."""
    words = row.get("words") if isinstance(row, dict) else None
    if not isinstance(words, list) or not words or not all(isinstance(word, str) and word.strip() for word in words):
        raise BadInput(where, f"is {shown(row)}", 'an object with an id and words under "words"')
    if not labelled:
        return
    tags = row.get("tags")
    if not isinstance(tags, list) or len(tags) != len(words):
        found = f"{len(tags)} tags" if isinstance(tags, list) else "no tags"
        raise BadInput(where, f"has {found} for {len(words)} words", "a tag for each word", "correct or remove the row")
    for tag in tags:
        if (fault := fault_of(tag, task.labels)) is not None:
            raise BadInput(where, f"has the tag {shown(tag)}", fault, "correct or remove the row")


def fault_of(tag: object, kinds: Sequence[str]) -> str | None:
    """What was expected instead of a tag; None if it is one of B, I, E, S with a known type, or O."""
    edge, _, kind = tag.partition("-") if isinstance(tag, str) else ("", "", "")
    if tag == "O" or (edge in {"B", "I", "E", "S"} and kind in kinds):
        return None
    return f"O, or one of B-, I-, E-, S- before {', '.join(kinds)}"
