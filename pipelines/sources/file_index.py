"""One look at every file before it is read: its hash, and where a large one is cut so that all workers share it.

A plain file is cut behind the ends of documents, some RANGE_BYTES apart; a parquet file between row groups. Gzip, xz
and zstd have no places to begin in the middle: such a file is one unit, so a corpus should be many of them.
"""

import hashlib
import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from electra.errors import BadInput
from electra.storage.manifest import read_notes, write_sealed
from pipelines.sources import LocalCorpus
from pipelines.sources.local import format_of
from pipelines.sources.streams import COMPRESSIONS, Piece, first_bytes, mark_of, stamp

RANGE_BYTES = 64 << 20
BLOCK = 1 << 20
# What ends a document; the next one begins behind it.
ENDS = {
    "jsonl": rb"\n",
    "text": rb"\n",
    "blank_lines": rb"\n[ \t\r]*\n",
    "headings": rb"\n(?=\s?= (?!= )[^\n]*(?<! =) =\s*\n)",
    "wikiextractor": rb"</doc>[ \t\r]*\n",
}
LONGEST_END = 64  # bytes: an end is searched for across the seam of two blocks

Cut = tuple[int, int]  # where a piece begins (byte or row group) and the number of its first line or row


def pieces(paths: list[Path], source: LocalCorpus, notes: Path) -> Iterator[Piece]:
    """Every file as one piece or several. `notes` keeps what was found, so that a resumed run need not look again."""
    known = read_notes(notes)
    found: dict[str, Any] = {}
    for path in paths:
        now = stamp(path)
        key = f"{path} {format_of(path, source)} {source.documents} {RANGE_BYTES}"
        note = known.get(key)
        if note is None or tuple(note["stamp"]) != now:
            sha256, cuts = look(path, source)
            if stamp(path) != now:
                raise BadInput(path, "changed while it was read", "a file that stands still", "run the same command")
            note = {"stamp": now, "sha256": sha256, "cuts": cuts}
        found[key] = note
        for (start, line), (end, _) in itertools.pairwise([*note["cuts"], (None, 0)]):
            size = (end or now[0]) - start if path.suffix != ".parquet" else now[0] // len(note["cuts"])
            yield Piece(path, start, end, line, note["sha256"], now, size)
    if found != known:
        write_sealed(notes, {**known, **found})


def look(path: Path, source: LocalCorpus) -> tuple[str, list[Cut]]:
    """The sha256 of a file and the beginnings of its pieces."""
    kind = format_of(path, source)
    starts = [0]
    if kind == "parquet":
        cuts = _row_groups(path)
    elif not (path.suffix in COMPRESSIONS or mark_of(first_bytes(path)) or path.stat().st_size <= RANGE_BYTES * 3 // 2):
        with path.open("rb") as file:
            pattern = ENDS[source.documents if kind == "text" and source.documents in ENDS else kind]
            starts += _places(file, path.stat().st_size, re.compile(pattern))
    state = hashlib.sha256()
    lines, counted = 1, [(0, 1)]
    with path.open("rb") as file:
        for start, end in itertools.zip_longest(starts, starts[1:]):
            left = end - start if end else None
            while block := file.read(BLOCK if left is None else min(BLOCK, left)):
                state.update(block)
                if left is not None:
                    lines += block.count(b"\n")
                    left -= len(block)
            if end:
                counted.append((end, lines))
    return state.hexdigest(), cuts if kind == "parquet" else counted


def _places(file: IO[bytes], size: int, end: re.Pattern[bytes]) -> Iterator[int]:
    """Where pieces but the first begin: behind the first end of a document after each multiple of RANGE_BYTES."""
    place = RANGE_BYTES
    while place < size - RANGE_BYTES // 2:
        file.seek(place)
        begin, held = place, b""
        while block := file.read(BLOCK):
            held += block
            if match := end.search(held):
                break
            begin, held = begin + max(0, len(held) - LONGEST_END), held[-LONGEST_END:]
        else:
            return
        place = begin + match.end()
        if place < size:
            yield place
        place += RANGE_BYTES


def _row_groups(path: Path) -> list[Cut]:
    """Ranges of row groups, some RANGE_BYTES stored bytes each; a damaged file is one piece: its reader will tell."""
    import pyarrow
    import pyarrow.parquet

    cuts, held, rows = [(0, 1)], 0, 1
    try:
        metadata = pyarrow.parquet.read_metadata(path)
        groups = [metadata.row_group(group) for group in range(metadata.num_row_groups)]
    except (pyarrow.ArrowException, OSError, ValueError, LookupError, TypeError):
        return cuts
    for number, group in enumerate(groups):
        if held >= RANGE_BYTES:
            cuts.append((number, rows))
            held = 0
        held += group.total_byte_size
        rows += group.num_rows
    return cuts
