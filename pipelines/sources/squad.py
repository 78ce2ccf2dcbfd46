"""SQuAD 1.1 and 2.0 to rows
{"id", "title", "question", "context", "answers": [{"text", "start"}], "impossible"}.

Files have the official JSON layout, or rows of `datasets` as JSON lines, a list or parquet. Answers
decide as in the official script: without any, a question of 2.0 is impossible. An offset counts
characters, or UTF-16 units or UTF-8 bytes where the answer stands there. A question is rejected
when no answer stands where it says, or when its flag contradicts its answers.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from electra.errors import BadInput, shown
from electra.files import encodes
from pipelines.sources import custom_tasks
from pipelines.sources.local import decoded_lines, unique_keys
from pipelines.sources.streams import EXCERPT, FileRange, read_whole
from pipelines.text.cleaning import Rejected

Row = dict[str, Any]
FILES = {
    "squad1": {"train": "train-v1.1.json", "dev": "dev-v1.1.json"},
    "squad2": {"train": "train-v2.0.json", "dev": "dev-v2.0.json"},
}
NEEDED = ("id", "question", "context")
FLAGS = {"true": True, "1": True, "false": False, "0": False}


def file_of(folder: Path, name: str) -> Path:
    """Return an official file, or the one of rows that has its place."""
    path = folder / name
    others = (path.with_suffix(suffix) for suffix in (".jsonl", ".parquet"))
    return path if path.exists() else next(filter(Path.exists, others), path)


def read_questions(path: Path, *, answered: bool = True) -> Iterator[Row | Rejected]:
    """Yield the questions of a file in its order, with their answers or (not `answered`) without.

    Raises BadInput when the file as a whole is not one.
    """
    known: set[str] = set()
    is_v2 = "v2" in path.name
    if path.suffix != ".json":
        yield from _read_records(custom_tasks.records(path, NEEDED), is_v2)
        return
    try:
        # the library tells UTF-8, UTF-16 and UTF-32 apart
        content = json.loads(read_whole(path), object_pairs_hook=unique_keys)
        articles = content if isinstance(content, list) else content["data"]
        if not isinstance(articles, list) or content == []:
            raise TypeError("`data` is no list")
    except (ValueError, RecursionError, KeyError, TypeError) as error:
        if "Extra data" in str(error):
            lines = custom_tasks.jsonl(decoded_lines(FileRange(path)), path, NEEDED)
            yield from _read_records(lines, is_v2)
            return
        reason = f"{type(error).__name__}: {error}"
        raise BadInput(
            f'{path}: is not in SQuAD\'s layout, an object with a list "data" ({reason})'
        ) from None
    if isinstance(content, dict):
        is_v2 |= str(content.get("version", "")).startswith(("v2", "2"))
    for i, article in enumerate(articles):
        if isinstance(article, dict) and "question" in article:
            yield _make_answered(article, is_v2, known, f"{path}: [{i}]")
            continue
        if (paragraphs := _list(article, "paragraphs")) is None:
            yield Rejected(f"{path}: data[{i}]", "no list of paragraphs")
        for j, paragraph in enumerate(paragraphs or ()):
            where = f"{path}: data[{i}].paragraphs[{j}]"
            if (questions := _list(paragraph, "qas")) is None:
                yield Rejected(where, "no list of questions")
            for k, question in enumerate(questions or ()):
                place = f"{where}.qas[{k}]"
                if not isinstance(question, dict):
                    yield Rejected(place, "not a JSON object")
                    continue
                title = article.get("title", "")
                row = {**question, "title": title, "context": paragraph.get("context")}
                if answered:
                    yield _make_answered(row, is_v2, known, place)
                else:
                    yield make_row(row, (), True, known, place)


def hub_rows(rows: Iterable[Mapping[str, Any]], task: str, where: str) -> Iterator[Row | Rejected]:
    """Yield the rows of a split of the hub's squad or squad_v2."""
    known: set[str] = set()
    for number, row in enumerate(rows):
        yield _make_answered(row, task == "squad2", known, f"{where}:{number}")


def _read_records(records: Iterator[custom_tasks.Record], is_v2: bool) -> Iterator[Row | Rejected]:
    known: set[str] = set()
    for where, record in records:
        if isinstance(record, Rejected):
            yield record
        else:
            yield _make_answered(record, is_v2, known, where)


def _make_answered(
    row: Mapping[str, Any], is_v2: bool, known: set[str], where: str
) -> Row | Rejected:
    """Return a row with the answers that it has in either layout, or why not."""
    given = row.get("answers")
    if isinstance(given, dict):
        lists = (given.get("text") or (), given.get("answer_start") or ())
        answers = list(zip(*lists, strict=False))
    else:
        answers = [
            (answer.get("text"), answer.get("answer_start"))
            for answer in _list(row, "answers") or ()
            if isinstance(answer, dict)
        ]
    flag = row.get("is_impossible")
    impossible = is_v2 and not answers if flag is None else FLAGS.get(str(flag).lower())
    if impossible is None:
        return Rejected(where, f"is_impossible is {shown(flag)} instead of true or false")
    return make_row(row, answers, impossible, known, where)


def make_row(
    row: Mapping[str, Any],
    answers: Iterable[tuple[Any, Any]],
    impossible: bool,
    known: set[str],
    where: str,
) -> Row | Rejected:
    """Return a row with the answers that stand in its context, or why not; `known` gets its id."""
    for name in NEEDED:
        if not isinstance(value := row.get(name), str) or not value.strip():
            return Rejected(where, f"no {name}", shown(value))
    title = row.get("title", "")
    result: Row = {
        "id": row["id"],
        "title": title if isinstance(title, str) else shown(title),
        "question": row["question"],
        "context": row["context"],
    }
    excerpt = result["question"][:EXCERPT]
    if not encodes("".join(result.values())):
        return Rejected(where, "lone surrogate", ascii(excerpt))
    if result["id"] in known:
        return Rejected(where, "an id that occurred before", result["id"][:EXCERPT])
    known.add(result["id"])
    answers = list(answers)
    if impossible and answers:
        return Rejected(where, "impossible and answered", excerpt)
    if not impossible and not answers:
        return Rejected(where, "no answers, and not marked impossible", excerpt)
    located = [(text, _locate(text, start, result["context"])) for text, start in answers]
    standing = [{"text": text, "start": place} for text, place in located if place is not None]
    if answers and not standing:
        return Rejected(where, "no answer that stands in the context where it says", excerpt)
    return {**result, "answers": standing, "impossible": impossible}


def _locate(text: Any, start: Any, context: str) -> int | None:
    """Return the character at which an answer begins, if it stands where it says."""
    if isinstance(start, str) and start.isdecimal():
        start = int(start)
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


def _list(value: Any, key: str) -> list[Any] | None:
    items = value.get(key) if isinstance(value, Mapping) else None
    return items if isinstance(items, list) else None
