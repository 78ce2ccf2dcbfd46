"""Files of predictions as they are handed in, to be scored."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from electra.errors import BadInput
from pipelines.sources.local import unique_keys


def read_predictions(path: Path) -> dict[str, Any]:
    """Return predictions by id.

    A file has JSON lines of `id` and `prediction` (or `tags`), the leaderboard's TSV, or SQuAD's
    JSON. Raises BadInput for what is none of them, and for an id that comes twice.
    """
    if path.is_char_device():
        raise BadInput(f"{path}: is a device, which may never end; name a file")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError as error:
        raise BadInput(f"{path}: is not UTF-8 (byte {error.start:,})") from None
    if path.suffix == ".json":
        by_question = _parse(text, path)
        if not isinstance(by_question, dict):
            raise BadInput(f"{path}: holds no object; expected answers by question id")
        return by_question
    answers: dict[str, Any] = {}
    records = _tsv(text, path) if path.suffix == ".tsv" else _json_lines(text, path)
    for where, fields in records:
        if len(fields) != 2 or not isinstance(fields[0], str | int):
            raise BadInput(f"{where}: has {len(fields)} fields; expected an id and a prediction")
        identity, answer = fields
        if str(identity) in answers:
            raise BadInput(f"{where}: predicts {identity} again; expected each id once")
        answers[str(identity)] = answer
    return answers


def _tsv(text: str, path: Path) -> Iterator[tuple[str, list[Any]]]:
    header, *lines = text.splitlines() or [""]
    if header.split("\t") != ["index", "prediction"]:
        expected = "index and prediction, parted by a tab"
        raise BadInput(f"{path}:1: has the header {header!r:.60}; expected {expected}")
    for number, line in enumerate(lines, 2):
        yield f"{path}:{number}", line.split("\t")


def _json_lines(text: str, path: Path) -> Iterator[tuple[str, list[Any]]]:
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            where = f"{path}:{number}"
            record = _parse(line, where)
            given = record if isinstance(record, dict) else {}
            yield where, [given[key] for key in ("id", "prediction", "tags") if key in given]


def _parse(text: str, where: object) -> Any:
    try:
        return json.loads(text, object_pairs_hook=unique_keys)
    except KeyError:
        raise BadInput(f"{where}: has a key twice in one object; expected each once") from None
    except (ValueError, RecursionError):
        raise BadInput(f"{where}: is {text[:60]!r}, which is not JSON") from None
