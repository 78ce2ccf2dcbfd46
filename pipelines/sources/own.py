"""Tasks of one's own: rows of TSV, JSONL or parquet files by the names of their columns, as every other task has them.

TSV has a header, a tab between columns and no quoting: a quote is text, and a stray tab is a wrong number of columns.
Tagging takes lists of words and tags, or in TSV words and tags parted by spaces; a .conll file has one word a line (its
first column, the tag its last) and an empty line between sentences.
"""

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from electra.data.text import Rejected
from electra.errors import BadInput, SourceUnreachable
from electra.finetuning import spans
from electra.finetuning.tasks import Task
from pipelines.sources import OwnTask
from pipelines.sources.local import EXCERPT, decoded_lines
from pipelines.sources.streams import Piece, plain_suffix

Row = dict[str, Any]
Record = tuple[str, dict[str, Any] | Rejected]  # where, and its columns


def facts(name: str, own: OwnTask) -> Task:
    """What the settings say of a task."""
    columns = (own.a,) if own.b is None else (own.a, own.b)
    extra = {"classification": ("accuracy",), "regression": ("pearson", "spearman"), "tagging": ("accuracy",)}[own.kind]
    metrics = tuple(dict.fromkeys((own.metric, *extra)))
    return Task(
        name=name, title=name, labels=own.labels, metrics=metrics, scale=own.scale, tagging=own.kind == "tagging", columns=columns
    )  # fmt: skip


def read_rows(path: Path, own: OwnTask, name: str, *, labelled: bool) -> Iterator[Row | Rejected]:
    """The rows of one file; raises BadInput when it lacks a column as a whole."""
    task, seen = facts(name, own), dict[str, str]()
    wanted = [column for column in (own.a, own.b, own.label if labelled else None, own.id) if column]
    for number, (where, record) in enumerate(records(path, own, wanted)):
        row = (
            record
            if isinstance(record, Rejected)
            else make_row(record, own, task, str(number), where, labelled=labelled)
        )
        if isinstance(row, dict):
            if row["id"] in seen:
                yield Rejected(where, f"the id {row['id']!r} of {seen[row['id']]} again")
                continue
            seen[row["id"]] = where
        yield row


def make_row(
    record: Mapping[str, Any], own: OwnTask, task: Task, number: str, where: str, *, labelled: bool
) -> Row | Rejected:
    """A record as a row, or why not."""
    identity = record[own.id] if own.id else number
    if not isinstance(identity, str | int) or isinstance(identity, bool):
        return Rejected(where, f"the id {identity!r:.40} is neither text nor a whole number")
    if task.tagging:
        return _tagged(record, own, task, str(identity), where, labelled=labelled)
    texts = [record[column] for column in task.columns]
    for column, text in zip(task.columns, texts, strict=True):
        if not isinstance(text, str) or not text.strip():
            return Rejected(where, f"no text in {column!r}", repr(text)[:EXCERPT])
    row: Row = {"id": str(identity), "a": texts[0].strip(), "b": texts[1].strip() if own.b else None, "label": None}
    if not labelled:
        return row
    label = record[own.label]
    if task.regression:
        try:
            row["label"] = float(label) if not isinstance(label, bool) else math.nan
        except (TypeError, ValueError):
            return Rejected(where, f"label {label!r:.40} is no number")
        return row if math.isfinite(row["label"]) else Rejected(where, f"label {label!r:.40} is no finite number")
    if str(label) not in task.labels:
        return Rejected(where, f"unknown label {str(label)!r:.40}, not one of {', '.join(task.labels)}")
    return {**row, "label": str(label)}


def _tagged(
    record: Mapping[str, Any], own: OwnTask, task: Task, identity: str, where: str, *, labelled: bool
) -> Row | Rejected:
    row: Row = {
        "id": identity,
        "words": _listed(record[own.a]),
        "tags": _listed(record[own.label]) if labelled else None,
    }
    try:
        spans.check_row(row, task, where, labelled=labelled)
    except BadInput as error:
        return Rejected(where, f"{error.found}; expected {error.expected}")
    return row


def _listed(value: Any) -> Any:
    return value.split() if isinstance(value, str) else value


def records(path: Path, own: OwnTask, wanted: list[str]) -> Iterator[Record]:
    """(where, columns) of each record of a file, by its kind."""
    suffix = plain_suffix(path)
    if suffix in {".jsonl", ".ndjson", ".json"}:
        yield from _jsonl(path, wanted)
    elif suffix == ".parquet":
        yield from _parquet(path, wanted)
    elif suffix == ".conll":
        yield from _conll(path, own)
    else:
        yield from _tsv(path, wanted)


def _tsv(path: Path, wanted: list[str]) -> Iterator[Record]:
    header: list[str] = []
    for item in decoded_lines(Piece(path)):
        if isinstance(item, Rejected):
            yield item.where, item
            continue
        number, line = item
        where, fields = f"{path}:{number}", line.split("\t")
        if not header:
            header = fields
            _require(wanted, header, where)
        elif len(fields) != len(header):
            yield where, Rejected(where, f"{len(fields)} columns instead of {len(header)}", line[:EXCERPT])
        else:
            yield where, dict(zip(header, fields, strict=True))


def _jsonl(path: Path, wanted: list[str]) -> Iterator[Record]:
    for item in decoded_lines(Piece(path)):
        if isinstance(item, Rejected):
            yield item.where, item
            continue
        where = f"{path}:{item[0]}"
        try:
            record = json.loads(item[1])
        except (ValueError, RecursionError):
            record = None
        missing = [name for name in wanted if not isinstance(record, dict) or name not in record]
        if missing:
            found = "not a JSON object" if not isinstance(record, dict) else f"no field {missing[0]!r}"
            yield where, Rejected(where, found, item[1][:EXCERPT])
        else:
            yield where, record


def _parquet(path: Path, wanted: list[str]) -> Iterator[Record]:
    import pyarrow
    import pyarrow.parquet

    try:
        table = pyarrow.parquet.ParquetFile(path)
        _require(wanted, table.schema_arrow.names, str(path))
        number = 0
        for batch in table.iter_batches(batch_size=1000, columns=list(dict.fromkeys(wanted))):
            for record in batch.to_pylist():
                number += 1
                yield f"{path}:{number}", record
    except FileNotFoundError:
        raise SourceUnreachable(path, "there is no such file") from None
    except (pyarrow.ArrowException, OSError) as error:
        raise BadInput(path, f"cannot be read ({str(error).splitlines()[0]})", "a whole parquet file") from None


def _conll(path: Path, own: OwnTask) -> Iterator[Record]:
    words: list[str] = []
    tags: list[str] = []
    begun = ""
    for item in decoded_lines(Piece(path)):
        if isinstance(item, Rejected):
            yield item.where, item
            continue
        fields = item[1].split()
        if fields:
            begun = begun or f"{path}:{item[0]}"
            words.append(fields[0])
            tags.append(fields[-1])
        elif words:
            yield begun, {own.a: words, own.label: tags}
            words, tags, begun = [], [], ""
    if words:
        yield begun, {own.a: words, own.label: tags}


def _require(wanted: list[str], names: list[str], where: str) -> None:
    if missing := [name for name in wanted if name not in names]:
        found = f"has no column {missing[0]!r} among {', '.join(map(repr, names[:12]))}"[:300]
        raise BadInput(where, found, "the columns that params.yaml names", "set `a`, `b`, `label` or `id` of the task")
