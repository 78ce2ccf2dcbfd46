"""Files of predictions as they are handed in, to be scored."""

import json
from pathlib import Path
from typing import Any

from electra.errors import BadInput
from pipelines.sources import custom_tasks
from pipelines.sources.local import decoded, unique_keys
from pipelines.sources.streams import read_stream
from pipelines.text.cleaning import Rejected

KEYS = ("id", "index", "prediction", "tags")


def read_predictions(path: Path) -> dict[str, Any]:
    """Return predictions by id.

    A file has JSON lines of `id` and `prediction` (or `tags`), the leaderboard's TSV, or SQuAD's
    JSON. Raises BadInput for any other file, and for a repeated id.
    """
    lines: list[tuple[int, str]] = []
    try:
        with path.open("rb") as file:
            for line in decoded(read_stream(file, str(path)), path):
                if isinstance(line, Rejected):
                    raise BadInput(f"{line.where}: {line.reason}")
                lines.append(line)
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror})") from None
    if path.suffix == ".json":
        return _read_answers("\n".join(text for _, text in lines), path)
    read_records = custom_tasks.table if path.suffix == ".tsv" else custom_tasks.jsonl
    answers: dict[str, Any] = {}
    for where, record in read_records(iter(lines), path):
        if isinstance(record, Rejected):
            raise BadInput(f"{where}: {record.reason}")
        fields = [record[key] for key in KEYS if key in record]
        if len(fields) != 2 or not isinstance(fields[0], str | int):
            raise BadInput(f"{where}: has {', '.join(record)}; expected an id and a prediction")
        identity, answer = fields
        if str(identity) in answers:
            raise BadInput(f"{where}: predicts {identity} again; expected each id once")
        answers[str(identity)] = answer
    return answers


def _read_answers(text: str, path: Path) -> dict[str, Any]:
    """Return the answers of SQuAD's JSON by question id."""
    try:
        answers = json.loads(text, object_pairs_hook=unique_keys)
    except (ValueError, RecursionError, KeyError):
        raise BadInput(f"{path}: is not JSON, or has a question twice") from None
    if not isinstance(answers, dict):
        raise BadInput(f"{path}: holds no object; expected answers by question id")
    return answers
