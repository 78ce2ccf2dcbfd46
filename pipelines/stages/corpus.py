"""corpus@C: sources → build/corpus/C/documents-*.jsonl, a clean document {"id", "text"} per line.

1. plan      files, ranges of large ones, files of a hub data set: each is a unit
             (pipelines/sources/documents.py)
2. unit      read, clean, filter, write parts of 32 MB; bad rows are quarantined (any
             process, in any order)
3. collect   drop repetitions from anywhere, number the parts, count everything (one process, which
             holds one part's index at a time)

A killed run continues with the units that are missing. Always: rows = documents + dropped +
quarantined, and lines read = lines + dropped lines.
"""

import functools
import json
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from electra.config import digest
from electra.errors import BadInput, OutOfRoom, UserError
from electra.files import (
    atomic_folder,
    free_bytes,
    link_or_copy,
    lock_folder,
    read_jsonl,
    remove,
    sha256_bytes,
    sha256_file,
    write_errors,
    write_json,
    write_jsonl,
)
from electra.storage.manifest import MANIFEST, write_manifest
from electra.storage.run_dir import RUNS, name_run, run_path
from pipelines.sources import CorpusConfig, TaskSourceConfig, documents, language, quality
from pipelines.sources.paths import unreadable
from pipelines.sources.streams import Skipped
from pipelines.stages import BUILD, RESULTS, STAGES
from pipelines.stages.inputs import require_task_files
from pipelines.stages.progress_bar import print_left_out
from pipelines.stages.tasks import open_splits, read_split, refuse_bad_rows
from pipelines.stages.work_units import UnitKey, finish_units, mixed_code
from pipelines.text.cleaning import CleaningConfig, Document, Rejected, clean
from pipelines.text.duplicates import FirstOccurrences
from pipelines.text.near_duplicates import BANDS, band_keys
from pipelines.text.ngrams import Hashes, NgramSet, mix, ngrams, words

if TYPE_CHECKING:
    from pipelines.config.params import Params
    from pipelines.tracking import Tracker

PART_BYTES = 32 << 20
HOPELESS = 1000  # bad rows in one unit: then nobody waits for the others
# A document that repeats so many words in a row of a dev or test text counts as contaminated, as
# for GPT-3 (Brown et al. 2020, appendix C). Shorter texts have no such n-gram.
SIZE = 13
# Of each document of a part: the hash of its text, its lines and bytes, its paragraphs that are
# hashed
INDEX = np.dtype([("text", "<u8"), ("lines", "<u4"), ("bytes", "<u4"), ("paragraphs", "<u4")])
LINES = ("short_lines", "duplicate_lines", "lines_of_documents")  # lines that cleaning may drop
# why a document is filtered out
REASONS = ("other_language", *(f"quality_{rule}" for rule in quality.RULES), "contaminated")
SKIPPED = "left_out_"  # prefix of the counts of rows that aren't documents, by reason
# counts by document
TEXTS = ("empty_documents", "short_documents", SKIPPED, *REASONS)
# facts that need all units
REPEATED = ("duplicate_documents", "near_duplicates", "repeated_documents")
QUARANTINE = "quarantine.jsonl"
SAMPLES = "dropped.jsonl"  # the first documents that were filtered out
UNIT_SAMPLES = 5  # of a unit and reason
CORPUS_SAMPLES = 100  # of a corpus and reason
EXCERPT = 500  # characters of each
Forbidden = tuple[Path, str]  # a file of n-grams that no document may have, and its sha256


def run(name: str, params: "Params", tracker: "Tracker") -> None:
    """Run the stage: params.yaml `corpora.<name>` → build/corpus/<name>."""
    folder = BUILD / "corpus" / name
    key = f"corpora.{name}"
    metrics = gather(params.corpora[name], name, _tasks(name, params))
    rows = metrics["rows"]
    reasons = [
        f"{count:,} {reason} ({count / rows:.2%})"
        for reason, count in metrics["dropped"].items()
        if count
    ]
    if reasons:
        print(
            f"{key}: of {rows:,} rows dropped {', '.join(reasons)}; "
            f"see {folder}, and {key}.cleaning to change it",
            file=sys.stderr,
        )
    advice = f"see {folder / QUARANTINE}, and {key}.quarantine to change it"
    print_left_out(key, metrics["quarantined"], rows, "rows", "cannot be read", advice)
    tracker.summary({**metrics, "changed": None, "reasons": None})
    tracker.artifact(folder / RESULTS)
    tracker.dataset(f"corpus/{name}", sha256_file(folder / MANIFEST), "corpus")


def run_folder(name: str, params: "Params") -> Path:
    """Return the folder of finished units for a corpus's present settings and input, while it is
    incomplete.
    """
    scratch = RUNS / "corpus" / f".{name}"
    with lock_folder(scratch):
        *_, fingerprint = _plan(params.corpora[name], name, scratch, _tasks(name, params))
        return run_path("corpus", fingerprint)


def _tasks(name: str, params: "Params") -> TaskSourceConfig | None:
    decontaminate = params.corpora[name].cleaning.decontaminate
    return require_task_files(params, decontaminate.tasks) if decontaminate else None


def _plan(
    config: CorpusConfig, name: str, scratch: Path, tasks: TaskSourceConfig | None
) -> tuple[CorpusConfig, list[documents.WorkUnit], Forbidden | None, str]:
    """Return the settings with the hub's revisions resolved to commits, the units, the forbidden
    n-grams, and the fingerprint of all that.
    """
    resolved, units = documents.plan(config, f"corpora.{name}", scratch)
    forbidden = forbidden_ngrams(tasks, config.cleaning, scratch)
    states = [unit.state() for unit in units]
    return resolved, units, forbidden, digest(resolved, states, *(forbidden or ())[1:])


def forbidden_ngrams(
    tasks: TaskSourceConfig | None, cleaning: CleaningConfig, scratch: Path
) -> Forbidden | None:
    """Return the n-grams of words of the dev and test texts of `tasks`, by which documents count as
    contaminated, or None where no tasks are named.
    """
    if tasks is None or cleaning.decontaminate is None:
        return None
    official = scratch / "official"
    remove(official)
    where = f"tasks.{cleaning.decontaminate.tasks}"
    texts: set[str] = set()
    for task, split, rows in open_splits(tasks, where, official):
        if split.startswith(("dev", "test")):
            # refuses bad rows, whose texts would stay in the corpus
            kept, _ = read_split(task, split, rows, where, tasks.quarantine)
            for row in kept:
                parts = [row.get(part) for part in ("a", "b", "question", "context")]
                texts.update([*filter(None, parts), " ".join(row.get("words", ()))])
    hashes = [ngrams(words(text)[0], SIZE) for text in texts]
    forbidden = np.unique(np.concatenate([np.empty(0, np.uint64), *hashes]))
    if not len(forbidden):
        raise BadInput(f"{where}: has no dev or test text of {SIZE} words to search for")
    file = scratch / "forbidden.npy"
    np.save(file, forbidden)
    return file, sha256_file(file)


def gather(
    config: CorpusConfig, name: str, tasks: TaskSourceConfig | None = None
) -> dict[str, Any]:
    """Write a corpus's documents. Return the counts of documents read, kept and dropped.

    `tasks` is the source that `cleaning.decontaminate` names.
    """
    check_room(config, name)
    where = f"corpora.{name}"
    if config.cleaning.language:
        language.check(config.cleaning.language, f"{where}.cleaning.language")
    scratch = RUNS / "corpus" / f".{name}"
    with lock_folder(scratch):
        resolved, units, forbidden, fingerprint = _plan(config, name, scratch, tasks)
        work = run_path("corpus", fingerprint)
        name_run(work, name, fingerprint)
        key = UnitKey(fingerprint, STAGES["corpus"].digest)
        read = functools.partial(read_unit, config, forbidden)
        with lock_folder(work):
            counts = finish_units(work, key, read, units, where, "documents")
            _refuse_unreadable(counts, where, work)
            metrics = collect(resolved, units, counts, name, work)
            remove(work)
        remove(scratch)
    return metrics


def check_room(config: CorpusConfig, name: str) -> None:
    """Raise OutOfRoom before the first byte when the disk cannot hold the corpus that is
    expected.
    """
    if config.expected is None:
        return
    folder = BUILD / "corpus" / name
    free = free_bytes(folder) / 1e9
    needed = config.expected.gigabytes
    if free < needed:
        raise OutOfRoom(
            f"{folder}: has {free:,.0f} GB free; corpora.{name} needs {needed:,.0f} GB; "
            "free some space or move the checkout"
        )


def _refuse_unreadable(counts: list[dict[str, Any]], where: str, work: Path) -> None:
    """Raise one error for all files that could not be read, and forget their units."""
    refused: dict[Path, UserError] = {}
    for number, count in enumerate(counts):
        for file, sentence in count["refused"].items():
            refused[Path(file)] = BadInput(sentence)
            remove(work / f"unit-{number:05d}")
    if refused:
        raise unreadable(refused, where)


# Units


def read_unit(
    config: CorpusConfig, forbidden: Forbidden | None, unit: documents.WorkUnit, folder: Path
) -> dict[str, Any]:
    """Write a unit's documents as part-NNNNN.jsonl, each with an index, and samples of dropped
    ones. Return the counts.
    """
    counts: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    first_bad: dict[str, Any] | None = None
    refused: dict[str, str] = {}  # by file, a sentence
    samples = Samples(UNIT_SAMPLES)
    parts = _PartWriter(folder)
    with write_errors(folder), (folder / QUARANTINE).open("w", encoding="utf-8") as quarantine:
        for item in _items(unit, refused):
            counts["rows"] += 1
            if isinstance(item, Skipped):
                counts[f"{SKIPPED}{item.reason}"] += 1
                continue
            if isinstance(item, Rejected):
                rejected = asdict(item)
                quarantine.write(json.dumps(rejected, ensure_ascii=False) + "\n")
                first_bad = first_bad or rejected
                reasons[item.reason] += 1
                counts["quarantined_lines"] += item.lines
                continue
            if item.lost_templates:
                counts["changed_templates"] += item.lost_templates
            text = clean(item.text, config.cleaning, counts)
            if not text:
                continue
            judgement = judge(text, config.cleaning, forbidden)
            counts["has_benchmark_text"] += judgement.contaminated
            if judgement.reason:
                samples.add(judgement.reason, item.id, text)
                lines = text.count("\n") + 1
                counts.update({judgement.reason: 1, "lines_of_documents": lines})
                continue
            keys = _paragraph_keys(text, config.cleaning)
            parts.add(item.id, text, keys, judgement.bands)
            counts["documents"] += 1
            counts["paragraphs"] += len(keys)
        parts.end_part()
    if reasons.total() > HOPELESS:
        refuse_bad_rows(first_bad, reasons.total(), counts["rows"], config.quarantine)
    write_jsonl(folder / SAMPLES, samples.rows)
    return {**counts, "reasons": reasons, "first_bad": first_bad, "refused": refused}


def _items(
    unit: documents.WorkUnit, refused: dict[str, str]
) -> Iterator[Document | Rejected | Skipped]:
    """Yield the documents and bad rows of a unit. A file that cannot be read to its end is added to
    `refused`.
    """
    if not unit.pieces:
        yield from unit.read()
    for piece in unit.pieces:
        try:
            yield from replace(unit, pieces=(piece,)).read()
        except BadInput as error:
            refused[str(piece.path)] = str(error)


def hash_text(text: str) -> int:
    """Return the 64-bit hash by which repetitions are found."""
    return int.from_bytes(bytes.fromhex(sha256_bytes(text.encode())[:16]), "little")


def _paragraph_keys(text: str, cleaning: CleaningConfig) -> list[int]:
    """Return the hashes of paragraphs that must not come again. A short line means nothing."""
    if cleaning.duplicate_paragraphs == "keep":
        return []
    lines = text.split("\n")
    return [hash_text(line) for line in lines if len(line) >= cleaning.shortest_paragraph]


class _PartWriter:
    """Writes documents to part-00000.jsonl, part-00001.jsonl, … of some PART_BYTES each, and next
    to each of them an index.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._part = 0
        self._size = 0
        self._documents: list[tuple[bytes, tuple[int, ...], list[int], Hashes]] = []

    def add(self, id: str, text: str, paragraphs: list[int], bands: Hashes) -> None:
        """Add a document, with the keys of its paragraphs and those of its near-duplicates."""
        if self._size >= PART_BYTES:
            self.end_part()
        line = json.dumps({"id": id, "text": text}, ensure_ascii=False).encode() + b"\n"
        row = (hash_text(text), text.count("\n") + 1, len(text.encode()), len(paragraphs))
        self._documents.append((line, row, paragraphs, bands))
        self._size += len(line)

    def end_part(self) -> None:
        """Write the documents since the last part, if there are any."""
        if not self._documents:
            return
        lines, rows, paragraphs, bands = zip(*self._documents, strict=True)
        path = self._folder / f"part-{self._part:05d}.jsonl"
        path.write_bytes(b"".join(lines))
        np.savez(
            path.with_suffix(".npz"),
            index=np.array(list(rows), INDEX),
            paragraphs=np.array(list(chain.from_iterable(paragraphs)), np.uint64),
            bands=np.concatenate(bands),
        )
        self._part += 1
        self._size = 0
        self._documents = []


# Filters


class Judgement(NamedTuple):
    """Why a document is dropped ("" if it is kept), the keys that its near-duplicates share, and
    whether it is contaminated.
    """

    reason: str
    bands: Hashes = np.empty(0, np.uint64)
    contaminated: bool = False


def judge(text: str, cleaning: CleaningConfig, forbidden: Forbidden | None) -> Judgement:
    """Judge a document by its clean text, before repeated paragraphs are taken out of it.

    Language, quality and overlap with benchmarks are checked in this order. Keys are given where
    near-duplicates are dropped: the first of several is known once all units exist.
    """
    if cleaning.language and language.is_another(text, cleaning.language):
        return Judgement("other_language")
    near = cleaning.near_duplicates == "drop"
    if cleaning.quality == "none" and not near and not forbidden:
        return Judgement("")
    hashes, lengths = words(text)
    if cleaning.quality != "none":
        rule = quality.broken_rule(text, hashes, lengths, cleaning.language)
        if rule:
            return Judgement(f"quality_{rule}")
    contaminated = False
    if forbidden and cleaning.decontaminate:
        contaminated = len(_load(forbidden).find(ngrams(hashes, SIZE))) > 0
        if contaminated and cleaning.decontaminate.action == "drop":
            return Judgement("contaminated", contaminated=True)
    bands = band_keys(hashes) if near else np.empty(0, np.uint64)
    return Judgement("", bands, contaminated)


@functools.lru_cache(maxsize=1)
def _load(forbidden: Forbidden) -> NgramSet:
    """Load forbidden n-grams, which a worker keeps from unit to unit."""
    return NgramSet(np.load(forbidden[0]))


class Samples:
    """The first documents that each reason dropped, to look at: at most `most` of each."""

    def __init__(self, most: int) -> None:
        self.rows: list[dict[str, str]] = []
        self._most = most
        self._counts = Counter[str]()

    def add(self, reason: str, id: str, text: str) -> None:
        """Keep the beginning of a document, unless there are enough of its reason."""
        if self._counts[reason] < self._most:
            self._counts[reason] += 1
            self.rows.append({"reason": reason, "id": id, "text": text[:EXCERPT]})


# The corpus


def collect(
    config: CorpusConfig,
    units: list[documents.WorkUnit],
    counts: list[dict[str, Any]],
    name: str,
    work: Path,
) -> dict[str, Any]:
    """Join the finished units into the corpus folder, in order. Return the metrics."""
    total = Counter[str]()
    reasons = Counter[str]()
    for count in counts:
        total.update({key: value for key, value in count.items() if isinstance(value, int)})
        reasons.update(count["reasons"])
    bad = reasons.total()
    first_bad = next((count["first_bad"] for count in counts if count["first_bad"]), None)
    refuse_bad_rows(first_bad, bad, total["rows"], config.quarantine)
    dropped = Counter[str](duplicate_documents=0)
    dropped.update({key: n for key, n in total.items() if n and key.startswith(TEXTS)})
    lines = Counter({key: total[key] for key in LINES if total[key]})
    folders = [work / f"unit-{number:05d}" for number in range(len(units))]
    sources = [Counter(documents=0, lines=0, bytes=0) for _ in config.sources]
    source_of: dict[Path, int] = {}  # of each part, in order
    for unit, unit_folder in zip(units, folders, strict=True):
        for path in sorted(unit_folder.glob("part-*.jsonl")):
            source_of[path] = unit.source
    shards: list[dict[str, Any]] = []
    samples = Samples(CORPUS_SAMPLES)
    for unit_folder in folders:
        for row in read_jsonl(unit_folder / SAMPLES):
            samples.add(**row)
    with atomic_folder(BUILD / "corpus" / name) as temporary:
        for part in _find_repeats(config.cleaning, list(source_of), total, work):
            file = f"documents-{len(shards):05d}.jsonl"
            part_counts = _copy(part, temporary / file, config.cleaning, samples)
            source = source_of[part.path]
            for key, number in (+part_counts).items():
                if key in REPEATED:
                    dropped[key] += number
                elif key in sources[source]:
                    sources[source][key] += number
                else:
                    lines[key] += number
            if written := part_counts["documents"]:
                shards.append({"file": file, "source": source, "documents": written})
            else:
                remove(temporary / file)
        if not shards:
            fault = f"{total['rows']:,} rows read, {bad:,} quarantined, {dropped.total():,} dropped"
            ((reason, most),) = dropped.most_common(1)
            if most:
                fault += f", most as {reason}"
            raise BadInput(
                f"corpora.{name}: holds no document ({fault}); "
                "check the files and the `cleaning` settings"
            )
        with (temporary / QUARANTINE).open("wb") as quarantine:
            for unit_folder in folders:
                quarantine.write((unit_folder / QUARANTINE).read_bytes())
        sums = sum(sources, Counter[str]())
        metrics = {
            **sums,
            "rows": total["rows"],
            "lines_read": total["lines_read"],
            "shards": len(shards),
            "dropped": dropped,
            "dropped_lines": lines,
            "changed": {
                key.removeprefix("changed_"): count
                for key, count in total.items()
                if key.startswith("changed_")
            },
            **mixed_code(counts),
            "quarantined": bad,
            "quarantined_lines": total["quarantined_lines"],
            "reasons": reasons,
            "sources": [
                {
                    "kind": source.kind,
                    "revision": getattr(source, "revision", None),
                    "weight": source.weight,
                    **count,
                }
                for source, count in zip(config.sources, sources, strict=True)
            ],
        }
        if config.cleaning.filters:
            write_jsonl(temporary / SAMPLES, samples.rows)
            skipped = sum(n for reason, n in dropped.items() if reason.startswith(SKIPPED))
            read = sums["documents"] + dropped.total() - skipped
            metrics["dropped_shares"] = {
                reason: round(dropped[reason] / read, 6)
                for reason in (*REASONS, "near_duplicates")
                if dropped[reason]
            }
        decontaminate = config.cleaning.decontaminate
        if decontaminate and decontaminate.action == "count":
            metrics["contaminated"] = total["has_benchmark_text"]
        assert total["rows"] == sums["documents"] + bad + dropped.total(), metrics
        assert total["lines_read"] == sums["lines"] + lines.total(), metrics
        write_json(temporary / RESULTS, metrics)
        weights = [source.weight for source in config.sources]
        write_manifest(temporary, kind="corpus", name=name, shards=shards, weights=weights)
    return metrics


class _Part(NamedTuple):
    """A part of a unit: the index of its documents, why each is dropped or "", which of their
    paragraphs stay.
    """

    path: Path
    rows: NDArray[Any]
    reasons: NDArray[np.str_]
    kept: NDArray[np.bool_]


def _find_repeats(
    cleaning: CleaningConfig, paths: list[Path], total: Counter[str], work: Path
) -> Iterator[_Part]:
    """Yield every part with its repetitions of earlier documents and paragraphs."""
    texts = near = lines = None
    count = total["documents"]
    if cleaning.duplicate_documents == "drop":
        keys = (_read_index(path, "index")["text"] for path in paths)
        texts = FirstOccurrences(keys, count, work / "repeated-documents")
    if cleaning.near_duplicates == "drop":
        bands = (_read_index(path, "bands") for path in paths)
        near = FirstOccurrences(bands, BANDS * count, work / "near-duplicates")

    def parts() -> Iterator[tuple[NDArray[Any], NDArray[np.str_]]]:
        first = 0
        for path in paths:
            index = _read_index(path, "index")
            reasons = np.full(len(index), "", f"<U{max(map(len, REPEATED))}")
            if near:
                new = near.keep(first * BANDS, len(index) * BANDS).reshape(-1, BANDS).all(1)
                reasons[~new] = "near_duplicates"
            if texts:
                reasons[~texts.keep(first, len(index))] = "duplicate_documents"
            first += len(index)
            yield index, reasons

    def paragraphs() -> Iterator[Hashes]:
        """Yield the keys of all paragraphs. Those of dropped documents are unlike any other."""
        first = 0
        for path, (index, reasons) in zip(paths, parts(), strict=True):
            keys = _read_index(path, "paragraphs")
            dropped = np.flatnonzero(np.repeat(reasons != "", index["paragraphs"]))
            keys[dropped] = mix((first + dropped).astype(np.uint64))
            first += len(keys)
            yield keys

    if cleaning.duplicate_paragraphs == "drop":
        folder = work / "repeated-paragraphs"
        lines = FirstOccurrences(paragraphs(), total["paragraphs"], folder)
    first = 0
    for path, (index, reasons) in zip(paths, parts(), strict=True):
        size = int(index["paragraphs"].sum())
        kept = lines.keep(first, size) if lines else np.ones(size, np.bool_)
        first += size
        yield _Part(path, index, reasons, kept)


def _read_index(part: Path, name: str) -> NDArray[Any]:
    with np.load(part.with_suffix(".npz")) as arrays:
        array: NDArray[Any] = arrays[name]
        return array


def _copy(part: _Part, new: Path, cleaning: CleaningConfig, samples: Samples) -> Counter[str]:
    """Write a part's remaining documents and count them. If none is dropped, the part only gets a
    second name.
    """
    rows = part.rows
    if (part.reasons == "").all() and part.kept.all():
        link_or_copy(part.path, new)
        sums = {key: int(rows[key].sum(dtype=np.int64)) for key in ("lines", "bytes")}
        return Counter(documents=len(rows), **sums)
    counts: Counter[str] = Counter()
    kept = iter(part.kept.tolist())
    with part.path.open("rb") as source, new.open("wb") as target:
        for line, row, reason in zip(source, rows, part.reasons.tolist(), strict=True):
            stay = [next(kept) for _ in range(row["paragraphs"])]
            lines = int(row["lines"])
            size = int(row["bytes"])
            if reason:
                counts.update({reason: 1, "lines_of_documents": lines})
                if reason == "near_duplicates":
                    samples.add(reason, **json.loads(line))
                continue
            if not all(stay):
                document = json.loads(line)
                text = _without_repeated(document["text"], stay, cleaning.shortest_paragraph)
                left = text.count("\n") + 1 if text else 0
                counts["duplicate_paragraphs"] += lines - left
                lines = left
                size = len(text.encode())
                if len(text) < cleaning.minimum_document:
                    counts.update(repeated_documents=1, lines_of_documents=lines)
                    continue
                line = json.dumps({**document, "text": text}, ensure_ascii=False).encode() + b"\n"
            target.write(line)
            counts.update(documents=1, lines=lines, bytes=size)
    return counts


def _without_repeated(text: str, stay: list[bool], shortest: int) -> str:
    """Return a text without its repeated paragraphs. `stay` covers those that are not short."""
    first = iter(stay)
    return "\n".join(line for line in text.split("\n") if len(line) < shortest or next(first))
