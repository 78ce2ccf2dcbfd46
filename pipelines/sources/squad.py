"""SQuAD 1.1 and 2.0 in their official JSON layout (or the hub's rows), to rows
{"id", "title", "question", "context", "answers": [{"text", "start"}], "impossible"}.

A question is rejected when no answer stands in the context where it says, unless it is marked
impossible.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from electra.errors import BadInput, SourceUnreachable, shown
from electra.files import encodes
from pipelines.sources.streams import EXCERPT
from pipelines.text.cleaning import Rejected

Row = dict[str, Any]
FILES = {
    "squad1": {"train": "train-v1.1.json", "dev": "dev-v1.1.json"},
    "squad2": {"train": "train-v2.0.json", "dev": "dev-v2.0.json"},
}


def read_json(path: Path, *, answered: bool = True) -> Iterator[Row | Rejected]:
    """The questions of one official file, in its order, with their answers or (not `answered`)
    without; raises BadInput when the file as a whole is not one.
    """
    try:
        content = json.loads(path.read_bytes())  # the library tells UTF-8, UTF-16 and UTF-32 apart
        articles = content["data"]
        if not isinstance(articles, list):
            raise TypeError("`data` is no list")
    except FileNotFoundError:
        raise SourceUnreachable(f"{path}: there is no such file") from None
    except (ValueError, RecursionError, KeyError, TypeError, IsADirectoryError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise BadInput(
            f'{path}: is not in SQuAD\'s layout, an object with a list "data" ({reason})'
        ) from None
    seen: set[str] = set()
    for i, article in enumerate(articles):
        if (paragraphs := _list(article, "paragraphs")) is None:
            yield Rejected(f"{path}: data[{i}]", "no list of paragraphs")
        for j, paragraph in enumerate(paragraphs or ()):
            where = f"{path}: data[{i}].paragraphs[{j}]"
            if (questions := _list(paragraph, "qas")) is None:
                yield Rejected(where, "no list of questions")
            for k, question in enumerate(questions or ()):
                if not isinstance(question, dict):
                    yield Rejected(f"{where}.qas[{k}]", "not a JSON object")
                    continue
                answers: list[tuple[Any, Any]] = []
                impossible = True
                if answered:
                    given = [
                        each for each in _list(question, "answers") or () if isinstance(each, dict)
                    ]
                    answers = [(each.get("text"), each.get("answer_start")) for each in given]
                    impossible = question.get("is_impossible", False)
                row = {
                    **question,
                    "title": article.get("title", ""),
                    "context": paragraph.get("context"),
                }
                yield make_row(row, answers, impossible, seen, f"{where}.qas[{k}]")


def hub_rows(rows: Iterable[Mapping[str, Any]], task: str, where: str) -> Iterator[Row | Rejected]:
    """The rows of a split of the hub's squad or squad_v2 (no answers: impossible, in 2.0)."""
    seen: set[str] = set()
    for number, row in enumerate(rows):
        given = row.get("answers") or {}
        answers = list(zip(given.get("text", ()), given.get("answer_start", ()), strict=False))
        yield make_row(row, answers, task == "squad2" and not answers, seen, f"{where}:{number}")


def make_row(
    row: Mapping[str, Any],
    answers: Iterable[tuple[Any, Any]],
    impossible: Any,
    seen: set[str],
    where: str,
) -> Row | Rejected:
    """A row with id, title, question and context, whose answers were checked against its context."""
    for name in ("id", "question", "context"):
        if not isinstance(value := row.get(name), str) or not value.strip():
            return Rejected(where, f"no {name}", shown(value))
    title = row.get("title", "")
    texts = {**row, "title": title if isinstance(title, str) else shown(title)}
    made: Row = {name: texts[name] for name in ("id", "title", "question", "context")}
    if not encodes("".join(made.values())):
        return Rejected(where, "lone surrogate", ascii(made["question"])[:EXCERPT])
    if made["id"] in seen:
        return Rejected(where, "an id that occurred before", made["id"][:EXCERPT])
    seen.add(made["id"])
    answers = list(answers)
    if not isinstance(impossible, bool):
        return Rejected(where, f"is_impossible is {shown(impossible)} instead of true or false")
    if impossible and answers:
        return Rejected(where, "impossible and answered", made["question"][:EXCERPT])
    found = [
        {"text": text, "start": start}
        for text, start in answers
        if _stands(text, start, made["context"])
    ]
    if not found and not impossible:
        return Rejected(
            where, "no answer that stands in the context where it says", made["question"][:EXCERPT]
        )
    return {**made, "answers": found, "impossible": impossible}


def _stands(text: Any, start: Any, context: str) -> bool:
    """Whether an answer stands in the context where it says."""
    known = isinstance(text, str) and text and type(start) is int and start >= 0
    return bool(known) and context[start : start + len(text)] == text


def _list(value: Any, key: str) -> list[Any] | None:
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, list) else None
