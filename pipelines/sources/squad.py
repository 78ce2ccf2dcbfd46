"""SQuAD 1.1 and 2.0 to rows
{"id", "title", "question", "context", "answers": [{"text", "start"}], "impossible"}.

Files have the official JSON layout, or rows of `datasets` as JSON lines, a list or parquet. Answers
decide as in the official script: without any, a question of 2.0 is impossible. An offset counts
characters, or UTF-16 units or UTF-8 bytes where the answer is there. A question is rejected
when no answer is at its offset, or when its flag contradicts its answers.
"""

import itertools
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from electra.errors import BadInput, short_repr
from electra.files import encodes, unique_keys
from pipelines.sources import custom_tasks
from pipelines.sources.local import decoded_lines
from pipelines.sources.streams import EXCERPT, FileRange, plain_suffix, read_whole
from pipelines.text.cleaning import Rejected

Row = dict[str, Any]
Question = tuple[str, Any]  # place in the file, and the content there
FILES = {
    "squad1": {"train": "train-v1.1.json", "dev": "dev-v1.1.json"},
    "squad2": {"train": "train-v2.0.json", "dev": "dev-v2.0.json"},
}
NEEDED = ("id", "question", "context")
FLAGS = {"true": True, "1": True, "false": False, "0": False}


def find_file(folder: Path, name: str) -> Path:
    """Return an official file, or the one of rows that has its place."""
    path = folder / name
    files = [path, path.with_suffix(".jsonl"), path.with_suffix(".parquet")]
    return next(filter(os.path.lexists, files), path)


def read_questions(path: Path, *, answered: bool = True) -> Iterator[Row | Rejected]:
    """Yield the questions of a file in its order, with their answers or (not `answered`) without.

    Raises BadInput when the file as a whole is not one.
    """
    is_v2 = "v2" in path.name
    if plain_suffix(path) != ".json":
        return _make_rows(custom_tasks.records(path, NEEDED), is_v2, answered=answered)
    try:
        # the library tells UTF-8, UTF-16 and UTF-32 apart
        content = json.loads(read_whole(path), object_pairs_hook=unique_keys)
        articles = content if isinstance(content, list) else content["data"]
        if not isinstance(articles, list) or content == []:
            raise TypeError("`data` isn't a list")
    except (ValueError, RecursionError, KeyError, TypeError) as error:
        if "Extra data" in str(error):
            lines = custom_tasks.jsonl(decoded_lines(FileRange(path)), path, NEEDED)
            return _make_rows(lines, is_v2, answered=answered)
        raise BadInput(
            f'{path}: is not in SQuAD\'s layout, an object with a list "data" '
            f"({type(error).__name__}: {error})"
        ) from None
    if isinstance(content, dict):
        is_v2 |= str(content.get("version", "")).startswith(("v2", "2"))
    return _make_rows(_questions(articles, str(path)), is_v2, answered=answered)


def hub_rows(rows: Iterable[Mapping[str, Any]], task: str, where: str) -> Iterator[Row | Rejected]:
    """Yield the rows of a split of the hub's squad or squad_v2."""
    questions = ((f"{where}:{number}", row) for number, row in enumerate(rows))
    return _make_rows(questions, task == "squad2")


def _questions(articles: list[Any], path: str) -> Iterator[Question]:
    """Yield the questions of articles, each with its title and context."""
    for i, article in enumerate(articles):
        if isinstance(article, dict) and "question" in article:
            yield f"{path}: [{i}]", article
            continue
        for place, paragraph in _items(article, "paragraphs", f"{path}: data[{i}]"):
            for where, question in _items(paragraph, "qas", place):
                if isinstance(question, dict):
                    question["title"] = article.get("title", "")
                    question["context"] = paragraph.get("context")
                yield where, question


def _items(value: Any, key: str, where: str) -> Iterator[Question]:
    """Yield the items of a list within an object, or its fault."""
    if isinstance(value, Rejected):
        yield where, value
        return
    items = value.get(key) if isinstance(value, dict) else None
    if not isinstance(items, list):
        items = []
        yield where, Rejected(where, f"no list of {'questions' if key == 'qas' else key}")
    for number, item in enumerate(items):
        yield f"{where}.{key}[{number}]", item


def _make_rows(
    questions: Iterable[Question], is_v2: bool, *, answered: bool = True
) -> Iterator[Row | Rejected]:
    known: set[str] = set()
    for where, question in questions:
        if isinstance(question, Rejected):
            yield question
        elif isinstance(question, Mapping):
            answers = _answers_of(question) if answered else []
            flag = question.get("is_impossible") if answered else True
            if flag is None:
                flag = is_v2 and not answers and "answer" not in question
            row = _make_row(question, answers, flag, known, where)
            yield row
            if isinstance(row, dict) and len(row["answers"]) < len(answers):
                fault = "an answer that is not in the context at its offset"
                yield Rejected(where, fault, row["question"][:EXCERPT])
        else:
            yield Rejected(where, "not a JSON object")


def _answers_of(question: Mapping[str, Any]) -> list[tuple[Any, Any]]:
    """Return the text and the start of each answer, in either layout."""
    given = question.get("answers")
    if isinstance(given, dict):
        columns = map(_listed, (given.get("text"), given.get("answer_start")))
        return list(itertools.zip_longest(*columns))
    return [
        (answer.get("text"), answer.get("answer_start"))
        if isinstance(answer, dict)
        else (answer, None)
        for answer in _listed(given)
    ]


def _listed(value: Any) -> list[Any]:
    """Return a list, one of a single value, or none of null."""
    if isinstance(value, list):
        return value
    return [] if value is None else [value]


def _make_row(
    question: Mapping[str, Any],
    answers: list[tuple[Any, Any]],
    flag: Any,
    known: set[str],
    where: str,
) -> Row | Rejected:
    """Return a row with the answers that are in its context, or why not; `known` gets its id."""
    impossible = FLAGS.get(str(flag).lower())
    if impossible is None:
        return Rejected(where, f"is_impossible is {short_repr(flag)} instead of true or false")
    title = question.get("title", "")
    row: Row = {
        "id": question.get("id"),
        "title": title if isinstance(title, str) else short_repr(title),
        "question": question.get("question"),
        "context": question.get("context"),
    }
    for name in NEEDED:
        if not isinstance(row[name], str) or not row[name].strip():
            return Rejected(where, f"no {name}", short_repr(row[name]))
    excerpt = row["question"][:EXCERPT]
    if not encodes("".join(row.values())):
        return Rejected(where, "lone surrogate", ascii(excerpt))
    if row["id"] in known:
        return Rejected(where, "an id that occurred before", row["id"][:EXCERPT])
    known.add(row["id"])
    if impossible and answers:
        return Rejected(where, "impossible and answered", excerpt)
    if not impossible and not answers:
        return Rejected(where, "no answers, and not marked impossible", excerpt)
    located = [(text, _locate(text, start, row["context"])) for text, start in answers]
    standing = [{"text": text, "start": place} for text, place in located if place is not None]
    if answers and not standing:
        return Rejected(where, "no answer is in the context at its offset", excerpt)
    return {**row, "answers": standing, "impossible": impossible}


def _locate(text: Any, start: Any, context: str) -> int | None:
    """Return the character at which an answer begins, if it is at its offset."""
    if isinstance(start, str) and start.isdecimal():
        start = float(start)  # `int` refuses the longest
    if not isinstance(text, str) or not text or isinstance(start, bool) or start != start:
        return None
    if not isinstance(start, int | float) or start < 0 or start % 1:
        return None
    place = int(start)
    if context.startswith(text, place):
        return place
    for encoding, size in (("utf-16-le", 2), ("utf-8", 1)):
        before = context.encode(encoding)[: size * place].decode(encoding, "ignore")
        if not context.isascii() and context.startswith(text, len(before)):
            return len(before)
    return None
