"""Documents from files: jsonl, text, parquet, WikiExtractor output, plain or compressed, each file
a unit of work.

The modules warc, gigaword and wikipedia read the files of crawls, newswire and Wikipedia.
Unreadable parts are yielded as `Rejected` with file:line and a reason; only a file that is damaged
as a whole stops the reader.
"""

import codecs
import contextlib
import html
import itertools
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from electra.errors import BadInput, first_line, short_repr
from electra.files import encodes, unique_keys
from pipelines.sources import LocalCorpus, gigaword, streams, warc, wikipedia
from pipelines.sources.streams import (
    ATTRIBUTE,
    EXCERPT,
    FETCH_ADVICE,
    FileRange,
    Item,
    byte_order_mark,
    first_bytes,
    plain_suffix,
)
from pipelines.text.cleaning import Document, Rejected, unwrap

if TYPE_CHECKING:
    from pyarrow.parquet import ParquetFile

Lines = Iterator[tuple[int, str] | Rejected]
# first bytes of files
TAGS = {b"<doc ": "wikiextractor", b"<DOC id=": "gigaword", b"<mediawiki": "wikipedia"}
JSON_SUFFIXES = (".jsonl", ".ndjson", ".json")
# characters: a longer text file is cut into several documents, at line ends
LONGEST_DOCUMENT = 16 << 20


# How each format is read that needs no setting.
DELIVERED: dict[str, Callable[[FileRange], Iterator[Item]]] = {
    "warc": warc.read_warc,
    "gigaword": gigaword.read_gigaword,
    "wikipedia": wikipedia.read_wikipedia,
}


def file_format(path: Path, source: LocalCorpus) -> str:
    """Return the format from the settings, or from the file itself."""
    return source.format if source.format != "auto" else guess_format(path)


def guess_format(path: Path) -> str:
    """Return the format of a file by its name, or by its first bytes where that says nothing."""
    suffix = plain_suffix(path)
    if suffix == ".parquet":
        return "parquet"
    if suffix in JSON_SUFFIXES:
        return "jsonl"
    if suffix in (".warc", ".wet"):
        return "warc"
    start = first_bytes(path)
    start = (
        start.decode(byte_order_mark(start) or "utf-8", "ignore").lstrip("\ufeff \t\r\n").encode()
    )
    for tag, kind in TAGS.items():
        if start.startswith(tag):
            return kind
    return "jsonl" if start.startswith(b"{") and suffix != ".txt" else "text"


def decoded_lines(piece: FileRange, encoding: str = "utf-8") -> Lines:
    """Yield (line number, text) of each line. One that is too long or not in the encoding is
    rejected.
    """
    return decoded(streams.read_lines(piece), piece.path, encoding_of(piece.path, encoding))


def lines_of(path: Path) -> Lines:
    """Yield the lines of a file, or of a pipe or a device, which can be read only once."""
    if not streams.is_pipe(path):
        yield from decoded_lines(FileRange(path))
        return
    with path.open("rb") as file:
        yield from decoded(streams.read_stream(file, str(path)), path)


def encoding_of(path: Path, encoding: str) -> str:
    """Return the encoding of a file's lines: UTF-8 where a byte order mark announces any, else as
    it is set.
    """
    if encoding == "utf-8":
        return encoding
    start = first_bytes(path)
    return "utf-8" if byte_order_mark(start) or start.startswith(codecs.BOM_UTF8) else encoding


def decoded(
    lines: Iterator[tuple[int, bytes | None]], name: object, encoding: str = "utf-8"
) -> Lines:
    """Decode numbered lines of bytes from any source, and reject those that are not text."""
    for number, line in lines:
        where = f"{name}:{number}"
        if line is None:
            yield Rejected(where, f"a line longer than {streams.LONGEST_LINE >> 20} MiB")
            continue
        try:
            yield number, line.decode(encoding)
        except UnicodeDecodeError:
            yield Rejected(
                where,
                f"invalid {encoding.upper()}",
                line[:EXCERPT].decode("utf-8", "backslashreplace"),
            )


def read_jsonl(piece: FileRange, source: LocalCorpus) -> Iterator[Item]:
    """Yield one JSON object per line, with the text in one field."""
    for item in decoded_lines(piece, source.encoding):
        if isinstance(item, Rejected):
            yield item
        elif item[1].strip():
            yield _read_object(item[1], piece.path, item[0], source)


def _read_object(line: str, path: Path, number: int, source: LocalCorpus) -> Item:
    """Return a line of JSON as a document, or why not."""
    where = f"{path}:{number}"
    try:
        row = json.loads(line, object_pairs_hook=unique_keys)
    except KeyError:
        wrong = "a key twice in one object"
    except (ValueError, RecursionError):
        wrong = "not JSON"
    else:
        if isinstance(row, dict) and source.text in row:
            default = f"{path.name}:{number}"
            return make_document(row[source.text], row.get(source.id), where, source.text, default)
        wrong = f"no field {source.text!r}" if isinstance(row, dict) else "not a JSON object"
    if line.strip() == "[" or line.lstrip().startswith("[{"):
        wrong = "not a JSON object but a list; write one object per line (jq -c '.[]')"
    return Rejected(where, wrong, line[:EXCERPT])


def make_document(text: Any, identity: Any, where: str, field: str, default: str) -> Item:
    """Return a document of a text field and an id field of any type, or why not."""
    if not isinstance(text, str):
        return Rejected(where, f"field {field!r} is not text", short_repr(text))
    if not encodes(text):
        return Rejected(where, "lone surrogate", ascii(text[:EXCERPT]))
    if isinstance(identity, bool) or not isinstance(identity, str | int):
        identity = default
    return Document(str(identity) if encodes(str(identity)) else default, text)


HEADING = re.compile(r"\s?= (?!= ).*(?<! =) =\s*")  # ` = Title = `, and not ` = = Section = = `
_TITLE = re.compile(r"\s?(?:= )+(?!= )(.*)(?<! =)(?: =)+\s*")  # of either


def read_text(piece: FileRange, source: LocalCorpus) -> Iterator[Item]:
    """Yield a text file as one document (cut where very long), or parted as `documents` says.
    Headings lose their signs.
    """
    parted = source.documents
    name = piece.path.name if not piece.start else f"{piece.path.name}:{piece.line}"
    lines: list[str] = []
    size = count = 0
    for item in itertools.chain(decoded_lines(piece, source.encoding), [None]):
        if isinstance(item, Rejected):
            yield item
            continue
        line = item[1] if item else ""
        between = parted in {"blank_lines", "lines"} and not line.strip()
        opens = parted == "headings" and HEADING.fullmatch(line) is not None
        ends = item is None or between or opens or parted == "lines" or size > LONGEST_DOCUMENT
        if size and ends:
            identity = f"{name}#{count}" if count or parted != "file" else name
            yield Document(identity, "\n".join(lines))
            lines = []
            size = 0
            count += 1
        if parted == "headings" and (title := _TITLE.fullmatch(line)):
            line = title[1]
        if not between:
            lines.append(line)
            size += len(line)


_DOC = re.compile(r"\s*<doc\s([^>]*)>\s*")


def read_wikiextractor(piece: FileRange, source: LocalCorpus) -> Iterator[Item]:
    """Yield the documents of WikiExtractor's `<doc id="…" url="…" title="…">`, lines, `</doc>`."""
    for block in streams.read_blocks(piece, "doc", encoding_of(piece.path, source.encoding)):
        head, *lines = block.text.split("\n")
        opening = _DOC.fullmatch(head)
        if block.wrong or not opening:
            wrong = block.wrong or "a <doc> that does not end in its line"
            yield block.rejected(f"{piece.path}:{block.line}", wrong)
            continue
        identity = dict(ATTRIBUTE.findall(opening[1])).get("id")
        yield Document(
            identity or f"{piece.path.name}:{block.line}", html.unescape("\n".join(lines[:-1]))
        )


def read_parquet(piece: FileRange, source: LocalCorpus) -> Iterator[Item]:
    """Yield a column of a parquet file, read a thousand rows at a time. A piece is a range of its
    row groups.
    """
    path = piece.path
    number = piece.line - 1
    with open_parquet(piece) as file:
        names = file.schema_arrow.names
        if source.text not in names:
            raise BadInput(
                f"{path}: has no column {source.text!r}; set `text` to one of {', '.join(names)}"
            )
        columns = [name for name in dict.fromkeys([source.text, source.id]) if name in names]
        groups = range(piece.start, file.num_row_groups if piece.end is None else piece.end)
        for batch in file.iter_batches(batch_size=1000, row_groups=groups, columns=columns):
            values = [_values(batch.column(name)) for name in columns]
            for text, *named in zip(*values, strict=True):
                number += 1
                where = f"{path}:{number}"
                identity = named[0] if named else None
                if isinstance(identity, bytes):
                    identity = identity.decode("utf-8", "replace")
                try:
                    text = text.decode("utf-8") if isinstance(text, bytes) else text
                except UnicodeDecodeError:
                    excerpt = text[:EXCERPT].decode("utf-8", "backslashreplace")
                    yield Rejected(where, "invalid UTF-8", excerpt)
                    continue
                yield make_document(text, identity, where, source.text, f"{path.name}:{number}")


@contextlib.contextmanager
def open_parquet(piece: FileRange) -> Iterator["ParquetFile"]:
    """Open a parquet file. Whatever its library raises within the block is one BadInput."""
    import pyarrow
    import pyarrow.parquet

    if piece.path.suffix in streams.COMPRESSIONS:
        raise BadInput(f"{piece.path}: is compressed as a whole; unpack it")
    try:
        with (
            streams.unchanged(piece),
            pyarrow.parquet.ParquetFile(piece.path, page_checksum_verification=True) as file,
        ):
            yield file
    # damage has many names, in the metadata of `datasets` too
    except (
        pyarrow.ArrowException,
        AttributeError,
        LookupError,
        OSError,
        RecursionError,
        TypeError,
        ValueError,
    ) as error:
        raise BadInput(
            f"{piece.path}: cannot be read ({first_line(error)}); {FETCH_ADVICE}"
        ) from None


def _values(column: Any) -> list[Any]:
    """Return the values of a column, text as bytes: nothing has checked yet that it is UTF-8."""
    import pyarrow

    is_text = pyarrow.types.is_string(column.type) or pyarrow.types.is_large_string(column.type)
    values: list[Any] = (column.cast(pyarrow.large_binary()) if is_text else column).to_pylist()
    return values


# How the others are read, by the settings of their source.
READERS: dict[str, Callable[[FileRange, LocalCorpus], Iterator[Item]]] = {
    "jsonl": read_jsonl,
    "text": read_text,
    "parquet": read_parquet,
    "wikiextractor": read_wikiextractor,
}


def read_documents(piece: FileRange, source: LocalCorpus) -> Iterator[Item]:
    """Yield the documents of one file, or of one range of it."""
    kind = file_format(piece.path, source)
    items = DELIVERED[kind](piece) if kind in DELIVERED else READERS[kind](piece, source)
    return map(unwrapped, items) if source.hard_wrapped else items


def unwrapped(item: Item) -> Item:
    """Return a document with its hard-wrapped paragraphs joined, and anything else as it is."""
    return Document(item.id, unwrap(item.text)) if isinstance(item, Document) else item
