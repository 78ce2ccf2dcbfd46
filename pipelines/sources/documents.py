"""A corpus as units of work: some files, a range of a large file, or a part of a hub data set, in a
fixed order. A unit depends only on the corpus, so any process on any machine with the same files
makes the same documents from unit number k.

1. every file is read once for its hash and, if it is large, for the ends of documents some
  RANGE_BYTES apart
2. a parquet file is cut between row groups, a bz2 dump of Wikipedia between its streams, any other
  compressed file and WARC nowhere: a corpus should be many of them
3. small neighbours share a unit
"""

import hashlib
import itertools
import re
import sys
from collections.abc import Iterator
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import Any

from electra.errors import BadInput, UserError
from electra.files import atomic_folder
from electra.storage.manifest import read_cache, verify_manifest, write_checksummed, write_manifest
from pipelines.sources import (
    CorpusConfig,
    HubCorpus,
    LocalCorpus,
    SampleCorpus,
    hub,
    local,
    streams,
)
from pipelines.sources.paths import find_files
from pipelines.sources.streams import (
    BLOCK,
    COMPRESSIONS,
    FileRange,
    Item,
    byte_order_mark,
    find_ends,
    find_streams,
    first_bytes,
)

# stored bytes: smaller files share a unit, WikiExtractor writes them by the ten thousand
GROUP_BYTES = 8 << 20
RANGE_BYTES = 64 << 20
# The end of a document; the next one begins behind it.
ENDS = {
    "jsonl": re.compile(rb"\n"),
    "text": re.compile(rb"\n"),
    "blank_lines": re.compile(rb"\n[ \t\r]*\n"),
    "headings": re.compile(rb"\n(?=\s?= (?!= )[^\n]*(?<! =) =\s*\n)"),
    "wikiextractor": re.compile(rb"</doc>[ \t\r]*\n"),
    "gigaword": re.compile(rb"</DOC>[ \t\r]*\n"),
    "wikipedia": re.compile(rb"</page>[ \t\r]*\n"),
}

# where a piece begins (byte or row group) and the number of its first line or row
Cut = tuple[int, int]


@dataclass(frozen=True)
class WorkUnit:
    """Some pieces of files, or a part of a hub data set, of source number `source`."""

    source: int
    config: LocalCorpus | HubCorpus
    pieces: tuple[FileRange, ...] = ()
    part: hub.HubFile | None = None

    def read(self) -> Iterator[Item]:
        """Yield the documents of this unit."""
        if isinstance(self.config, LocalCorpus):
            for piece in self.pieces:
                yield from local.read_documents(piece, self.config)
        else:
            assert self.part is not None
            yield from hub.read_documents(self.config, self.part)

    def state(self) -> list[object]:
        """Return the names and hashes of the input, without paths and times, so that machines agree
        on them.
        """
        files = [(piece.path.name, piece.sha256, piece.start, piece.end) for piece in self.pieces]
        return [self.source, self.part and astuple(self.part), files]


def plan(config: CorpusConfig, where: str, scratch: Path) -> tuple[CorpusConfig, list[WorkUnit]]:
    """Return all units of a corpus, and the corpus with the hub's revisions resolved to commits.

    The sample world is written to `scratch` first, and facts about the files are cached there.
    Raises SourceUnreachable at once when a source is missing.
    """
    units: list[WorkUnit] = []
    sources: list[SampleCorpus | LocalCorpus | HubCorpus] = []
    for number, source in enumerate(config.sources):
        place = f"{where}.sources[{number}]"
        if isinstance(source, HubCorpus):
            source = replace(source, revision=hub.resolve(source.dataset, source.revision, place))
            units += [WorkUnit(number, source, part=part) for part in hub.parts(source, place)]
        else:
            files = (
                source
                if isinstance(source, LocalCorpus)
                else _sample_files(source, scratch / f"sample-{number}")
            )
            cut = pieces(find_files(files.files, place), files, scratch / f"survey-{number}.json")
            units += [WorkUnit(number, files, group) for group in _groups(cut)]
        sources.append(source)
    return replace(config, sources=tuple(sources)), units


def pieces(paths: list[Path], source: LocalCorpus, notes: Path) -> Iterator[FileRange]:
    """Yield every file as one piece or several. `notes` caches them, so that a resumed run need not
    read the files.
    """
    known = read_cache(notes)
    of_files: dict[str, Any] = {}
    for path in paths:
        now = streams.stamp(path)
        kind = local.file_format(path, source)
        key = f"{path} {kind} {source.documents} {RANGE_BYTES}"
        note = known.get(key)
        if note is None or tuple(note["stamp"]) != now:
            with streams.unchanged(FileRange(path, stamp=now)):
                sha256, cuts = look(path, source)
            note = {"stamp": now, "sha256": sha256, "cuts": cuts}
        of_files[key] = note
        for (start, line), (end, _) in itertools.pairwise([*note["cuts"], (None, 0)]):
            size = (end or now[0]) - start
            if kind == "parquet":  # whose places are row groups
                size = now[0] // len(note["cuts"])
            yield FileRange(path, start, end, line, note["sha256"], now, size)
    if of_files != known:
        write_checksummed(notes, {**known, **of_files})


def look(path: Path, source: LocalCorpus) -> tuple[str, list[Cut]]:
    """Return the sha256 of a file and the beginnings of its pieces."""
    kind = local.file_format(path, source)
    state = hashlib.sha256()
    line = 1
    cuts = [(0, 1)]
    with path.open("rb") as file:
        for end in (*_places(path, kind, source.documents), path.stat().st_size):
            while block := file.read(min(BLOCK, end - file.tell())):
                state.update(block)
                line += block.count(b"\n")
            cuts.append((end, line))
    return state.hexdigest(), _row_groups(path) if kind == "parquet" else cuts[:-1]


def _places(path: Path, kind: str, documents: str) -> Iterator[int]:
    """Yield where pieces but the first begin: behind the first end of a document after each
    multiple of RANGE_BYTES.
    """
    in_streams = kind == "wikipedia" and path.suffix == ".bz2"
    end = ENDS.get(documents if kind == "text" else kind, ENDS["text"])
    if not in_streams and (
        kind in {"parquet", "warc"}
        or path.suffix in COMPRESSIONS
        or byte_order_mark(first_bytes(path))
    ):
        return
    place = RANGE_BYTES
    size = path.stat().st_size
    with path.open("rb") as file:
        while place < size - RANGE_BYTES // 2:
            if in_streams:
                places = find_streams(path, place, b"<page>")
            else:
                places = find_ends(file, place, end)
            if (place := next(places, size)) < size:
                yield place
            place += RANGE_BYTES


def _row_groups(path: Path) -> list[Cut]:
    """Return ranges of row groups, some RANGE_BYTES stored bytes each. A damaged file is one piece:
    its reader refuses it.
    """
    cuts = [(0, 1)]
    stored = 0
    rows = 1
    try:
        with local.open_parquet(FileRange(path)) as file:
            groups = [file.metadata.row_group(number) for number in range(file.num_row_groups)]
    except BadInput:
        return cuts
    for number, group in enumerate(groups):
        if stored >= RANGE_BYTES:
            cuts.append((number, rows))
            stored = 0
        stored += group.total_byte_size
        rows += group.num_rows
    return cuts


def _groups(cut: Iterator[FileRange]) -> Iterator[tuple[FileRange, ...]]:
    """Yield small neighbours together and each other piece alone."""
    group: list[FileRange] = []
    size = 0
    for piece in cut:
        if group and size + piece.size > GROUP_BYTES:
            yield tuple(group)
            group = []
            size = 0
        group.append(piece)
        size += piece.size
    if group:
        yield tuple(group)


def _sample_files(source: SampleCorpus, folder: Path) -> LocalCorpus:
    """Return the sample world's articles as a file, written unless they exist, complete (same
    settings, same bytes).
    """
    from pipelines.sources.sample_world import write_articles

    facts: dict[str, Any] = {"kind": "articles", "seed": source.seed}
    try:
        verify_manifest(folder, **facts)
    except UserError as error:
        if folder.exists():
            print(f"warning: {error}; the articles are written again", file=sys.stderr, flush=True)
        with atomic_folder(folder) as temporary:
            write_articles(temporary, source.seed)
            write_manifest(temporary, **facts)
    return LocalCorpus(kind="local", files=(str(folder / "articles.jsonl"),))
