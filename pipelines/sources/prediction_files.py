"""Files of predictions as they are handed in, to be scored."""

import json
from pathlib import Path
from typing import Any

from electra.errors import BadInput
from electra.files import unique_keys
from pipelines.sources import custom_tasks
from pipelines.sources.local import Lines, lines_of
from pipelines.sources.predict_rows import refuse_rejected
from pipelines.sources.streams import plain_suffix
from pipelines.text.cleaning import Rejected

KEYS = ("id", "index", "prediction", "tags")


def read_predictions(path: Path) -> dict[str, Any]:
    """Return predictions by id.

    A file has JSON lines of `id` and `prediction` (or `tags`), a table as for the leaderboard, or
    the JSON of SQuAD, compressed or not, or is parquet. Raises BadInput for any other file, and a
    repeated id.
    """
    suffix = plain_suffix(path)
    if suffix == ".json":
        return _read_answers(lines_of(path), path)
    if suffix == ".parquet":
        records = custom_tasks.parquet(path)
    elif suffix in {".tsv", ".csv"}:
        records = custom_tasks.table(lines_of(path), path)
    else:
        records = custom_tasks.jsonl(lines_of(path), path)
    answers: dict[str, Any] = {}
    for where, record in refuse_rejected(records):
        fields = [record[key] for key in KEYS if key in record]
        if len(fields) != 2:
            raise BadInput(f"{where}: has {', '.join(record)}; expected an id and a prediction")
        identity, answer = fields
        if fault := custom_tasks.find_id_fault(identity):
            raise BadInput(f"{where}: {fault}")
        if str(identity) in answers:
            raise BadInput(f"{where}: predicts {identity} again; expected each id once")
        answers[str(identity)] = answer
    return answers


def _read_answers(lines: Lines, path: Path) -> dict[str, Any]:
    """Return the answers of SQuAD's JSON by question id."""
    texts = []
    for line in lines:
        if isinstance(line, Rejected):
            raise BadInput(f"{line.where}: {line.reason}")
        texts.append(line[1])
    try:
        answers = json.loads("\n".join(texts), object_pairs_hook=unique_keys)
    except (ValueError, RecursionError, KeyError):
        raise BadInput(f"{path}: is not JSON, or has a question twice") from None
    if not isinstance(answers, dict):
        raise BadInput(f"{path}: holds no object; expected answers by question id")
    return answers
