"""Bad lines, the ways to compress a file, and short ways to write and read one."""

import bz2
import functools
import gzip
import io
import lzma
from collections.abc import Callable

import pyarrow
import pyarrow.parquet
import zstandard

from pipelines.sources import LocalCorpus
from pipelines.sources.local import read_documents
from pipelines.sources.streams import FileRange
from pipelines.text.cleaning import Document, Rejected

COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".bz2": bz2.compress,
    ".gz": functools.partial(gzip.compress, mtime=0),  # the same bytes in every process
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
    (b'{"text": "a \\ud800 b"}', "lone surrogate"),
    (b'{"text": "a", "text": "b"}', "a key twice in one object"),
    (b'{"text": "\x01"}', "not JSON"),
    (b"[" * 100_000, "not JSON"),
    (b'{"text": "' + b"x" * 2000, "a line longer than 0 MiB"),
]


def flip(data, place, bits=4):
    """Return bytes of which one is another."""
    return data[:place] + bytes([data[place] ^ bits]) + data[place + 1 :]


def parquet(rows, row_group_size=None):
    """Return rows or a table as a parquet file."""
    table = pyarrow.Table.from_pylist(rows) if isinstance(rows, list) else rows
    buffer = io.BytesIO()
    pyarrow.parquet.write_table(table, buffer, row_group_size)
    return buffer.getvalue()


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
