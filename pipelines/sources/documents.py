"""A corpus as units of work: each some files, a range of a large one, or a part of a hub data set, in a fixed order.

What a unit is depends on the corpus alone, never on who reads it: so any process on any machine that has the same files
makes the same documents of unit number k.
"""

import sys
from collections.abc import Iterator
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import Any

from electra.data.text import Document, Rejected
from electra.errors import UserError
from electra.files import atomic_folder
from electra.storage.manifest import verify_manifest, write_manifest
from pipelines.sources import CorpusConfig, HubCorpus, LocalCorpus, SampleCorpus, file_index, hub, local
from pipelines.sources.streams import Piece

GROUP_BYTES = 8 << 20  # stored bytes: smaller files share a unit, WikiExtractor writes them by the ten thousand


@dataclass(frozen=True)
class Unit:
    """Some pieces of files, or part `number` of a hub data set, of source number `source`."""

    source: int
    config: LocalCorpus | HubCorpus
    pieces: tuple[Piece, ...] = ()
    part: hub.Part | None = None

    @property
    def bytes(self) -> int:
        """As stored, 0 where unknown: for the progress bar."""
        return sum(piece.size for piece in self.pieces) if self.part is None else self.part.bytes

    def read(self) -> Iterator[Document | Rejected]:
        """The documents of this unit."""
        if isinstance(self.config, LocalCorpus):
            for piece in self.pieces:
                yield from local.read_documents(piece, self.config)
        else:
            assert self.part is not None
            yield from hub.read_documents(self.config, self.part)

    def state(self) -> list[object]:
        """What a change of the input changes: names and contents, but no place or time, so machines agree on it."""
        return [
            self.source,
            self.part and astuple(self.part),
            [(p.path.name, p.sha256, p.start, p.end) for p in self.pieces],
        ]


def plan(config: CorpusConfig, where: str, scratch: Path) -> tuple[CorpusConfig, list[Unit]]:
    """All units of a corpus, and the corpus as it was found (hub revisions resolved to commits).

    The sample world is written to `scratch` first, and what the files hold is noted there. Raises SourceUnreachable at
    once when a source is not there.
    """
    units: list[Unit] = []
    sources: list[SampleCorpus | LocalCorpus | HubCorpus] = []
    for number, source in enumerate(config.sources):
        place = f"{where}.sources[{number}]"
        if isinstance(source, HubCorpus):
            pinned = replace(source, revision=hub.resolve(source.dataset, source.revision, place))
            units += [Unit(number, pinned, part=part) for part in hub.parts(pinned, place)]
            sources.append(pinned)
            continue
        files = source if isinstance(source, LocalCorpus) else _sample_files(source, scratch / f"sample-{number}")
        paths = local.find_files(files.files, place)
        pieces = file_index.pieces(paths, files, scratch / f"survey-{number}.json")
        units += [Unit(number, files, group) for group in _groups(pieces)]
        sources.append(source)
    return replace(config, sources=tuple(sources)), units


def _groups(pieces: Iterator[Piece]) -> Iterator[tuple[Piece, ...]]:
    """Neighbours that are small, together; each other piece alone."""
    group: list[Piece] = []
    for piece in pieces:
        if group and sum(member.size for member in group) + piece.size > GROUP_BYTES:
            yield tuple(group)
            group = []
        group.append(piece)
    if group:
        yield tuple(group)


def _sample_files(source: SampleCorpus, folder: Path) -> LocalCorpus:
    """The sample world's articles as a file, written unless they are there, whole (same settings, same bytes)."""
    from pipelines.sources.sample_world import write_articles

    facts: dict[str, Any] = {"kind": "articles", "seed": source.seed, "without": list(source.without)}
    try:
        verify_manifest(folder, **facts)
    except UserError as error:
        if folder.exists():
            print(f"warning: {error}; the articles are written again", file=sys.stderr, flush=True)
        with atomic_folder(folder) as temporary:
            write_articles(temporary, source.seed, source.without)
            write_manifest(temporary, **facts)
    return LocalCorpus(kind="local", files=(str(folder / "articles.jsonl"),))
