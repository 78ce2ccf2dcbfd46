"""Rows of a file whose columns are not known yet."""

from collections.abc import Iterator
from pathlib import Path

from pipelines.sources import local, own
from pipelines.sources.streams import Piece, plain_suffix


def records(path: Path) -> Iterator[own.Record]:
    """(where, columns) of each row, read as for training."""
    suffix = plain_suffix(path)
    if suffix == ".parquet":
        from pyarrow.parquet import read_schema

        yield from own.parquet(path, [], also=read_schema(path).names)
    elif suffix in local.JSON_SUFFIXES:
        yield from own.jsonl(local.decoded_lines(Piece(path)), path, [])
    elif suffix == ".conll":
        yield from own.conll(local.decoded_lines(Piece(path)), path, "words", "tags")
    else:
        yield from own.tsv(local.decoded_lines(Piece(path)), path, [])
