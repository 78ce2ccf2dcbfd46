"""Rows for a fine-tuned model to answer, from files and standard input: training's readers, less
the label.

1. parquet, .conll and SQuAD's own JSON as everywhere else; anything else line by line
2. the first line decides: an object is JSON lines; known column names are the header of a table;
  without one, a line is as many columns as the model reads, or plain text, and its id is its
  number, blank lines counted
3. the record becomes a row (electra/inference.py); the first that cannot is a BadInput with its
  file, line and reason
"""

import itertools
import re
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from electra.errors import BadInput
from electra.finetuning.tasks import SquadTask, Task
from electra.inference import InputSchema, as_row, input_schema
from pipelines.sources import custom_tasks, squad
from pipelines.sources.glue import LAYOUTS
from pipelines.sources.local import Lines, decoded, decoded_lines
from pipelines.sources.streams import LOOK, FileRange, first_bytes, plain_suffix, read_stream
from pipelines.text.cleaning import Rejected

Row = dict[str, Any]
TABLES = (".tsv", ".csv")  # files that promise a header
NAME = re.compile(r"#?\w+( String)?")  # what a column may be called, and hardly a sentence
USUAL = {
    "text",
    "content",
    "body",
    "review",
    "title",
    "sentence",
    "sentence1",
    "premise",
    "question",
    "input",
    "words",
}
OFFICIAL = re.compile(rb'\{\s*"(version|data)"')  # how SQuAD's files begin


def schema_of(task: Task) -> InputSchema:
    """What the texts of a row may be called; GLUE's as in its official files."""
    layout = LAYOUTS.get(task.name)
    columns = () if layout is None else (layout.a,) if layout.b is None else (layout.a, layout.b)
    return input_schema(task, columns)


def read_rows(schema: InputSchema, name: str) -> Iterator[Row]:
    """The rows of a file, or of standard input for `-`; raises BadInput for the first that cannot
    be answered.
    """
    seen: dict[str, str] = {}
    for number, (where, record) in enumerate(_records(schema, name)):
        row = as_row(schema, record, str(number), where)
        if row["id"] in seen:
            raise BadInput(f"{where}: has the id {row['id']!r} of {seen[row['id']]} again")
        seen[row["id"]] = where
        yield row


def _records(schema: InputSchema, name: str) -> Iterator[tuple[str, Any]]:
    path = Path(name)
    if name == "-":
        yield from _by_line(
            schema,
            decoded(read_stream(_standard_input(), "standard input"), "standard input"),
            name,
        )
    elif _is_pipe(path):
        with path.open("rb") as stream:
            yield from _by_line(schema, decoded(read_stream(stream, name), name), name)
    elif (suffix := plain_suffix(path)) == ".parquet" or (
        suffix == ".conll" and schema.task.tagging
    ):
        also = [column for choice in schema.names for column in choice]
        yield from _whole(
            custom_tasks.records(path, (), [*also, schema.task.id], (schema.names[0][0], "tags"))
        )
    elif (
        suffix == ".json"
        and isinstance(schema.task, SquadTask)
        and OFFICIAL.match(first_bytes(path, LOOK).lstrip())
    ):
        for row in squad.read_json(path, answered=False):
            if isinstance(row, Rejected):
                raise BadInput(
                    f"{row.where}: {row.reason}; it should be a question with its context"
                )
            yield name, row
    else:
        yield from _by_line(schema, decoded_lines(FileRange(path)), name)


def _is_pipe(path: Path) -> bool:
    """Whether something can be read once, and not be looked into before."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def _standard_input() -> Any:
    if sys.stdin is None:
        raise BadInput("standard input: is closed; give a file")
    return sys.stdin.buffer


def _whole(records: Iterator[custom_tasks.Record]) -> Iterator[tuple[str, Any]]:
    """The records; a rejected one is an error, since an answer to the others would be taken for
    all.
    """
    for where, record in records:
        if isinstance(record, Rejected):
            found = f"{record.reason}: {record.excerpt[:60]!r}" if record.excerpt else record.reason
            raise BadInput(f"{where}: {found}; fix the row or leave it out")
        yield where, record


def _by_line(schema: InputSchema, lines: Lines, name: str) -> Iterator[tuple[str, Any]]:
    """JSON lines, a table with a header, or lines without one."""
    shown_name = "standard input" if name == "-" else name
    first = next((item for item in lines if isinstance(item, Rejected) or item[1].strip()), None)
    if first is None:
        return
    lines = itertools.chain([first], lines)
    if isinstance(first, Rejected) or first[1].lstrip().startswith("{"):
        yield from _whole(custom_tasks.jsonl(lines, shown_name))
        return
    fields = first[1].split("\t")
    if any(set(choice) <= set(fields) for choice in schema.names):
        yield from _whole(custom_tasks.tsv(lines, shown_name))
        return
    columns = schema.names[0]
    named = len(fields) == len(columns) and all(map(NAME.fullmatch, fields))
    if plain_suffix(Path(name)) in TABLES or (
        named and (len(fields) > 1 or fields[0].lower() in USUAL)
    ):
        begins = f"{shown_name}:{first[0]}: begins with {', '.join(map(repr, fields))[:110]}"
        raise BadInput(f"{begins}; it should have a header with {schema.expected}")
    for item in lines:
        if isinstance(item, Rejected):
            raise BadInput(f"{item.where}: {item.reason}")
        where, line = f"{shown_name}:{item[0]}", item[1]
        if line.strip():
            fields = line.split("\t")
            if len(fields) != len(columns):
                raise BadInput(
                    f"{where}: has {len(fields)} columns instead of {len(columns)} ({', '.join(columns)})"
                )
            yield where, {**dict(zip(columns, fields, strict=True)), "id": item[0] - 1}
