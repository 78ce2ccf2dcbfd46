"""The beginning of a corpus of local files, read as its stage will read it: what is refused later, or likely a mistake.

A few thousand documents are read, which takes a second. A hint says what was seen there and which setting to look at.
"""

import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from electra.data.text import Document, Rejected, clean, looks_marked_up
from pipelines.runtime import remote_files
from pipelines.sources import (
    CorpusConfig,
    HubCorpus,
    HubTasks,
    LocalCorpus,
    LocalTasks,
    OwnTasks,
    SourceConfig,
    TaskSourceConfig,
    hub,
    local,
)
from pipelines.sources.local import HEADING
from pipelines.sources.streams import Piece

DOCUMENTS, CHARACTERS = 2000, 4_000_000  # to read of a corpus
LARGE = 100_000  # characters of a text file that are hardly one document
FEW = 10  # documents: too few to hold some back


@dataclass(frozen=True)
class Look:
    """The clean texts at a corpus's beginning, whether they are all of it, and hints.

    `bad` has (rows read, bad ones among them, the first of these) for each source with bad rows.
    """

    texts: list[str]
    whole: bool
    hints: list[str]
    bad: list[tuple[int, int, Rejected]]


def check(source: SourceConfig | TaskSourceConfig, where: str = "source") -> None:
    """Raise SourceUnreachable or BadInput unless a source is there; nothing of it is read."""
    if isinstance(source, LocalCorpus):
        local.find_files(source.files, where, fetch=False)
    elif isinstance(source, HubCorpus):
        hub.resolve(source.dataset, source.revision, where)
    elif isinstance(source, LocalTasks):
        for text in filter(None, (source.glue, source.squad)):
            if remote_files.is_url(text):
                remote_files.listing(text, where)
            else:
                local.require_folder(Path(text), where)
    elif isinstance(source, OwnTasks):
        for each in source.tasks.values():
            local.find_files(tuple(filter(None, (each.train, each.dev, each.test))), where, fetch=False)
    elif isinstance(source, HubTasks):
        for part in filter(None, (source.glue, source.squad1, source.squad2)):
            hub.resolve(part.dataset, part.revision, where)


def look(corpus: CorpusConfig, where: str) -> Look:
    """Read the beginning of every local source; raises what is wrong with a file as a whole."""
    texts, hints, bad, whole = list[str](), list[str](), list[tuple[int, int, Rejected]](), True
    for number, source in enumerate(corpus.sources):
        if not isinstance(source, LocalCorpus) or any(map(remote_files.is_url, source.files)):
            whole = False  # files behind URLs are copied by the stage
            continue
        place = f"{where}.sources[{number}]"
        paths = local.find_files(source.files, place)
        found = list(islice(_items(paths, source), DOCUMENTS + 1))
        documents = [item for item in found if isinstance(item, Document)]
        if rejected := [item for item in found if isinstance(item, Rejected)]:
            bad.append((len(found), len(rejected), rejected[0]))
        hints += (f"{place}: {hint}" for hint in _notice(source, paths, documents, corpus.cleaning.markup))
        texts += filter(None, (clean(item.text, corpus.cleaning, Counter()) for item in documents))
        whole &= len(found) <= DOCUMENTS and sum(len(item.text) for item in documents) < CHARACTERS
    return Look(texts, whole, hints, bad)


def print_hints(corpus: CorpusConfig, where: str) -> None:
    """Print the hints on standard error, before the stage reads the whole corpus."""
    for hint in look(corpus, where).hints:
        print(f"hint: {hint}", file=sys.stderr)


def _items(paths: list[Path], source: LocalCorpus) -> Iterator[Document | Rejected]:
    """The documents of all files until so many characters are read."""
    characters = 0
    for path in paths:
        for item in local.read_documents(Piece(path), source):
            yield item
            characters += len(item.text) if isinstance(item, Document) else 0
            if characters >= CHARACTERS:
                return


def hints(source: LocalCorpus, paths: list[Path], markup: bool) -> list[str]:
    """What is likely a mistake in one source's settings."""
    found = list(islice(_items(paths, source), DOCUMENTS))
    return list(_notice(source, paths, [item for item in found if isinstance(item, Document)], markup))


def _notice(source: LocalCorpus, paths: list[Path], documents: list[Document], markup: bool) -> Iterator[str]:
    """Hints, with the setting to look at."""
    texts = [document.text for document in documents]
    if local.format_of(paths[0], source) == "text":
        lines = [line for text in texts for line in text.split("\n") if line.strip()][:20_000]
        headings = sum(HEADING.fullmatch(line) is not None for line in lines)
        if source.documents == "file" and headings > 2:
            yield f"{headings:,} lines are headings as ` = Title = `; `documents: headings` splits it into articles"
        elif source.documents == "file" and _too_few(texts):
            longest = max(texts, key=len)
            way = "blank_lines" if "\n\n" in longest else "lines"
            yield f"a file is one document of {len(longest):,} characters; `documents: {way}` splits it"
        if not source.hard_wrapped and source.documents != "lines" and _wrapped(lines):
            yield "lines seem to be wrapped at a fixed width; `hard_wrapped: true` joins paragraphs again"
    marked = sum(map(looks_marked_up, texts))
    if not markup and marked > max(2, len(texts) // 100):
        where = f"{marked:,} of the first {len(texts):,} documents"
        yield f"{where} hold HTML, as &amp; or <br>; `cleaning: {{markup: true}}` removes it"


def _too_few(texts: list[str]) -> bool:
    """Whether a document a file is likely a mistake: one is very long, or they are few and have many lines."""
    return any(len(text) > LARGE or (len(texts) < FEW and text.count("\n") >= FEW) for text in texts)


def _wrapped(lines: list[str]) -> bool:
    """Whether most lines are about as wide as a typewriter's, and none much wider."""
    filled = sum(50 <= len(line) <= 85 for line in lines)
    return len(lines) > 200 and filled > len(lines) / 2 and max(map(len, lines)) <= 100
