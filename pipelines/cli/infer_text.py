"""Infer sources and a tokenizer from the files of a text, for `electra new --text`.

    infer_sources()     a source for each kind of file, with the settings that its first rows show
    infer_tokenizer()   case, accents, alphabet and vocabulary that suit its language

Nothing is chosen in silence: notes tell the user the choices.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

from electra.config import build
from electra.data import tokenizer as wordpiece
from electra.errors import BadConfig, BadInput, UserError, for_message
from pipelines.preflight import (
    DOCUMENTS,
    ROWS,
    alphabet_for,
    find_fault,
    find_hints,
    first_rows,
    guess_encoding,
    is_other_encoding,
    read_items,
)
from pipelines.sources import LocalCorpus, custom_tasks, local
from pipelines.sources.paths import make_patterns, unreadable
from pipelines.sources.streams import FileRange, Item, plain_suffix
from pipelines.text.cleaning import Document, QuarantineConfig, Rejected

Kind = tuple[tuple[str, str], ...]  # `format`, and the settings that read it
FIELDS = ("text", "content", "body", "article", "abstract", "document")  # usual names of the text
# Words by which English is recognised, and their share of its words. Published models of English
# drop case and accents; those of nearly all other languages keep both.
ENGLISH = {"the", "of", "and", "to", "is", "that"}
ENGLISH_SHARE = 0.08
# share of the text that may be in words too long for pieces: as of [UNK] in the stage `tokens`
MOST_LOST = 0.05


@dataclass
class TextFacts:
    """Facts about the files of a text: sources by name, whether any has HTML, the first documents,
    and notes for the user.
    """

    sources: dict[str, dict[str, Any]] = field(default_factory=dict)
    markup: bool = False
    texts: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def infer_sources(files: Sequence[str], paths: list[Path], encoding: str) -> TextFacts:
    """Return a source for each kind of file, and the errors of files that no source can read.
    `encoding` is for files that are not UTF-8; "" guesses it where it is clear. Raises UserError
    where no file has text.
    """
    kinds, bad = sort_by_kind(paths, encoding)
    facts = TextFacts()
    for kind, group in kinds.items():
        patterns = make_patterns(group)
        if len(group) == len(paths):
            patterns = list(files)
        elif others := make_patterns([path for path in paths if path not in set(group)]):
            patterns = min(patterns, [*files, *(f"!{other}" for other in others)], key=len)
        name = re.sub(r"[^\w-]", "_", "-".join(value for _, value in kind))
        while name in facts.sources:
            name += "-"
        facts.sources["text" if len(kinds) == 1 else name] = infer_source(
            facts, kind, group, patterns
        )
    if not facts.texts:
        raise unreadable(bad, "--text") if bad else BadInput("--text: all files are empty")
    if bad:
        skipped = ", ".join(str(error).partition(";")[0] for error in bad.values())
        facts.notes.append(for_message(f"skipped: {skipped}"))
    return facts


def infer_source(
    facts: TextFacts, kind: Kind, group: list[Path], patterns: list[str]
) -> dict[str, Any]:
    """Return the source of the files of one kind, and add their facts to `facts`."""
    settings: dict[str, Any] = dict(kind)
    format_ = settings.pop("format")
    delivered = format_ if format_ in local.DELIVERED else "local"
    entry: dict[str, Any] = {"kind": delivered, "files": patterns}
    documents: list[Document] = []
    for _ in range(2):  # the second time parted into documents as the first has shown
        source = build(LocalCorpus, {**entry, **settings}, "--text")
        items = islice(read_items(group, source, {}), DOCUMENTS)
        documents = [item for item in items if isinstance(item, Document)]
        for key, value, _ in find_hints(source, group, documents, markup=facts.markup):
            if key == "markup":
                facts.markup = True
            else:
                settings[key] = value
    if settings:
        chosen = ", ".join(f"{key}: {value}" for key, value in settings.items())
        facts.notes.append(f"{group[0]}: is read with {chosen}")
    guess, word = guess_encoding(group[0])
    if guess and guess == settings.get("encoding"):
        facts.notes[-1] += f", as it contains {word!r}; if that is wrong, give --encoding"
    tables = [path for path in group if plain_suffix(path) in {".csv", ".tsv"}]
    if tables and format_ == "text":
        facts.notes.append(
            f"warning: {tables[0]}: is read as plain text, all columns; write its text as JSON "
            "lines or parquet to leave the other columns out"
        )
    facts.texts += [document.text for document in documents]
    return entry | settings


def sort_by_kind(
    paths: list[Path], encoding: str
) -> tuple[dict[Kind, list[Path]], dict[Path, UserError]]:
    """Return the files that can be read, by kind, and the errors of the others."""
    kinds: dict[Kind, list[Path]] = {}
    empty = list[Path]()
    bad: dict[Path, UserError] = {}
    for path in paths:
        try:
            kind, rows = read_kind(path, encoding)
            error: UserError | None = find_fault(rows, path)
        except BadConfig:  # a package is missing
            raise
        except UserError as refused:
            bad[path] = refused
            continue
        few = sum(isinstance(item, Rejected) for item in rows) <= QuarantineConfig().min_tolerated
        if error and not (few and any(isinstance(item, Document) for item in rows)):
            bad[path] = error
        elif rows:
            kinds.setdefault(kind, []).append(path)
        else:
            empty.append(path)
    if kinds:  # an empty file is of any kind
        kinds[max(kinds, key=lambda kind: len(kinds[kind]))] += empty
    return kinds, bad


def read_kind(path: Path, encoding: str) -> tuple[Kind, list[Item]]:
    """Return the kind of a file, and its first rows as that kind."""
    settings = {"format": local.guess_format(path)}
    source: LocalCorpus = build(
        LocalCorpus, {"kind": "local", "files": [str(path)], **settings}, "--text"
    )
    if settings["format"] not in {"parquet", *local.DELIVERED}:
        chosen = encoding if is_other_encoding(path) else ""
        chosen = chosen or guess_encoding(path)[0]
        if chosen:
            settings["encoding"] = chosen
            source = replace(source, encoding=chosen)
    if settings["format"] in {"jsonl", "parquet"}:
        text = choose_field(list(islice(_read_fields(path, source), ROWS)))
        if text not in {"", "text"}:
            settings["text"] = text
            source = replace(source, text=text)
    return tuple(settings.items()), list(islice(first_rows(path, source), ROWS))


def choose_field(rows: Sequence[dict[str, Any]]) -> str:
    """Return the field of the text by its usual names, else the one with the most letters in
    values with spaces, which neither addresses nor data encoded as text have.
    """
    sizes: Counter[str] = Counter()
    for row in rows:
        for key, value in row.items():
            if isinstance(value, str):
                spaced = " " in value.strip() or not value.isascii()
                sizes[key] += sum(map(str.isalpha, value)) if spaced else 0
    usual = [name for name in FIELDS if name in sizes]
    return (usual or sorted(sizes, key=sizes.__getitem__, reverse=True) or [""])[0]


def _read_fields(path: Path, source: LocalCorpus) -> Iterator[dict[str, Any]]:
    """Yield the rows of a file with all of their fields."""
    if source.format == "parquet":
        rows = custom_tasks.parquet(path)
    else:
        rows = custom_tasks.jsonl(local.decoded_lines(FileRange(path), source.encoding), path)
    return (row for _, row in rows if isinstance(row, dict))


def infer_tokenizer(texts: Sequence[str], pieces: int) -> tuple[dict[str, Any], str]:
    """Return the settings of a tokenizer for texts, of `pieces` or of more where their characters
    need it, and a note.

    Raises BadInput for a language without spaces, of which [UNK] would be most.
    """
    words = " ".join(texts).lower().split()
    is_english = sum(word in ENGLISH for word in words) > ENGLISH_SHARE * len(words)
    rules: dict[str, Any] = {"lowercase": is_english, "strip_accents": is_english}
    default = wordpiece.TrainTokenizer.alphabet
    alphabet = max(default, alphabet_for(texts, lowercase=is_english))
    kept, continuations, long_words = wordpiece.choose_letters(
        texts, 10**7, alphabet=alphabet, **rules
    )
    lost = wordpiece.MAX_WORD * long_words / sum(map(len, texts))
    if lost > MOST_LOST:
        raise BadInput(
            f"--text: {lost:.0%} of it or more is in words of over {wordpiece.MAX_WORD} "
            "characters, which no pieces spell; put spaces between the words, with a segmenter"
        )
    needed = len(wordpiece.SPECIALS) + len(kept) + len(continuations)
    if 1.5 * needed > pieces:
        pieces = -(-3 * needed // 512) * 256
    settings: dict[str, Any] = {"kind": "train", "vocab_size": pieces}
    if alphabet > default:
        settings["alphabet"] = alphabet
    case = "without case and accents, as published models of English"
    if not is_english:
        settings |= rules
        case = "with case and accents, as published models of most languages"
    return settings, f"vocabulary: {pieces:,} pieces {case}"
