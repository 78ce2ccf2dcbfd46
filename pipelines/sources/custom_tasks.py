"""Custom tasks: rows of TSV, JSONL or parquet files by the names of their columns, as every other
task has them.

TSV has a header, a tab between columns and no quoting: a quote is text, and a stray tab is a wrong
number of columns. Tagging takes lists of words and tags, or in TSV words and tags parted by spaces;
a .conll file has one word a line (its first column, the tag its last) and an empty line between
sentences. `predict` reads such rows with the same readers.
"""

import contextlib
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from electra.errors import BadInput, shown
from electra.files import encodes
from electra.finetuning.labels import check_tags, read_label
from electra.finetuning.tasks import Task
from pipelines.sources import CustomTask
from pipelines.sources.local import JSON_SUFFIXES, Lines, decoded_lines, open_parquet, unique_keys
from pipelines.sources.streams import EXCERPT, FileRange, plain_suffix
from pipelines.text.cleaning import Rejected

Row = dict[str, Any]
Record = tuple[str, dict[str, Any] | Rejected]  # where, and its columns
RENAME = "set `a`, `b`, `label` or `id` of the task to names of columns"


def facts(name: str, own: CustomTask) -> Task:
    """A custom task as fine-tuning knows tasks."""
    extra = {
        "classification": ("accuracy",),
        "regression": ("pearson", "spearman"),
        "tagging": ("accuracy",),
    }[own.kind]
    return Task(
        name=name,
        title=name,
        labels=tuple(map(str, own.labels)),
        metrics=tuple(dict.fromkeys((own.metric, *extra))),
        scale=own.scale,
        tagging=own.kind == "tagging",
        columns=(own.a,) if own.b is None else (own.a, own.b),
        label=own.label,
        id=own.id or "id",
    )


def read_rows(
    path: Path, own: CustomTask, name: str, *, labelled: bool
) -> Iterator[Row | Rejected]:
    """The rows of one file; raises BadInput when it lacks a column as a whole.

    A row that need not be `labelled` keeps a label that fits: such a test set can be scored.
    """
    task, seen = facts(name, own), dict[str, str]()
    wanted = [
        column for column in (own.a, own.b, own.label if labelled else None, own.id) if column
    ]
    found = records(path, wanted, (task.label,), (task.columns[0], task.label))
    for number, (where, record) in enumerate(found):
        row = record
        if not isinstance(record, Rejected):
            row = make_row(record, own, task, str(number), where, labelled=labelled)
        if isinstance(row, dict):
            if row["id"] in seen:
                yield Rejected(where, f"the id {row['id']!r} of {seen[row['id']]} again")
                continue
            seen[row["id"]] = where
        yield row


def make_row(
    record: Mapping[str, Any],
    own: CustomTask,
    task: Task,
    number: str,
    where: str,
    *,
    labelled: bool,
) -> Row | Rejected:
    """A record as a row, or why not."""
    identity = record[own.id] if own.id else number
    if not isinstance(identity, str | int) or isinstance(identity, bool):
        return Rejected(where, f"the id {shown(identity)} is neither text nor a whole number")
    if task.tagging:
        return _tagged(record, own, task, str(identity), where, labelled=labelled)
    texts = [record[column] for column in task.columns]
    for column, text in zip(task.columns, texts, strict=True):
        if not isinstance(text, str) or not text.strip():
            return Rejected(where, f"no text in {column!r}", shown(text))
    label, fault = read_label(record.get(own.label), task.labels)
    if labelled and fault:
        return Rejected(where, fault)
    return {
        "id": str(identity),
        "a": texts[0].strip(),
        "b": texts[1].strip() if own.b else None,
        "label": label,
    }


def _tagged(
    record: Mapping[str, Any],
    own: CustomTask,
    task: Task,
    identity: str,
    where: str,
    *,
    labelled: bool,
) -> Row | Rejected:
    row: Row = {
        "id": identity,
        "words": _listed(record[own.a]),
        "tags": _listed(record.get(own.label)),
    }
    try:
        check_tags(row, task, where, labelled=labelled)
    except BadInput as error:
        return Rejected(where, str(error).removeprefix(f"{where}: "))
    with contextlib.suppress(BadInput):
        check_tags(row, task, where, labelled=True)
        return row
    return {**row, "tags": None}


def _listed(value: Any) -> Any:
    return value.split() if isinstance(value, str) else value


def records(
    path: Path,
    wanted: Sequence[str] = (),
    also: Sequence[str] | None = None,
    tags: tuple[str, str] = ("words", "tags"),
) -> Iterator[Record]:
    """(where, columns) of each record of a file, by its kind; raises BadInput when it lacks a
    wanted column.
    """
    suffix = plain_suffix(path)
    if suffix == ".parquet":
        yield from parquet(path, wanted, also)
    elif suffix in JSON_SUFFIXES:
        yield from jsonl(decoded_lines(FileRange(path)), path, wanted)
    elif suffix == ".conll":
        yield from conll(decoded_lines(FileRange(path)), path, *tags)
    else:
        yield from tsv(decoded_lines(FileRange(path)), path, wanted)


def tsv(lines: Lines, name: object, wanted: Sequence[str] = ()) -> Iterator[Record]:
    """Lines of columns with a tab between them, the first one their names; blank lines are no rows."""
    header: list[str] = []
    for where, line in _filled(lines, name):
        if isinstance(line, Rejected):
            yield where, line
        elif not header:
            header = line.split("\t")
            require(wanted, header, where)
        elif len(fields := line.split("\t")) != len(header):
            yield (
                where,
                Rejected(where, f"{len(fields)} columns instead of {len(header)}", line[:EXCERPT]),
            )
        else:
            yield where, dict(zip(header, fields, strict=True))


def jsonl(lines: Lines, name: object, wanted: Sequence[str] = ()) -> Iterator[Record]:
    """One JSON object a line; blank lines are no rows."""
    for where, line in _filled(lines, name):
        if isinstance(line, Rejected):
            yield where, line
            continue
        try:
            record = json.loads(line, object_pairs_hook=unique_keys)
        except KeyError:
            yield where, Rejected(where, "a key twice in one object", line[:EXCERPT])
            continue
        except (ValueError, RecursionError):
            record = None
        if not isinstance(record, dict):
            yield where, Rejected(where, "not a JSON object", line[:EXCERPT])
        elif missing := [column for column in wanted if column not in record]:
            yield where, Rejected(where, f"no field {missing[0]!r}", line[:EXCERPT])
        elif "\\u" in line and not encodes(json.dumps(record, ensure_ascii=False)):
            yield where, Rejected(where, "lone surrogate", line[:EXCERPT])
        else:
            yield where, record


def _filled(lines: Lines, name: object) -> Iterator[tuple[str, str | Rejected]]:
    """(where, text) of the lines that are not blank."""
    for item in lines:
        if isinstance(item, Rejected):
            yield item.where, item
        elif item[1].strip():
            yield f"{name}:{item[0]}", item[1]


def parquet(
    path: Path, wanted: Sequence[str] = (), also: Sequence[str] | None = None
) -> Iterator[Record]:
    """The rows of a parquet file: its wanted columns, and what it has of others (None: all)."""
    with open_parquet(FileRange(path)) as file:
        names = file.schema_arrow.names
        require(wanted, names, str(path))
        columns = [name for name in names if also is None or name in {*wanted, *also}]
        batches = (
            batch.to_pylist() for batch in file.iter_batches(batch_size=1000, columns=columns)
        )
        for number, record in enumerate(itertools.chain.from_iterable(batches), 1):
            yield f"{path}:{number}", record


def conll(lines: Lines, name: object, words_column: str, tags_column: str) -> Iterator[Record]:
    """Sentences of one word a line, its tag last, with blank lines (or -DOCSTART-) between them."""
    words: list[str] = []
    tags: list[str] = []
    begun = ""
    for item in itertools.chain(lines, [(0, "")]):
        if isinstance(item, Rejected):
            yield item.where, item
            continue
        fields = item[1].split()
        if fields and fields[0] != "-DOCSTART-":
            begun = begun or f"{name}:{item[0]}"
            words.append(fields[0])
            tags.append(fields[-1])
        elif words:
            yield begun, {words_column: words, tags_column: tags}
            words, tags, begun = [], [], ""


def require(wanted: Sequence[str], names: list[str], where: str, do: str = RENAME) -> None:
    """Raise BadInput for the first wanted column that is not there, or is there twice."""
    for name in wanted:
        if name not in names:
            fault = f"has no column {name!r} among {', '.join(map(repr, names[:12]))}"[:300]
            raise BadInput(f"{where}: {fault}; {do}")
        if names.count(name) > 1:
            raise BadInput(f"{where}: has the column {name!r} twice; rename or remove one")
