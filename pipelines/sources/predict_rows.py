"""Rows for a fine-tuned model to answer, from files and standard input: training's readers, less
the label.

1. parquet, .conll and SQuAD's own JSON as everywhere else; anything else line by line
2. the first line decides: an object is JSON lines; known column names are the header of a table;
  words with tags are CoNLL; without these, a line is as many columns as the model reads, or plain
  text, and its id is its number, blank lines counted
3. the record becomes a row (electra/inference.py); the first that cannot is a BadInput with its
  file, line and reason
"""

import itertools
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from electra.errors import BadInput, pluralize
from electra.finetuning.tasks import SquadTask, Task
from electra.inference import InputSchema, as_row, input_schema
from pipelines.sources import custom_tasks, squad
from pipelines.sources.glue import LAYOUTS
from pipelines.sources.local import JSON_SUFFIXES, Lines, decoded, lines_of
from pipelines.sources.streams import first_bytes, is_pipe, plain_suffix, read_stream
from pipelines.text.cleaning import Rejected

Row = dict[str, Any]
TABLES = (".tsv", ".csv")  # files that promise a header
NAME = re.compile(r"#?\w+( String)?")  # names of columns, unlike sentences
STANDARD_INPUT = "standard input"
USUAL = "text content body review title sentence sentence1 premise question input words"
OFFICIAL = re.compile(rb'\{\s*"(version|data)"')  # how SQuAD's files begin


def row_schema(task: Task) -> InputSchema:
    """Return the names that the texts of a row may have; for GLUE, those of its official files."""
    layout = LAYOUTS.get(task.name)
    columns = (layout.a, layout.b) if layout else ()
    return input_schema(task, tuple(filter(None, columns)))


def read_rows(schema: InputSchema, name: str) -> Iterator[Row]:
    """Yield the rows of a file, or of standard input for `-`. Raises BadInput for the first that
    cannot be answered.
    """
    where_of: dict[str, str] = {}
    for number, (where, record) in enumerate(_records(schema, name)):
        row = as_row(schema, record, str(number), where)
        if row["id"] in where_of:
            raise BadInput(f"{where}: has the id {row['id']!r} of {where_of[row['id']]} again")
        where_of[row["id"]] = where
        yield row


def _records(schema: InputSchema, name: str) -> Iterator[tuple[str, Any]]:
    path = Path(name)
    suffix = plain_suffix(path)
    conll = suffix in custom_tasks.CONLL_SUFFIXES and schema.task.tagging
    official = suffix == ".json" and isinstance(schema.task, SquadTask)
    if name == "-":
        if sys.stdin is None:
            raise BadInput(f"{STANDARD_INPUT}: is closed; give a file")
        stream = read_stream(sys.stdin.buffer, STANDARD_INPUT)
        yield from _by_line(schema, decoded(stream, STANDARD_INPUT), STANDARD_INPUT)
    elif is_pipe(path):
        yield from _by_line(schema, lines_of(path), name)
    elif official and OFFICIAL.match(first_bytes(path).lstrip()):
        for row in squad.read_questions(path, answered=False):
            if isinstance(row, Rejected):
                raise BadInput(
                    f"{row.where}: {row.reason}; it should be a question with its context"
                )
            yield name, row
    elif conll or suffix in {".parquet", ".json"}:
        also = [*itertools.chain.from_iterable(schema.names), schema.task.id]
        yield from refuse_rejected(
            custom_tasks.records(path, (), also, (schema.names[0][0], "tags"))
        )
    else:
        yield from _by_line(schema, lines_of(path), name)


def refuse_rejected(records: Iterator[custom_tasks.Record]) -> Iterator[tuple[str, Any]]:
    """Yield the records. Raise BadInput for a rejected one, since the answers to the others would
    be taken for all.
    """
    for where, record in records:
        if isinstance(record, Rejected):
            excerpt = f": {record.excerpt[:60]!r}" if record.excerpt else ""
            raise BadInput(f"{where}: {record.reason}{excerpt}; fix the row or leave it out")
        yield where, record


def _by_line(schema: InputSchema, lines: Lines, name: str) -> Iterator[tuple[str, Any]]:
    """Yield JSON lines, the rows of a table with a header, or lines without one."""
    first, lines = custom_tasks.first_line(lines)
    is_json = plain_suffix(Path(name)) in JSON_SUFFIXES or first.lstrip().startswith(("{", "[{"))
    if not first or is_json:
        yield from refuse_rejected(custom_tasks.jsonl(lines, name))
        return
    header = set(custom_tasks.split_header(first, name))
    if any(header.issuperset(choice) for choice in schema.names):
        yield from refuse_rejected(custom_tasks.table(lines, name))
        return
    columns = schema.names[0]
    is_conll, lines = custom_tasks.look_for_conll(lines)
    if is_conll and schema.task.tagging:
        yield from refuse_rejected(custom_tasks.conll(lines, name, columns[0], "tags"))
        return
    fields = first.split("\t")
    named = len(fields) == len(columns) and all(map(NAME.fullmatch, fields))
    usual = len(fields) > 1 or fields[0].lower() in USUAL.split()
    if plain_suffix(Path(name)) in TABLES or (named and usual):
        raise BadInput(
            f"{name}: begins with {', '.join(map(repr, fields))[:110]}; "
            f"it should have a header with {schema.expected}"
        )
    for item in lines:
        if isinstance(item, Rejected):
            raise BadInput(f"{item.where}: {item.reason}")
        number, line = item
        if "\r" in line:
            raise BadInput(f"{name}:{number}: has {custom_tasks.CARRIAGE_RETURN}")
        fields = line.split("\t")
        if not line.strip():
            continue
        if len(fields) != len(columns):
            needs = f"{len(columns)} ({', '.join(columns)})"
            raise BadInput(
                f"{name}:{number}: has {pluralize(len(fields), 'column')} instead of {needs}"
            )
        yield f"{name}:{number}", {**dict(zip(columns, fields, strict=True)), "id": number - 1}
