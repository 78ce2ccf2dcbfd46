"""Custom tasks: rows of tables, JSON lines, parquet or CoNLL files by the names of their columns.

1. table    the first line names the columns. With tabs between them there is no quoting: a quote is
  text. With commas, semicolons or bars, and in any .csv file, cells may be quoted as in CSV
2. JSON     one object per line, or a list of objects
3. CoNLL    one word per line, first its text and last its tag, and an empty line between sentences

Tagging takes lists of words and tags, or in tables words and tags with spaces between them.
`predict` reads such rows with the same readers.
"""

import contextlib
import csv
import itertools
import json
import re
import sys
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from electra.errors import BadInput, short_repr
from electra.files import encodes, unique_keys
from electra.finetuning.labels import check_tags, label_name, read_label, split_words
from electra.finetuning.tasks import Task
from pipelines.sources import CustomTask
from pipelines.sources.local import JSON_SUFFIXES, Lines, decoded_lines, open_parquet
from pipelines.sources.streams import EXCERPT, LONGEST_LINE, FileRange, Skipped, plain_suffix
from pipelines.text.cleaning import Rejected

Row = dict[str, Any]
Record = tuple[str, dict[str, Any] | Rejected]  # where, and its columns
RENAME = "set `a`, `b`, `label` or `id` of the task to names of columns"
LONGEST_HEADER = 100_000  # characters
CARRIAGE_RETURN = "a carriage return within a line; end lines with a line feed"
HEAD = 10  # lines by which CoNLL is recognised
CONLL_SUFFIXES = (".conll", ".bio", ".iob", ".iob2", ".bioes", ".conllu")
# usual names of the two texts of a pair, in the order in which they are read
_PAIRS = """
    sentence1 sentence2
    premise hypothesis
    question1 question2
    question sentence
    question passage
    question context
    query passage
    query document
    sent1 sent2
    sentence_A sentence_B
    text1 text2
    text_1 text_2
    text_a text_b
    first second
    left right
    a b
"""
PAIRS = [line.split() for line in _PAIRS.strip().split("\n")]
_TAG = r"(?:O|[BIESLU]-\S+)"
_CONLL = re.compile(rf"-DOCSTART-.*|\S+(?:\s.*)?[ \t]{_TAG}\s*")
_COMMENT = re.compile(rf"#+\s(?!\s*{_TAG}\s*$)(?!.*\s{_TAG}\s*$)")


def facts(name: str, settings: CustomTask) -> Task:
    """Return a custom task as the `Task` that fine-tuning uses."""
    extra = ("pearson", "spearman") if settings.kind == "regression" else ("accuracy",)
    return Task(
        name=name,
        title=name,
        labels=tuple(map(str, settings.labels)),
        metrics=tuple(dict.fromkeys((settings.metric, *extra))),
        scale=settings.scale,
        tagging=settings.kind == "tagging",
        columns=(settings.a,) if settings.b is None else (settings.a, settings.b),
        label=settings.label,
        id=settings.id or "id",
    )


def read_rows(
    path: Path, settings: CustomTask, name: str, *, labelled: bool
) -> Iterator[Row | Rejected | Skipped]:
    """Yield the rows of one file. A row that should be `labelled` and has no label is skipped.

    A row that need not be labelled keeps a label that fits: such a test set can be scored. Raises
    BadInput when the file lacks a column as a whole.
    """
    task = facts(name, settings)
    where_of = dict[str, str]()
    label = task.label if labelled else None
    wanted = [column for column in (*task.columns, label, settings.id) if column]
    seconds = [second for first, second in PAIRS if first == settings.a and second != task.label]
    also = (task.label, *seconds)
    labels = None if task.tagging else task.labels
    rows = records(path, wanted, also, (task.columns[0], task.label), labels)
    for number, (where, record) in enumerate(rows):
        if isinstance(record, Rejected):
            yield record
            continue
        second = next((name for name in seconds if name in record), None)
        if number == 0 and settings.b is None and second:
            print(
                f"warning: {path}: {second} next to {settings.a} is not read; "
                f"set `b: {second}` for pairs",
                file=sys.stderr,
            )
        identity = record[settings.id] if settings.id else number
        row: Row | Rejected | Skipped
        if fault := find_id_fault(identity):
            row = Rejected(where, fault)
        elif labelled and is_missing(record.get(task.label), task.labels):
            row = Skipped("no_label")
        elif task.tagging:
            row = _make_tagged(record, task, str(identity), where, labelled=labelled)
        else:
            row = _make_row(record, task, str(identity), where, labelled=labelled)
        if isinstance(row, dict):
            first = where_of.setdefault(row["id"], where)
            if first != where:
                row = Rejected(where, f"the id {row['id']!r} of {first} again")
        yield row


def find_id_fault(identity: Any) -> str:
    """Return why a value cannot be an id, or ""."""
    if isinstance(identity, str | int) and not isinstance(identity, bool):
        return ""
    return f"the id {short_repr(identity)} is neither text nor a whole number"


def _make_row(
    record: Mapping[str, Any], task: Task, identity: str, where: str, *, labelled: bool
) -> Row | Rejected:
    """Return a record's texts and label, or why not."""
    texts = []
    for column in task.columns:
        text = record[column]
        if not isinstance(text, str) or not text.strip():
            return Rejected(where, f"no text in {column!r}", short_repr(text))
        texts.append(text.strip())
    label = record.get(task.label)
    if isinstance(label, list | dict):
        return Rejected(where, f"several labels, {short_repr(label)}: a row has one class")
    if isinstance(label, str):
        label = label.strip()  # spreadsheets leave no-break spaces
    label, fault = read_label(label, task.labels)
    if labelled and fault:
        return Rejected(where, fault)
    first, second = (*texts, None)[:2]
    return {"id": identity, "a": first, "b": second, "label": label}


def is_missing(label: Any, labels: Sequence[str] = ()) -> bool:
    """Return whether a label is null, NaN or empty. So are `-` and -1 unless they are classes."""
    if label is None or label != label or (isinstance(label, str) and not label.strip()):
        return True
    name = label.strip() if isinstance(label, str) else label_name(label)
    return bool(labels) and name in {"-", "-1"} and name not in labels


def _make_tagged(
    record: Mapping[str, Any], task: Task, identity: str, where: str, *, labelled: bool
) -> Row | Rejected:
    """Return a record's words and tags, or why not."""
    tags = split_words(record.get(task.label))
    if isinstance(tags, list) and any(isinstance(tag, int) for tag in tags):
        return Rejected(
            where,
            f"tags that are numbers, {short_repr(tags)}: write their names (B-PER), or parquet as "
            "`datasets` exports it, which has them",
        )
    row: Row = {"id": identity, "words": split_words(record[task.columns[0]]), "tags": tags}
    try:
        check_tags(row, task, where, labelled=labelled)
    except BadInput as error:
        return Rejected(where, str(error).removeprefix(f"{where}: "))
    try:
        check_tags(row, task, where, labelled=True)
    except BadInput:
        row["tags"] = None
    return row


def records(
    path: Path,
    wanted: Sequence[str] = (),
    also: Sequence[str] | None = None,
    tags: tuple[str, str] = ("words", "tags"),
    labels: Collection[str] | None = None,
) -> Iterator[Record]:
    """Yield (where, columns) of each record of a file, by its kind. Raise BadInput when it lacks a
    wanted column; a JSON object may lack those that are in `also`, too.
    """
    suffix = plain_suffix(path)
    if suffix == ".parquet":
        yield from parquet(path, wanted, also, labels)
        return
    lines = decoded_lines(FileRange(path))
    if suffix in JSON_SUFFIXES:
        # some rows of JSON leave out a key that has no value
        yield from jsonl(lines, path, [name for name in wanted if name not in (also or ())])
        return
    first, lines = first_line(lines)
    is_conll, lines = look_for_conll(lines)
    known = bool(wanted) and set(wanted) <= set(split_header(first, path, wanted))
    if suffix in CONLL_SUFFIXES or (is_conll and not known):
        require(wanted, list(tags), str(path))
        yield from conll(lines, path, *tags)
    else:
        yield from table(lines, path, wanted)


def first_line(lines: Lines) -> tuple[str, Lines]:
    """Return the first line that is not blank ("" if it is rejected), and an iterator over all
    lines from it on.
    """
    first = next((item for item in lines if isinstance(item, Rejected) or item[1].strip()), None)
    if first is None:
        return "", lines
    return "" if isinstance(first, Rejected) else first[1], itertools.chain([first], lines)


def look_for_conll(lines: Lines) -> tuple[bool, Lines]:
    """Return whether the first lines are words with their tags or comments, and all lines."""
    head = list(itertools.islice(lines, HEAD))
    texts = [item[1] for item in head if not isinstance(item, Rejected)]
    words = [text for text in texts if text.strip() and not _COMMENT.match(text)]
    is_conll = len(words) > 1 and all(map(_CONLL.fullmatch, words))
    return is_conll, itertools.chain(head, lines)


def split_header(line: str, name: object, wanted: Sequence[str] = ()) -> list[str]:
    """Return the names of a table's columns."""
    delimiter = _delimiter(line, name, wanted)
    return _split_cells(line, delimiter) if delimiter else line.split("\t")


def _split_cells(line: str, delimiter: str) -> list[str]:
    """Return the cells of a line of CSV, or none if it isn't one."""
    if len(line) <= LONGEST_HEADER:
        with contextlib.suppress(csv.Error):
            return next(csv.reader([line], delimiter=delimiter), [])
    return []


def _delimiter(header: str, name: object, wanted: Sequence[str]) -> str:
    """Return the delimiter of cells that may be quoted; "" for tabs without quoting."""
    is_csv = plain_suffix(Path(str(name))) == ".csv"
    if not is_csv and ("\t" in header or set(wanted) == {header}):
        return ""
    cells = {sign: _split_cells(header, sign) for sign in ",;|\t"}
    best = max(cells, key=lambda sign: (set(wanted) <= set(cells[sign]), len(cells[sign])))
    return best if is_csv or len(cells[best]) > 1 else ""


def table(lines: Lines, name: object, wanted: Sequence[str] = ()) -> Iterator[Record]:
    """Yield the rows of a table. Its first line has the names of columns, blank lines are none."""
    first, lines = first_line(lines)
    delimiter = _delimiter(first, name, wanted)
    header: list[str] = []
    for where, item in _csv(lines, name, delimiter) if delimiter else _filled(lines, name):
        fields = item.split("\t") if isinstance(item, str) else item
        if isinstance(fields, Rejected):
            yield where, fields
        elif not header:
            header = fields
            require(wanted, header, where)
        elif len(fields) != len(header):
            reason = f"{len(fields)} columns instead of {len(header)}"
            yield where, Rejected(where, reason, "\t".join(fields)[:EXCERPT])
        else:
            yield where, dict(zip(header, fields, strict=True))


def _csv(lines: Lines, name: object, delimiter: str) -> Iterator[tuple[str, list[str] | Rejected]]:
    """Yield the cells of each row, which may be several lines. Raises BadInput for a quote that is
    never closed: all text behind it would be one cell.
    """
    numbers: list[int] = []  # of the lines of a row
    rejected: list[Rejected] = []

    def feed() -> Iterator[str]:
        for item in lines:
            if isinstance(item, Rejected):
                rejected.append(item)
                # the quotes of a whole line count, since the next lines may belong to its last cell
                yield f"{item.excerpt}\n" if len(item.excerpt.encode()) < EXCERPT else "\n"
            else:
                numbers.append(item[0])
                yield f"{item[1]}\n"

    csv.field_size_limit(LONGEST_LINE)
    cells = csv.reader(feed(), delimiter=delimiter, strict=True)
    while True:
        numbers.clear()
        rejected.clear()
        fault = ""
        fields: list[str] | None = []
        try:
            fields = next(cells, None)
        except csv.Error as error:
            fault = str(error)
        if fields is None:
            return
        where = rejected[0].where if rejected else f"{name}:{numbers[0]}"
        if fault and (len(numbers) > 1 or "unexpected end" in fault):
            raise BadInput(f"{where}: opens a quote that is never closed; write a quote as two")
        if rejected:
            yield where, rejected[0]
        elif fault:
            yield where, Rejected(where, f"not CSV ({fault})")
        elif any(map(str.strip, fields)):
            yield where, fields


def jsonl(lines: Lines, name: object, wanted: Sequence[str] = ()) -> Iterator[Record]:
    """Yield one JSON object per line, or those of a list. Blank lines are skipped."""
    first, lines = first_line(lines)
    if first.lstrip().startswith("["):
        kept = list(lines)
        text = "\n".join(item[1] for item in kept if not isinstance(item, Rejected))
        with contextlib.suppress(ValueError, RecursionError, KeyError):
            values = json.loads(text, object_pairs_hook=unique_keys)
            yield from ((item.where, item) for item in kept if isinstance(item, Rejected))
            for number, record in enumerate(values):
                where = f"{name}[{number}]"
                yield where, _check_record(record, json.dumps(record), where, wanted)
            return
        lines = iter(kept)
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
        yield where, _check_record(record, line, where, wanted)


def _check_record(record: Any, text: str, where: str, wanted: Sequence[str]) -> Any:
    """Return the record, or why it isn't a row."""
    fault = ""
    if not isinstance(record, dict):
        fault = "not a JSON object"
    elif missing := [column for column in wanted if column not in record]:
        fault = f"no field {missing[0]!r}"
    elif "\\u" in text and not encodes(json.dumps(record, ensure_ascii=False)):
        fault = "lone surrogate"
    return Rejected(where, fault, text[:EXCERPT]) if fault else record


def _filled(lines: Lines, name: object) -> Iterator[tuple[str, str | Rejected]]:
    """Yield (where, text) of each line that is not blank."""
    for item in lines:
        if isinstance(item, Rejected):
            yield item.where, item
        elif item[1].strip():
            yield f"{name}:{item[0]}", item[1]


def parquet(
    path: Path,
    wanted: Sequence[str] = (),
    also: Sequence[str] | None = None,
    labels: Collection[str] | None = None,
) -> Iterator[Record]:
    """Yield the rows of a parquet file: its wanted columns, and those of `also` (None: all).

    Numbers of classes become names, unless `labels` are such numbers or the task has none.
    """
    with open_parquet(FileRange(path)) as file:
        names = file.schema_arrow.names
        require(wanted, names, str(path))
        columns = [name for name in names if also is None or name in {*wanted, *also}]
        class_names = _class_names(file.schema_arrow.metadata or {}, labels)
        batches = (
            batch.to_pylist() for batch in file.iter_batches(batch_size=1000, columns=columns)
        )
        for number, record in enumerate(itertools.chain.from_iterable(batches), 1):
            for column, known in class_names.items():
                value = record.get(column)
                if isinstance(value, list):
                    record[column] = [known.get(tag, tag) for tag in value]
                elif column in record:
                    record[column] = known.get(value, value)
            yield f"{path}:{number}", record


def _class_names(
    metadata: Mapping[bytes, bytes], labels: Collection[str] | None
) -> dict[str, dict[int, str]]:
    """Return the names of the numbers in each column of classes or of lists of them, as `datasets`
    writes them.
    """
    features = json.loads(metadata.get(b"huggingface", b"{}")).get("info", {}).get("features", {})
    result = {}
    for column, feature in features.items():
        inner = feature[0] if isinstance(feature, list) else feature.get("feature", feature)
        if isinstance(inner, dict) and inner.get("_type") == "ClassLabel":
            known = dict(enumerate(inner["names"]))
            if labels is None or not set(labels) <= set(map(str, known)):
                result[column] = known
    return result


def conll(lines: Lines, name: object, words_column: str, tags_column: str) -> Iterator[Record]:
    """Yield sentences of one word per line, its tag last, with blank lines (or -DOCSTART-) between
    them.

    A sentence with a rejected line is rejected. Raises BadInput where the first column numbers the
    words.
    """
    sentence: list[list[str]] = []  # the columns of each word
    start = ""
    rejected: Rejected | None = None
    for item in itertools.chain(lines, [(0, "")]):
        if isinstance(item, Rejected):
            rejected = item
            continue
        number, line = item
        line = line.rstrip(" \t\r")
        if "\r" in line:  # it would separate words, but not sentences
            rejected = Rejected(f"{name}:{number}", CARRIAGE_RETURN, line[:EXCERPT])
            continue
        fields = line.split("\t") if "\t" in line else split_words(line)
        if fields and fields[0] != "-DOCSTART-":
            if sentence or not _COMMENT.match(line):
                start = start or f"{name}:{number}"
                sentence.append(fields)
            continue
        if rejected:
            yield rejected.where, rejected
        elif sentence:
            numbers = [str(place) for place in range(1, len(sentence) + 1)]
            words = [fields[0] for fields in sentence]
            if words == numbers and len(words) > 1 and min(map(len, sentence)) > 2:
                raise BadInput(
                    f"{start}: its first column numbers the words, as CoNLL-U's and GermEval's "
                    "do; write the word first and its tag last"
                )
            tags = [fields[-1].strip() for fields in sentence]
            yield start, {words_column: words, tags_column: tags}
        sentence = []
        start = ""
        rejected = None


def require(wanted: Sequence[str], names: list[str], where: str, do: str = RENAME) -> None:
    """Raise BadInput for the first wanted column that is missing, and for a name that occurs
    twice.
    """
    for name in wanted:
        if name not in names:
            fault = f"has no column {name!r} among {', '.join(map(repr, names[:12]))}"[:300]
            raise BadInput(f"{where}: {fault}; {do}")
    for name, count in Counter(filter(None, names)).items():
        if count > 1:
            raise BadInput(f"{where}: has the column {name!r} twice; rename or remove one")
