"""A corpus as units of work: each a file or a shard of a hub data set, readable by any process, in a fixed order."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from electra.data.text import Document, Rejected
from electra.files import remove, write_atomic
from pipelines.sources import CorpusConfig, HubCorpus, LocalCorpus, SampleCorpus, hub, local


@dataclass(frozen=True)
class Unit:
    """One file (`path`) or one of `shards` equal parts of a hub data set, of source number `source`."""

    source: int
    config: LocalCorpus | HubCorpus
    path: Path | None
    shard: int
    shards: int
    bytes: int  # as stored, 0 where unknown: for the progress bar

    def read(self) -> Iterator[Document | Rejected]:
        """The documents of this unit."""
        if isinstance(self.config, LocalCorpus):
            assert self.path is not None
            return local.read_documents(self.path, self.config)
        return hub.read_documents(self.config, self.shard, self.shards)

    def state(self) -> list[str | int]:
        """What a change of the input changes."""
        stat = self.path.stat() if self.path else None
        return [
            self.source,
            str(self.path),
            self.shard,
            self.shards,
            *((stat.st_size, stat.st_mtime_ns) if stat else ()),
        ]


def plan(config: CorpusConfig, where: str, scratch: Path) -> tuple[CorpusConfig, list[Unit]]:
    """All units of a corpus, and the corpus as it was found (hub revisions resolved to commits).

    The sample world is written to `scratch` first. Raises SourceUnreachable at once when a source is not there.
    """
    units: list[Unit] = []
    sources: list[SampleCorpus | LocalCorpus | HubCorpus] = []
    for number, source in enumerate(config.sources):
        place = f"{where}.sources[{number}]"
        if isinstance(source, HubCorpus):
            found = replace(source, revision=hub.resolve(source.dataset, source.revision, place))
            shards = hub.count_shards(found, place)
            units += [Unit(number, found, None, shard, shards, 0) for shard in range(shards)]
            sources.append(found)
            continue
        files = source if isinstance(source, LocalCorpus) else _sample_files(source, scratch / f"sample-{number}")
        paths = local.find_files(files.files, place)
        units += [Unit(number, files, path, 0, 1, path.stat().st_size) for path in paths]
        sources.append(source)
    return replace(config, sources=tuple(sources)), units


def _sample_files(source: SampleCorpus, folder: Path) -> LocalCorpus:
    """The sample world's articles as a file, written unless they are there (the same seed writes the same bytes)."""
    from pipelines.sources.sample_world import write_articles

    done = folder / "done"
    if not done.exists():
        remove(folder)
        folder.mkdir(parents=True)
        write_articles(folder, source.seed)
        write_atomic(done, "")
    return LocalCorpus(kind="local", files=(str(folder / "articles.jsonl"),))
