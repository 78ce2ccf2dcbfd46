"""Generated bad files, and the rule for each: everything is counted, or one sentence says why
not.
"""

import bz2
import gzip
import io
import json
import lzma
import re
from collections.abc import Callable

import pyarrow
import pyarrow.parquet
import zstandard
from hypothesis import strategies as st

from electra.errors import UserError
from pipelines.sources import LocalCorpus
from pipelines.sources.local import read_documents
from pipelines.sources.streams import FileRange, Skipped, byte_order_mark
from pipelines.text.cleaning import Document, Rejected

COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".bz2": bz2.compress,
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".zst": zstandard.ZstdCompressor(write_checksum=True).compress,
}
LIST = "not a JSON object but a list; write one object per line (jq -c '.[]')"
BAD_LINES = [
    (b"\xff\xfe{}", "invalid UTF-8"),
    (b'{"text": "cut', "not JSON"),
    (b"[1, 2]", "not a JSON object"),
    (b'[{"text": "x"}]', LIST),
    (b"[", LIST),
    (b'"text"', "not a JSON object"),
    (b'{"body": "x"}', "no field 'text'"),
    (b'{"text": 5}', "field 'text' is not text"),
    (b'{"text": null}', "field 'text' is not text"),
    (b'{"text": "a \\ud800 b"}', "lone surrogate"),
    (b'{"text": "a", "text": "b"}', "a key twice in one object"),
    (b'{"text": "\x01"}', "not JSON"),
    (b'{"text": "a\x00b"}', "not JSON"),
    (b"[" * 100_000, "not JSON"),
    (b'{"text": "' + b"x" * 2000, "a line longer than 0 MiB"),
]

# parts of what is delivered
RECORDS = b"""WARC/1.0\nWARC-Type: response\nContent-Length: 9\nHTTP/1.1 200 OK
Content-Type: text/html\n<DOC id="7" type="story" >\n<P>\n</DOC>\n<mediawiki>\n<page>\n</page>
</mediawiki>\n</doc>\n<doc id="7">\n\n \n\r\n\x00\n\xef\xbb\xbf\n\xc2\x85\n\xe2\x80\xa8""".split(
    b"\n"
)
VALUES = st.recursive(st.none() | st.floats() | st.text(max_size=5), st.lists, max_leaves=4)
LINES = st.one_of(
    st.binary(max_size=30),
    st.sampled_from([line for line, _ in BAD_LINES[:-2]]),
    st.sampled_from(RECORDS),
    st.text(max_size=20).map(lambda text: json.dumps({"text": text}).encode()),
    VALUES.map(lambda value: json.dumps(value).encode()),
    VALUES.map(lambda value: json.dumps({"text": "t", "id": value}).encode()),
)
FORMATS = "auto jsonl wikiextractor text parquet warc gigaword wikipedia".split()
FORMS = st.sampled_from(
    [
        *({"format": kind} for kind in FORMATS),
        {"format": "text", "documents": "blank_lines"},
        {"format": "text", "documents": "lines"},
        {"hard_wrapped": True},
    ]
)
NAMES = st.sampled_from(["a", "a.txt", "a.jsonl", "a.json", "a.parquet"])
FILES = st.fixed_dictionaries(
    {
        "lines": st.lists(LINES, max_size=8),
        "form": FORMS,
        "name": NAMES,
        "suffix": st.sampled_from(list(COMPRESS)),
        "streams": st.integers(1, 3),
    }
)
DAMAGE = st.tuples(
    st.sampled_from("none none cut flip append".split()), st.integers(0, 2**20), st.integers(1, 255)
)
PARQUET = st.lists(
    st.fixed_dictionaries({"text": st.text(max_size=9) | st.none(), "id": st.text(max_size=3)}),
    min_size=1,
    max_size=9,
)


def write(folder, file, damage):
    """One generated file; a compressed one may be several streams, one after the other."""
    data = b"\n".join(file["lines"])
    step = len(data) // file["streams"] + 1
    parts = [data[start : start + step] for start in range(0, len(data) or 1, step)]
    path = folder / (file["name"] + file["suffix"])
    path.write_bytes(damaged(b"".join(map(COMPRESS[file["suffix"]], parts)), damage))
    return path


def damaged(data, damage):
    kind, place, value = damage
    place %= len(data) or 1
    if kind == "cut":
        return data[:place]
    if kind == "append":
        return data + bytes([value]) * (1 + place % 9)
    if kind == "flip" and data:
        return data[:place] + bytes([data[place] ^ value]) + data[place + 1 :]
    return data


def parquet(rows, row_group_size=None):
    """Return rows or a table as a parquet file."""
    table = pyarrow.Table.from_pylist(rows) if isinstance(rows, list) else rows
    buffer = io.BytesIO()
    pyarrow.parquet.write_table(table, buffer, row_group_size)
    return buffer.getvalue()


def complete(file, damage):
    """Whether a file that is read at all has to be read whole: undamaged, or compressed with
    checksums.
    """
    return damage[0] == "none" or (damage[0] == "flip" and file["suffix"] != "")


def read(path, data=None, kind="local", **settings):
    """Write `data` to a file, and return its items."""
    if data is not None:
        path.write_bytes(data)
    return list(read_documents(FileRange(path), LocalCorpus(kind=kind, files=("x",), **settings)))


def texts(items):
    """Return the texts of the documents among items."""
    return [item.text for item in items if isinstance(item, Document)]


def rejections(items):
    """Return place and reason of the rejected items."""
    return [(item.where, item.reason) for item in items if isinstance(item, Rejected)]


def read_one(path, file, whole):
    """Read a file. With `whole`, every line is a document's, rejected, or blank."""
    try:
        items = read(path, **file["form"])
    except UserError as error:
        assert str(path) in str(error) and "\n" not in str(error)
        return
    assert all(isinstance(item, Document | Rejected | Skipped) for item in items)
    rejected = [item for item in items if isinstance(item, Rejected)]
    for item in rejected:
        assert re.match(rf"{re.escape(str(path))}:\d+$", item.where)
        (item.reason + item.excerpt).encode()
    form = file["form"].get("format")
    if not whole or form not in {"jsonl", "text"}:
        return
    data = b"\n".join(file["lines"])
    if encoding := byte_order_mark(data):
        data = data.decode(encoding, "surrogatepass").encode("utf-8", "surrogatepass")
    lines = data.decode(errors="replace").removeprefix("\ufeff").split("\n")
    filled = sum(bool(line.strip()) for line in lines)
    kept = texts(items)
    if form == "text":
        kept = [line for line in "\n".join(kept).split("\n") if line.strip()]
    assert filled == len(kept) + sum(item.lines for item in rejected), (lines, items)
