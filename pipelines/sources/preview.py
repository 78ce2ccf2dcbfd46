"""The beginning of a corpus of the user's own files, read as its stage will read it, to find mistakes early.

The first rows of every file are read, of five thousand of them where there are more, and a few thousand documents: a
second or two. A hint says what was seen there and which setting to look at.
"""

import codecs
import re
import string
import sys
from collections import Counter, deque
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from electra.errors import BadConfig, BadInput, UserError, shown
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
from pipelines.sources.local import HEADING, Item
from pipelines.sources.paths import find_files, require_folder, unreadable
from pipelines.sources.streams import COMPRESSIONS, LOOK, LeftOut, Piece, first_bytes, is_utf8, mark_of, read_lines
from pipelines.text.cleaning import Document, Rejected, clean, looks_marked_up

DOCUMENTS, CHARACTERS = 2000, 4_000_000  # to read of a corpus
FILES, ROWS, BEGINNING = 5_000, 20, 1 << 16  # to look at, rows of each, and bytes of one whose rows may be long
COMPRESSED = 32 << 20  # stored bytes of compressed files to read to their ends
MANY = 1000  # bad rows
TYPOGRAPHY = "“”„‘’‚«»–—…€£§°·¿¡ªº©®\xa0"  # usual in Western text beside letters
LARGE = 100_000  # characters of a text file that are hardly one document
FEW = 10  # documents: too few to hold some back
Hint = tuple[str, str | bool, str]  # a setting, what it should be, and why


def check(source: SourceConfig | TaskSourceConfig, where: str = "source") -> None:
    """Raise SourceUnreachable or BadInput unless a source is there; nothing of it is read."""
    if isinstance(source, LocalCorpus):
        find_files(source.files, where)
    elif isinstance(source, HubCorpus):
        hub.resolve(source.dataset, source.revision, where)
    elif isinstance(source, LocalTasks):
        for text in filter(None, (source.glue, source.squad)):
            require_folder(Path(text), where)
    elif isinstance(source, OwnTasks):
        for each in source.tasks.values():
            find_files(tuple(filter(None, (each.train, each.dev, each.test))), where)
    elif isinstance(source, HubTasks):
        for part in filter(None, (source.glue, source.squad1, source.squad2)):
            hub.resolve(part.dataset, part.revision, where)


def look(corpus: CorpusConfig, where: str) -> "Look":
    """Read the beginning of every local source and of its files."""
    seen = Look(corpus)
    for number, source in enumerate(corpus.sources):
        if isinstance(source, LocalCorpus):
            seen.read(source, f"{where}.sources[{number}]")
        else:
            seen.whole = False
    return seen


def print_hints(corpus: CorpusConfig, where: str) -> None:
    """Print the hints on standard error, and raise what is wrong with files, before the stage reads all of them."""
    seen = look(corpus, where)
    for hint in seen.hints:
        print(f"hint: {hint}", file=sys.stderr)
    if seen.refused:
        raise unreadable(seen.refused, where)


def first_rows(path: Path, source: LocalCorpus) -> Iterator[Item | LeftOut]:
    """The rows at the beginning of a file: the first are read in bounded time, though a text may be one document."""
    most = BEGINNING if local.format_of(path, source) == "text" else None
    return local.read_documents(Piece(path, most=most), source)


def poor(found: list[Item | LeftOut], path: Path) -> BadInput | None:
    """What is wrong with a file, if at least half of its first rows are bad, or it is plainly of another encoding."""
    bad = [item for item in found if isinstance(item, Rejected)]
    if bad and (len(bad) * 2 >= len(found) or (bad[0].reason == "invalid UTF-8" and other_encoding(path)[0])):
        return wrong(bad[0])
    return None


def wrong(first: Rejected) -> BadInput:
    """A bad row as an error, with the setting that may read it."""
    do = ""
    if first.reason == "invalid UTF-8":
        encoding, word = other_encoding(Path(first.where.rpartition(":")[0]))
        do = f"set `encoding: {encoding}` if {shown(word)} is right" if encoding else ""
    elif first.reason.startswith("no field"):
        do = "set `text` to the field that holds it"
    return BadInput(first.where, f"{first.reason}: {first.excerpt[:40]!r}", "a document", do)


def other_encoding(path: Path) -> tuple[str, str]:
    """The Western encoding in which a text that is no UTF-8 is plainly letters, and a word with them; or nothing.

    Letters of ASCII prevail in all that it is for; where they do not, it is another script in another encoding.
    """
    start = first_bytes(path, BEGINNING)
    if mark_of(start) or is_utf8(start):
        return "", ""
    encoding = "latin-1" if not re.search(b"[\x80-\x9f]", start) else "cp1252"
    text = start.decode(encoding, "replace")
    ascii_letters = sum(char.isascii() and char.isalpha() for char in text)
    others = [char for char in text if not char.isascii()]
    letters = sum(char.isalpha() or char in TYPOGRAPHY for char in others)
    plain = letters >= 0.9 * len(others) and ascii_letters >= 3 * len(others)
    word = next((word for word in text.split() if not word.isascii()), "").strip(string.punctuation)
    return (encoding, word) if plain and word else ("", "")


def _is_garbled(path: Path, source: LocalCorpus) -> bool:
    start = first_bytes(path, LOOK)
    unmarked = not mark_of(start) and not start.startswith(codecs.BOM_UTF8)
    formats = {"parquet", *local.DELIVERED}
    return unmarked and local.format_of(path, source) not in formats and not start.isascii() and is_utf8(start)


class Look:
    """The clean texts at a corpus's beginning, whether they are all of it, and hints.

    `bad` has (rows read, bad ones among them, the first of these) for each source with bad rows, `refused` an error for
    each file that the stage will refuse; `looked` is how many of the `files` were looked at.
    """

    def __init__(self, corpus: CorpusConfig) -> None:
        self.texts, self.hints, self.whole = list[str](), list[str](), True
        self.bad: list[tuple[int, int, Rejected]] = []
        self.looked = self.files = 0
        self._corpus = corpus
        self._unread: dict[Path, UserError] = {}
        self._poor: list[BadInput] = []
        self._rows = self._bad = self._compressed = 0

    def read(self, source: LocalCorpus, place: str) -> None:
        """Read the first rows of every file of a source (of FILES of them), and its first documents."""
        paths = find_files(source.files, place)
        some = paths[:: -(-len(paths) // FILES)]
        self.files, self.looked = self.files + len(paths), self.looked + len(some)
        for path in some:
            try:
                self._begin(path, source)
            except BadConfig:  # a package is missing
                raise
            except UserError as error:
                self._unread[path] = error
        if garbled := [path for path in some if source.encoding != "utf-8" and _is_garbled(path, source)]:
            found_as = f"{len(garbled):,} files seem to be UTF-8, the first {garbled[0]}"
            self.hints.append(f"{place}: {found_as}; they need a source without `encoding: {source.encoding}`")
        readable = [path for path in paths if path not in self._unread]
        found = list(islice(_items(readable, source, self._unread), DOCUMENTS + 1))
        documents = [item for item in found if isinstance(item, Document)]
        if rejected := [item for item in found if isinstance(item, Rejected)]:
            self.bad.append((len(found), len(rejected), rejected[0]))
        cleaning = self._corpus.cleaning
        self.hints += (f"{place}: {hint}" for *_, hint in _notice(source, readable, documents, cleaning.markup))
        self.texts += filter(None, (clean(item.text, cleaning, Counter()) for item in documents))
        self.whole &= len(found) <= DOCUMENTS and sum(len(item.text) for item in documents) < CHARACTERS

    def _begin(self, path: Path, source: LocalCorpus) -> None:
        items = first_rows(path, source)
        found = list(islice(items, ROWS))
        error = poor(found, path)
        if error and self._bad <= MANY:  # so many in one file are too many for the stage, too
            found += islice(items, MANY)
        delivered = local.format_of(path, source) in local.DELIVERED  # in files of GB
        if path.suffix in COMPRESSIONS and self._compressed < COMPRESSED and not delivered:  # damage shows at the end
            self._compressed += path.stat().st_size
            deque(read_lines(Piece(path)), 0)
        if error := poor(found, path):
            self._poor.append(error)
            self._bad += sum(isinstance(item, Rejected) for item in found)
        size = sum(len(item.text) for item in found if isinstance(item, Document))
        bytes_ = path.stat().st_size * (4 if path.suffix in (*COMPRESSIONS, ".parquet") else 1)
        self._rows += max(len(found), bytes_ * len(found) // size if size and len(found) >= ROWS else 0)

    @property
    def refused(self) -> list[UserError]:
        """All that is wrong with files. Bad rows count if the quarantine does not tolerate them, as far as one sees."""
        rows = self._rows * self.files // max(1, self.looked)
        many = self._bad > self._corpus.quarantine.tolerated(min(rows, 1000 * MANY)) or self._bad == self._rows
        return [*self._unread.values(), *(self._poor if many else ())]


def _items(paths: list[Path], source: LocalCorpus, refused: dict[Path, UserError]) -> Iterator[Item | LeftOut]:
    """The documents of all files until so many characters are read; files that cannot be read are noted."""
    characters = 0
    for path in paths:
        try:
            for item in local.read_documents(Piece(path), source):
                yield item
                characters += len(item.text) if isinstance(item, Document) else 0
                if characters >= CHARACTERS:
                    return
        except UserError as error:
            refused[path] = error


def hints(source: LocalCorpus, paths: list[Path], markup: bool) -> list[Hint]:
    """Hints for one source."""
    found = list(islice(_items(paths, source, {}), DOCUMENTS))
    return list(_notice(source, paths, [item for item in found if isinstance(item, Document)], markup))


def _notice(source: LocalCorpus, paths: list[Path], documents: list[Document], markup: bool) -> Iterator[Hint]:
    texts = [document.text for document in documents]
    if paths and local.format_of(paths[0], source) == "text":
        lines = [line for text in texts for line in text.split("\n") if line.strip()][:20_000]
        headings = sum(HEADING.fullmatch(line) is not None for line in lines)
        if source.documents == "file" and headings > 2:
            found = f"{headings:,} lines are headings as ` = Title = `"
            yield "documents", "headings", f"{found}; `documents: headings` splits it into articles"
        elif source.documents == "file" and _too_few(texts):
            longest = max(texts, key=len)
            way = "blank_lines" if "\n\n" in longest else "lines"
            found = f"a file is one document of {len(longest):,} characters"
            yield "documents", way, f"{found}; `documents: {way}` splits it"
        if not source.hard_wrapped and source.documents != "lines" and _wrapped(lines):
            found = "lines seem to be wrapped at a fixed width"
            yield "hard_wrapped", True, f"{found}; `hard_wrapped: true` joins paragraphs again"
    marked = sum(map(looks_marked_up, texts))
    if not markup and marked > max(2, len(texts) // 100):
        found = f"{marked:,} of the first {len(texts):,} documents contain HTML such as &amp; or <br>"
        yield "markup", True, f"{found}; `cleaning: {{markup: true}}` removes it"


def _too_few(texts: list[str]) -> bool:
    """Whether a document a file is likely a mistake: one is very long, or they are few and have many lines."""
    return any(len(text) > LARGE or (len(texts) < FEW and text.count("\n") >= FEW) for text in texts)


def _wrapped(lines: list[str]) -> bool:
    """Whether most lines are about as wide as a typewriter's, and none much wider."""
    filled = sum(50 <= len(line) <= 85 for line in lines)
    return len(lines) > 200 and filled > len(lines) / 2 and max(map(len, lines)) <= 100
