"""Check a run's files before it starts, for `electra check` and `electra new`.

The first rows of every file are read as their stage will read them (of five thousand files where
there are more), and a few thousand documents: a second or two. `check` raises the errors that a
stage would raise later, and yields hints: findings in the files, with the setting to look at.
Settings are checked whenever they are read (pipelines/config).
"""

import itertools
import re
import string
from collections import Counter, deque
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from electra.data import tokenizer as wordpiece
from electra.data.packing import TokensConfig
from electra.data.tokenizer import TrainTokenizer, VocabTokenizer
from electra.errors import BadConfig, BadInput, UserError, pluralize, short_repr
from pipelines.config.params import ModelConfig, Params
from pipelines.sources import CorpusConfig, CustomTasks, LocalCorpus, language, local
from pipelines.sources.local import HEADING
from pipelines.sources.paths import find_files, require_folder, unreadable
from pipelines.sources.streams import (
    COMPRESSIONS,
    FileRange,
    Item,
    byte_order_mark,
    first_bytes,
    is_utf8,
    read_lines,
)
from pipelines.stages.corpus import check_room
from pipelines.stages.inputs import check_source, check_tasks
from pipelines.stages.tasks import open_splits, read_split
from pipelines.stages.tokens import choose_split
from pipelines.text.cleaning import Document, Rejected, clean, looks_marked_up

DOCUMENTS = 2000  # of a corpus to read
CHARACTERS = 4_000_000  # of a corpus to read
FILES = 5_000  # to look at
ROWS = 20  # of each file
BEGINNING = 1 << 16  # bytes of a file whose rows may be long
COMPRESSED = 32 << 20  # stored bytes of compressed files to read to their ends
COVERED = 0.9995  # share of a text's characters that should have a piece of their own
TASK_ROWS = 2000  # of each file of a task
TYPOGRAPHY = "“”„‘’‚«»–—…€£§°·¿¡ªº©®\xa0"  # common in Western text besides letters
# non-ASCII letters of German, French, Spanish, Portuguese, Italian, Dutch, Swedish and Finnish,
# Danish and Norwegian, Icelandic
WESTERN = (
    "äöüß",
    "àâæçéèêëîïôœùûüÿ",
    "áéíóúüñ",
    "áâãàçéêíóôõú",
    "àèéìíîòóùú",
    "áèéëïíóöü",
    "åäöé",
    "æøåéèêò",
    "áæðéíóöúýþ",
)
LARGE = 100_000  # characters; a longer text file is hardly one document
FEW = 10  # documents: too few to hold some back
TEXT_STAGES = {"corpus", "tokens", "pretrain", "ablation"}
TASK_STAGES = {"tasks", "published", "glue", "squad", "ablation"}
Hint = tuple[str, str | bool, str]  # a setting, what it should be, and why


def check(name: str, params: Params, stages: Collection[str] = ()) -> Iterator[str]:
    """Yield hints and a closing line for a model, fine-tuning or ablation, and raise the error
    that a stage would raise.

    With `stages`, look only at the inputs of these: `("pretrain",)` needs no tasks.
    """
    looked = set(stages) or {*TEXT_STAGES, *TASK_STAGES}
    model = name
    if name in params.ablations:
        model = params.ablations[name].base.model
    elif name in params.finetunings:
        model = params.finetunings[name].model
    if model not in params.published:
        params.require("models", model)
    if looked & TASK_STAGES:
        yield from _check_finetunings(name, model, params)
    if model in params.published:
        from electra.nn.huggingface import read_config  # here, since importing torch takes seconds

        where = f"published.{model}.folder"
        folder = require_folder(Path(params.published[model].folder), where)
        read_config(folder)
        wordpiece.load(folder)
        yield f"{model}: its folder is there and can be read"
    elif looked & TEXT_STAGES:
        yield from _check_corpus(name, params.models[model], params)


def _check_finetunings(name: str, model: str, params: Params) -> Iterator[str]:
    for finetuning in (name,) if name in params.finetunings else params.list_finetunings(model):
        tasks = params.finetunings[finetuning].tasks
        check_tasks(params, tasks, finetuning)
        source = params.tasks[tasks]
        if isinstance(source, CustomTasks):
            yield from _check_custom_tasks(source, f"tasks.{tasks}")


def _check_custom_tasks(source: CustomTasks, where: str) -> Iterator[str]:
    """Check the beginning of every file of the user's own tasks: columns, labels, ids."""
    for task, split, rows in open_splits(source, where, Path()):
        kept, _ = read_split(task, split, islice(rows, TASK_ROWS), where, source.quarantine)
        config = source.tasks[task]
        if split == "train" and config.kind == "classification":
            labels = {row["label"] for row in kept}
            if absent := ", ".join(str(label) for label in config.labels if label not in labels):
                yield f"hint: {where}.tasks.{task}: no row of {config.train} has the label {absent}"


def _check_corpus(name: str, model: ModelConfig, params: Params) -> Iterator[str]:
    """Look at the corpus of a model, its tokenizer and the weights it starts from."""
    tokens = params.tokens[model.tokens]
    corpus = params.corpora[tokens.corpus]
    where = f"corpora.{tokens.corpus}"
    check_room(corpus, tokens.corpus)
    if corpus.cleaning.language:
        language.check(corpus.cleaning.language, f"{where}.cleaning.language")
    if decontaminate := corpus.cleaning.decontaminate:
        check_tasks(params, decontaminate.tasks)
    look = look_at(corpus, where)
    yield from (f"hint: {hint}" for hint in look.hints)
    if look.refused:
        raise unreadable(look.refused, where)
    yield from _check_tokens(tokens, f"tokens.{model.tokens}", look)
    start = model.pretrain.init_from
    made_here = {Path("build/models") / name for name in params.models}
    if start and not Path(start).is_dir() and Path(start) not in made_here:
        raise BadInput(f"pretrain.init_from: there is no folder {start}")
    count = f" ({look.looked:,} of {look.files:,} files looked at)" if look.files else ""
    yield f"{name}: every data source is there, and its beginning can be read{count}"
    if expected := corpus.expected:
        hours = f", some {expected.core_hours:g} core hours" if expected.core_hours else ""
        size = f"{expected.tokens / 1e9:g} B tokens, {expected.gigabytes:g} GB of clean text"
        yield f"expected: {size}{hours} (docs/scale.md)"


def _check_tokens(tokens: TokensConfig, where: str, look: "Look") -> Iterator[str]:
    """Yield a hint on a small alphabet, and raise BadInput for an impossible vocabulary, and
    for a corpus too small to hold out and to train on.
    """
    settings = tokens.tokenizer
    cased: dict[str, Any] = {
        "lowercase": settings.lowercase,
        "strip_accents": settings.strip_accents,
    }
    if isinstance(settings, VocabTokenizer):
        wordpiece.load(Path(settings.file), **cased)
    if isinstance(settings, TrainTokenizer) and look.texts:
        wordpiece.choose_letters(
            look.texts, settings.vocab_size, alphabet=settings.alphabet, **cased
        )
        needed = alphabet_for(look.texts, lowercase=settings.lowercase)
        if needed > settings.alphabet:
            fault = f"{COVERED:.2%} of the text's characters are {needed:,} different ones"
            yield f"hint: {where}.tokenizer.alphabet: is {settings.alphabet:,}, but {fault}"
    if not look.complete:
        return
    splits = [choose_split(text, tokens.seed, tokens.valid_fraction) for text in look.texts]
    for split in ("train", "valid"):
        if split not in splits:
            do = "raise valid_fraction, or part text files (`documents` of their source)"
            raise BadInput(
                f"{where}: has {pluralize(len(splits), 'document')}, none for {split}; {do}"
            )


def alphabet_for(texts: Sequence[str], *, lowercase: bool) -> int:
    """Return how many characters make up COVERED of the characters of texts."""
    letters: Counter[str] = Counter()
    for text in texts:
        letters.update("".join((text.lower() if lowercase else text).split()))
    most = COVERED * letters.total()
    sums = itertools.accumulate(sorted(letters.values(), reverse=True))
    return sum(covered < most for covered in sums) + 1


# ------------------------------------------------------------------------------------ one corpus


@dataclass
class Look:
    """Facts from the beginnings of a corpus's files: its first texts, cleaned, whether they are the
    whole corpus (`complete`), hints, and an error for each file that cannot be read. `looked` of
    `files` were read.
    """

    texts: list[str] = field(default_factory=list)
    hints: list[str] = field(default_factory=list)
    refused: dict[Path, UserError] = field(default_factory=dict)
    complete: bool = True
    looked: int = 0
    files: int = 0


def look_at(corpus: CorpusConfig, where: str) -> Look:
    """Read the beginning of every local source and of its files. Check that other sources exist.

    Files whose first rows are bad are refused if they are many: more than the quarantine tolerates
    in any corpus, and a tenth of those looked at.
    """
    look = Look()
    poor: dict[Path, UserError] = {}
    bad_rows = 0
    rows_read = 0
    compressed = 0
    for number, source in enumerate(corpus.sources):
        place = f"{where}.sources[{number}]"
        if not isinstance(source, LocalCorpus):
            check_source(source, place)
            look.complete = False
            continue
        paths = find_files(source.files, place)
        some = paths[:: -(-len(paths) // FILES)]
        look.files += len(paths)
        look.looked += len(some)
        for path in some:
            try:
                rows = list(islice(first_rows(path, source), ROWS))
                delivered = local.file_format(path, source) in local.DELIVERED  # in files of GB
                if path.suffix in COMPRESSIONS and compressed < COMPRESSED and not delivered:
                    compressed += path.stat().st_size
                    deque(read_lines(FileRange(path)), 0)  # damage shows at the end
            except BadConfig:  # a package is missing
                raise
            except UserError as error:
                look.refused[path] = error
                continue
            rows_read += len(rows)
            if fault := find_fault(rows, path):
                poor[path] = fault
                bad_rows += sum(isinstance(item, Rejected) for item in rows)
        if garbled := [path for path in some if _is_garbled(path, source)]:
            fact = f"{pluralize(len(garbled), 'file')} may be UTF-8, the first {garbled[0]}"
            advice = f"they need a source without `encoding: {source.encoding}`"
            look.hints.append(f"{place}: {fact}; {advice}")
        _read_documents(look, source, paths, corpus, place)
    if bad_rows > max(corpus.quarantine.min_tolerated, rows_read / 10):
        look.refused |= poor
    return look


def _read_documents(
    look: Look, source: LocalCorpus, paths: list[Path], corpus: CorpusConfig, place: str
) -> None:
    """Add the first documents of a source to a look, with the facts and hints that they give."""
    readable = [path for path in paths if path not in look.refused]
    items = list(islice(read_items(readable, source, look.refused), DOCUMENTS + 1))
    documents = [item for item in items if isinstance(item, Document)]
    if bad := [item for item in items if isinstance(item, Rejected)]:
        if len(bad) == len(items):
            raise describe_bad_row(bad[0])
        among = f"{len(bad):,} bad rows among the first {len(items):,}"
        hint = f"{bad[0].where}: {bad[0].reason} ({among}); {advise(bad[0])}"
        look.hints.append(hint.removesuffix("; "))
    for _, _, reason in find_hints(source, readable, documents, corpus.cleaning.markup):
        look.hints.append(f"{place}: {reason}")
    look.texts += filter(None, (clean(item.text, corpus.cleaning, Counter()) for item in documents))
    look.complete &= len(items) <= DOCUMENTS
    look.complete &= sum(len(item.text) for item in documents) < CHARACTERS


def first_rows(path: Path, source: LocalCorpus) -> Iterator[Item]:
    """Yield the first rows of a file, in bounded time even if a file is one large document."""
    most = BEGINNING if local.file_format(path, source) == "text" else None
    return local.read_documents(FileRange(path, most=most), source)


def find_fault(rows: Sequence[Item], path: Path) -> BadInput | None:
    """Return an error if at least half of a file's first rows are bad, or if it is clearly in
    another encoding.
    """
    bad = [item for item in rows if isinstance(item, Rejected)]
    if bad and (
        len(bad) * 2 >= len(rows) or (bad[0].reason == "invalid UTF-8" and guess_encoding(path)[0])
    ):
        return describe_bad_row(bad[0])
    return None


def describe_bad_row(row: Rejected) -> BadInput:
    """Return a bad row as an error, with the setting that may read it."""
    excerpt = repr(row.excerpt[:40]).replace("\\\\", "\\")  # bytes are escaped already
    return BadInput(f"{row.where}: {row.reason}: {excerpt}; {advise(row)}".removesuffix("; "))


def advise(row: Rejected) -> str:
    """Return the setting that may read a bad row, or nothing."""
    if row.reason.startswith("no field"):
        return "set `text` to the field that holds it"
    if row.reason != "invalid UTF-8":
        return ""
    path = Path(row.where.rpartition(":")[0])
    encoding, word = guess_encoding(path)
    if encoding:
        return f"set `encoding: {encoding}` if {short_repr(word)} is right"
    if b"\0" in first_bytes(path, BEGINNING):  # as in no text of a supported encoding
        return ""
    return "set `encoding` (`electra new --encoding`) to cp1251, gbk or another"


def is_other_encoding(path: Path) -> bool:
    """Return whether the beginning of a file is in an encoding other than UTF-8."""
    start = first_bytes(path, BEGINNING)
    return not (byte_order_mark(start) or is_utf8(start))


def guess_encoding(path: Path) -> tuple[str, str]:
    """Return the Western encoding of a text that is not UTF-8, and a word with non-ASCII letters,
    if these letters clearly belong to one language. Else "" twice.

    (charset-normalizer calls a German latin-1 text cp1250. The bytes of Turkish, Czech or
    Polish encodings are letters in latin-1, too, but not those of one language.)
    """
    if not is_other_encoding(path):
        return "", ""
    start = first_bytes(path, BEGINNING)
    encoding = "cp1252" if re.search(b"[\x80-\x9f]", start) else "latin-1"
    text = start.decode(encoding, "replace")
    others = [char for char in text.lower() if not char.isascii()]
    fits = max(sum(char in letters + TYPOGRAPHY for char in others) for letters in WESTERN)
    if fits < 0.98 * len(others):
        return "", ""
    word = next(word for word in text.split() if not word.isascii())
    return encoding, word.strip(string.punctuation)


def _is_garbled(path: Path, source: LocalCorpus) -> bool:
    """Return whether a file that is read in another encoding is UTF-8."""
    if local.encoding_of(path, source.encoding) == "utf-8":
        return False
    start = first_bytes(path)
    is_encoded = local.file_format(path, source) not in {"parquet", *local.DELIVERED}
    return is_encoded and not start.isascii() and is_utf8(start)


def read_items(
    paths: list[Path], source: LocalCorpus, refused: dict[Path, UserError]
) -> Iterator[Item]:
    """Yield the documents of all files until CHARACTERS are read, and note files that cannot be
    read in `refused`.
    """
    characters = 0
    for path in paths:
        try:
            for item in local.read_documents(FileRange(path), source):
                yield item
                characters += len(item.text) if isinstance(item, Document) else 0
                if characters >= CHARACTERS:
                    return
        except UserError as error:
            refused[path] = error


def find_hints(
    source: LocalCorpus, paths: list[Path], documents: list[Document], markup: bool
) -> Iterator[Hint]:
    """Yield the settings that the first documents of a source's files ask for, and why."""
    texts = [document.text for document in documents]
    if paths and local.file_format(paths[0], source) == "text":
        lines = list(islice(filter(str.strip, "\n".join(texts).split("\n")), 20_000))
        headings = sum(HEADING.fullmatch(line) is not None for line in lines)
        if source.documents == "file" and headings > 2:
            fact = f"{headings:,} lines are headings as ` = Title = `"
            yield "documents", "headings", f"{fact}; `documents: headings` splits it into articles"
        elif source.documents == "file" and _are_too_few(texts):
            longest = max(texts, key=len)
            way = "blank_lines" if "\n\n" in longest else "lines"
            fact = f"a file is one document of {len(longest):,} characters"
            yield "documents", way, f"{fact}; `documents: {way}` splits it"
        if not source.hard_wrapped and source.documents != "lines" and _are_wrapped(lines):
            fact = "lines seem to be wrapped at a fixed width"
            yield "hard_wrapped", True, f"{fact}; `hard_wrapped: true` joins paragraphs again"
    marked = sum(map(looks_marked_up, texts))
    if not markup and marked > max(2, len(texts) // 100):
        fact = (
            f"{marked:,} of the first {len(texts):,} documents contain HTML such as &amp; or <br>"
        )
        yield "markup", True, f"{fact}; `cleaning: {{markup: true}}` removes it"


def _are_too_few(texts: list[str]) -> bool:
    """Return whether reading each file as one document is likely a mistake: a document is very
    long, or few documents have many lines.
    """
    return any(
        len(text) > LARGE or (len(texts) < FEW and text.count("\n") >= FEW) for text in texts
    )


def _are_wrapped(lines: list[str]) -> bool:
    """Return whether most lines have the width of a typewriter's lines, and none is much wider."""
    filled = sum(50 <= len(line) <= 85 for line in lines)
    return len(lines) > 200 and filled > len(lines) / 2 and max(map(len, lines)) <= 100
