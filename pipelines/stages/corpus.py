"""corpus@C: sources → build/corpus/C/documents-*.jsonl, clean documents {"id", "text"}, one a line.

1. plan      files, ranges of large ones, files of a hub data set: each is a unit
             (pipelines/sources/documents.py)
2. unit      read, clean, filter, write parts of 32 MB; what is bad is quarantined (any process, in
             any order)
3. collect   drop what is repeated anywhere, number the parts, count everything (one process, which
             holds one unit's index at a time)

A killed run goes on with the units that are missing. Always: rows = documents + dropped +
quarantined, and lines read = lines + dropped lines.
"""

import contextlib
import functools
import json
import shutil
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from electra.config import digest
from electra.errors import BadInput, OutOfRoom, UserError
from electra.files import (
    atomic_folder,
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
from electra.storage.manifest import write_manifest
from electra.storage.run_dir import RUNS, folder_of, name_run
from pipelines.sources import CorpusConfig, TaskSourceConfig, documents, language, quality
from pipelines.sources.paths import unreadable
from pipelines.sources.streams import Skipped
from pipelines.stages import BUILD, RESULTS, STAGES
from pipelines.stages.inputs import require_task_files
from pipelines.stages.progress_bar import print_left_out
from pipelines.stages.tasks import open_splits, read_split
from pipelines.stages.work_units import MadeOf, Shown, finish_units, mixed_code
from pipelines.text.cleaning import CleaningConfig, Document, QuarantineConfig, Rejected, clean
from pipelines.text.duplicates import FirstOccurrences
from pipelines.text.near_duplicates import BANDS, band_keys
from pipelines.text.ngrams import Hashes, NgramSet, mix, ngrams, words

if TYPE_CHECKING:
    from pipelines.config.params import Params
    from pipelines.tracking import Tracker

PART_BYTES = 32 << 20
HOPELESS = 1000  # bad rows in one unit: then it is asked at once whether they are too many
# A document that repeats so many words in a row of a dev or test text counts as contaminated, as
# for GPT-3 (Brown et al. 2020, appendix C). Shorter texts have no such n-gram.
SIZE = 13
# Of each document of a unit: the hash of its text, its lines and bytes, the part it lies in, its
# paragraphs that are hashed
INDEX = np.dtype(
    [("text", "<u8"), ("lines", "<u4"), ("bytes", "<u4"), ("part", "<u4"), ("paragraphs", "<u4")]
)
LINES = ("short_lines", "duplicate_lines", "lines_of_documents")  # what cleaning may drop
# why a document is filtered out
REASONS = ("other_language", *(f"quality_{rule}" for rule in quality.RULES), "contaminated")
SKIPPED = "left_out_"  # begins the counts of rows that are no documents, by reason
# what is counted by document
TEXTS = ("empty_documents", "short_documents", SKIPPED, *REASONS)
# what is known when all units are there
REPEATED = ("duplicate_documents", "near_duplicates", "repeated_documents")
BANDS_FILE = "bands"  # of a unit: BANDS keys of each document, if near-duplicates go
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
    metrics = gather(params.corpora[name], key, folder, tasks=_tasks(name, params))
    print_dropped(metrics, key, folder)
    advice = f"see {folder / QUARANTINE}, and {key}.quarantine to change it"
    rows = metrics["rows"]
    print_left_out(key, metrics["quarantined"], rows, "rows", "cannot be read", advice)
    tracker.summary({**metrics, "changed": None, "reasons": None})
    tracker.artifact(folder / RESULTS)
    tracker.dataset(f"corpus/{name}", sha256_file(folder / "MANIFEST.json"), "corpus")


def print_dropped(metrics: dict[str, Any], where: str, folder: Path) -> None:
    """Print what the filters dropped, each reason with its share, and what was no document."""
    dropped = metrics["dropped"]
    if shares := metrics.get("dropped_shares"):
        reasons = [
            f"{dropped[reason]:,} {reason} ({share:.2%})" for reason, share in shares.items()
        ]
        read = documents_read(metrics["documents"], dropped)
        fact = f"of {read:,} documents dropped {', '.join(reasons)}"
        advice = f"see {folder / SAMPLES}, and {where}.cleaning to change it"
        print(f"{where}: {fact}; {advice}", file=sys.stderr)
    skipped = {
        key.removeprefix(SKIPPED): count
        for key, count in dropped.items()
        if key.startswith(SKIPPED)
    }
    if skipped:
        fact = f"{sum(skipped.values()):,} of {metrics['rows']:,} rows left out"
        reasons = [f"{reason} {count:,}" for reason, count in skipped.items()]
        print(f"{where}: {fact}: {', '.join(reasons)}", file=sys.stderr)


def documents_read(kept: int, dropped: Mapping[str, int]) -> int:
    """Return how many documents there were. Rows that are none do not count."""
    return kept + sum(count for reason, count in dropped.items() if not reason.startswith(SKIPPED))


def run_folder(name: str, params: "Params") -> Path:
    """Return where the finished units of a corpus's present settings and input lie until it is
    complete.
    """
    scratch = RUNS / "corpus" / f".{name}"
    with lock_folder(scratch):
        resolved, units = documents.plan(params.corpora[name], f"corpora.{name}", scratch)
        forbidden = forbidden_ngrams(_tasks(name, params), resolved.cleaning, scratch)
        return folder_of("corpus", _fingerprint(resolved, units, forbidden))


def _tasks(name: str, params: "Params") -> TaskSourceConfig | None:
    decontaminate = params.corpora[name].cleaning.decontaminate
    return require_task_files(params, decontaminate.tasks) if decontaminate else None


def _fingerprint(
    resolved: CorpusConfig, units: list[documents.WorkUnit], forbidden: Forbidden | None
) -> str:
    return digest(resolved, [unit.state() for unit in units], *(forbidden or ())[1:])


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
                texts.update(_texts(row))
    remove(official)
    hashes = [ngrams(words(text)[0], SIZE) for text in texts]
    forbidden = np.unique(np.concatenate([np.empty(0, np.uint64), *hashes]))
    if not len(forbidden):
        raise BadInput(f"{where}: has no dev or test text of {SIZE} words to search for")
    file = scratch / "forbidden.npy"
    np.save(file, forbidden)
    return file, sha256_file(file)


def _texts(row: dict[str, Any]) -> list[str]:
    """Return all that a model sees of a row."""
    texts = [row[part] for part in ("a", "b", "question", "context") if row.get(part)]
    if "words" in row:
        texts.append(" ".join(row["words"]))
    return texts


def gather(
    config: CorpusConfig,
    where: str,
    folder: Path,
    runs: Path = RUNS,
    tasks: TaskSourceConfig | None = None,
) -> dict[str, Any]:
    """Write a corpus's documents to `folder`. Return what was read, kept and dropped.

    `runs` holds unfinished runs, `tasks` are those that `cleaning.decontaminate` names.
    """
    check_room(config, where, folder)
    name = where.rpartition(".")[2]
    if config.cleaning.language:
        language.check(config.cleaning.language, f"{where}.cleaning.language")
    scratch = runs / "corpus" / f".{name}"
    with lock_folder(scratch):
        resolved, units = documents.plan(config, where, scratch)
        forbidden = forbidden_ngrams(tasks, config.cleaning, scratch)
        unit_key = MadeOf(_fingerprint(resolved, units, forbidden), STAGES["corpus"].digest)
        work = folder_of("corpus", unit_key.fingerprint, runs)
        name_run(work, name, unit_key.fingerprint)
        jobs = [ReadJob(unit, config.cleaning, config.quarantine, forbidden) for unit in units]
        sizes = [max(1, unit.bytes) for unit in units]
        with lock_folder(work):
            counts = finish_units(work, unit_key, read_unit, jobs, Shown(where, sizes, "documents"))
            _refuse_unreadable(counts, where, work)
            metrics = collect(resolved, units, counts, where, work, folder)
            remove(work)
        remove(scratch)
    return metrics


def check_room(config: CorpusConfig, where: str, folder: Path) -> None:
    """Raise OutOfRoom before the first byte when the disk cannot hold the corpus that is
    expected.
    """
    if config.expected is None:
        return
    root = next(parent for parent in folder.absolute().parents if parent.is_dir())
    free = shutil.disk_usage(root).free
    if free < config.expected.gigabytes * 1e9:
        fault = f"has {free / 1e9:,.0f} GB free; {where} needs {config.expected.gigabytes:,.0f} GB"
        raise OutOfRoom(f"{folder}: {fault}; free some space or move the checkout")


def check_quarantine(
    firsts: list[dict[str, Any]], bad: int, rows: int, config: QuarantineConfig
) -> None:
    """Raise BadInput when more rows are bad than the quarantine tolerates, with the first of each
    file.
    """
    tolerated = config.tolerated(rows)
    if bad > tolerated or (bad and bad == rows):
        first, *others = firsts
        fault = f"{first['reason']} (the first of {bad:,} bad rows of {rows:,})"
        fault += "".join(f", {other['where']}: {other['reason']}" for other in others)
        advice = "fix the input, or raise `quarantine` to leave such rows out"
        raise BadInput(f"{first['where']}: {fault}; expected at most {tolerated:,}; {advice}")


def _refuse_unreadable(counts: list[dict[str, Any]], where: str, work: Path) -> None:
    """Raise what is wrong with all files that could not be read, and forget their units."""
    refused: dict[Path, UserError] = {}
    for number, count in enumerate(counts):
        for file, sentence in count["refused"].items():
            refused[Path(file)] = BadInput(sentence)
            remove(work / f"unit-{number:05d}")
    if refused:
        raise unreadable(refused, where)


# Units


@dataclass(frozen=True)
class ReadJob:
    """A unit and what is done to its text."""

    unit: documents.WorkUnit
    cleaning: CleaningConfig
    quarantine: QuarantineConfig
    forbidden: Forbidden | None = None


def read_unit(job: ReadJob, folder: Path) -> dict[str, Any]:
    """Write a unit's documents as part-NNNNN.jsonl, with index, paragraphs and more. Return the
    counts.
    """
    cleaning = job.cleaning
    counts: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    firsts: dict[str, dict[str, Any]] = {}  # by file
    refused: dict[str, str] = {}  # by file, a sentence
    samples = Samples(UNIT_SAMPLES)
    with (
        write_errors(folder),
        contextlib.closing(_Parts(folder)) as parts,
        (folder / "index").open("wb") as index,
        (folder / "paragraphs").open("wb") as paragraphs,
        (folder / BANDS_FILE).open("wb") as bands,
        (folder / QUARANTINE).open("w", encoding="utf-8") as quarantine,
    ):
        for item in _items(job.unit, refused):
            counts["rows"] += 1
            if isinstance(item, Skipped):
                counts[f"{SKIPPED}{item.reason}"] += 1
                continue
            if isinstance(item, Rejected):
                rejected = asdict(item)
                quarantine.write(json.dumps(rejected, ensure_ascii=False) + "\n")
                firsts.setdefault(item.where.rpartition(":")[0], rejected)
                reasons[item.reason] += 1
                counts["quarantined_lines"] += item.lines
                bad = reasons.total()
                if bad > HOPELESS:
                    check_quarantine([*firsts.values()], bad, counts["rows"], job.quarantine)
                continue
            if item.lost_templates:
                counts["changed_templates"] += item.lost_templates
            lines_before = counts["lines"]
            text = clean(item.text, cleaning, counts)
            if not text:
                continue
            lines = counts["lines"] - lines_before
            judgement = judge(text, cleaning, job.forbidden)
            counts["has_benchmark_text"] += judgement.contaminated
            if judgement.reason:
                samples.add(judgement.reason, item.id, text)
                counts.update({judgement.reason: 1, "lines_of_documents": lines})
                continue
            part = parts.write({"id": item.id, "text": text})
            keys = []
            if cleaning.duplicate_paragraphs == "drop":  # repeated, a short line means nothing
                keys = [
                    hash_text(line)
                    for line in text.split("\n")
                    if len(line) >= cleaning.shortest_paragraph
                ]
            paragraphs.write(np.array(keys, dtype="<u8").tobytes())
            bands.write(judgement.bands.tobytes())
            row = (hash_text(text), lines, len(text.encode()), part, len(keys))
            index.write(np.array([row], dtype=INDEX).tobytes())
            counts["documents"] += 1
            counts["paragraphs"] += len(keys)
    write_jsonl(folder / SAMPLES, samples.rows)
    return {
        **counts,
        "reasons": dict(reasons),
        "first_bad": [*firsts.values()],
        "refused": refused,
    }


def _items(
    unit: documents.WorkUnit, refused: dict[str, str]
) -> Iterator[Document | Rejected | Skipped]:
    """Yield what a unit holds. A file that cannot be read to its end is added to `refused`."""
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


class _Parts:
    """Writes rows to part-00000.jsonl, part-00001.jsonl, … of some PART_BYTES each."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._count = 0
        self._size = 0
        self._file: IO[bytes] | None = None

    def close(self) -> None:
        if self._file:
            self._file.close()

    def write(self, row: dict[str, str]) -> int:
        """Write a row and return the number of its part."""
        if self._file is None or self._size >= PART_BYTES:
            self.close()
            self._file = (self._folder / f"part-{self._count:05d}.jsonl").open("wb")
            self._size = 0
            self._count += 1
        line = json.dumps(row, ensure_ascii=False).encode() + b"\n"
        self._file.write(line)
        self._size += len(line)
        return self._count - 1


# Filters


class Judgement(NamedTuple):
    """Why a document goes ("" if it stays), the keys that its near-duplicates share, and whether it
    is contaminated.
    """

    reason: str
    bands: Hashes = np.empty(0, np.uint64)
    contaminated: bool = False


def judge(text: str, cleaning: CleaningConfig, forbidden: Forbidden | None) -> Judgement:
    """Judge a document by its clean text, before repeated paragraphs are taken out of it.

    Language, quality and benchmark texts are looked for in this order. Keys are given where
    near-duplicates are dropped: which of several is the first is known when all units are there.
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
    where: str,
    work: Path,
    folder: Path,
) -> dict[str, Any]:
    """Join the finished units into the corpus folder, in order. Return the metrics."""
    total = Counter[str]()
    reasons = Counter[str]()
    firsts = []
    for count in counts:
        total.update({key: value for key, value in count.items() if isinstance(value, int)})
        reasons.update(count["reasons"])
        firsts += count["first_bad"]
    bad = reasons.total()
    check_quarantine(firsts, bad, total["rows"], config.quarantine)
    dropped = Counter[str](duplicate_documents=0)
    dropped.update({key: n for key, n in total.items() if n and key.startswith(TEXTS)})
    lines = Counter({key: total[key] for key in LINES if total[key]})
    folders = [work / f"unit-{number:05d}" for number in range(len(units))]
    sources = [Counter(documents=0, lines=0, bytes=0) for _ in config.sources]
    shards: list[dict[str, Any]] = []
    near = Samples(CORPUS_SAMPLES)
    with atomic_folder(folder) as temporary:
        repeats = _Repeats(config.cleaning, folders, total, work)
        for unit, unit_folder in zip(units, folders, strict=True):
            for part in repeats.parts(unit_folder):
                name = f"documents-{len(shards):05d}.jsonl"
                part_counts = _copy(part, temporary / name, config.cleaning, near)
                for key, number in (+part_counts).items():
                    if key in REPEATED:
                        dropped[key] += number
                    elif key in sources[unit.source]:
                        sources[unit.source][key] += number
                    else:
                        lines[key] += number
                if part_counts["documents"]:
                    written = part_counts["documents"]
                    shards.append({"file": name, "source": unit.source, "documents": written})
                else:
                    remove(temporary / name)
        if not shards:
            raise _no_documents(where, total["rows"], bad, dropped)
        _join(folders, QUARANTINE, temporary)
        if config.cleaning.filters:
            _write_samples(folders, near, temporary)
        sums = {key: sum(source[key] for source in sources) for key in sources[0]}
        metrics = {
            **sums,
            "rows": total["rows"],
            "lines_read": total["lines_read"],
            "shards": len(shards),
            "dropped": dict(dropped),
            "dropped_lines": dict(lines),
            "changed": {
                key.removeprefix("changed_"): count
                for key, count in total.items()
                if key.startswith("changed_")
            },
            **mixed_code(counts),
            "quarantined": bad,
            "quarantined_lines": total["quarantined_lines"],
            "reasons": dict(reasons),
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
            metrics["dropped_shares"] = _shares(dropped, sums["documents"])
        decontaminate = config.cleaning.decontaminate
        if decontaminate and decontaminate.action == "count":
            metrics["contaminated"] = total["has_benchmark_text"]
        assert total["rows"] == sums["documents"] + bad + dropped.total(), metrics
        assert total["lines_read"] == sums["lines"] + lines.total(), metrics
        write_json(temporary / RESULTS, metrics)
        weights = [source.weight for source in config.sources]
        name = where.rpartition(".")[2]
        write_manifest(temporary, kind="corpus", name=name, shards=shards, weights=weights)
    return metrics


def _no_documents(where: str, rows: int, bad: int, dropped: Counter[str]) -> BadInput:
    fault = f"{rows:,} rows read, {bad:,} quarantined, {dropped.total():,} dropped"
    ((reason, count),) = dropped.most_common(1)
    if count:
        fault += f", most as {reason}"
    advice = "check the files and the `cleaning` settings"
    return BadInput(f"{where}: holds no document ({fault}); {advice}")


def _shares(dropped: Counter[str], kept: int) -> dict[str, float]:
    """Return what the filters dropped of all documents, by reason."""
    read = documents_read(kept, dropped)
    return {
        reason: round(dropped[reason] / read, 6)
        for reason in (*REASONS, "near_duplicates")
        if dropped[reason]
    }


def _join(folders: list[Path], name: str, target: Path) -> None:
    with (target / name).open("wb") as whole:
        for folder in folders:
            with (folder / name).open("rb") as source:
                shutil.copyfileobj(source, whole)


def _write_samples(folders: Iterable[Path], near: Samples, target: Path) -> None:
    """Write what the filters of all units dropped first, and the samples of near-duplicates."""
    samples = Samples(CORPUS_SAMPLES)
    for folder in folders:
        for row in read_jsonl(folder / SAMPLES):
            samples.add(row["reason"], row["id"], row["text"])
    write_jsonl(target / SAMPLES, [*samples.rows, *near.rows])


@dataclass(frozen=True)
class _Part:
    """A part of a unit: the index of its documents, why each is dropped or "", which of their
    paragraphs stay.
    """

    path: Path
    rows: NDArray[Any]
    reasons: NDArray[np.str_]
    kept: NDArray[np.bool_]


class _Repeats:
    """Which documents and paragraphs of each unit are there for the first time."""

    def __init__(
        self, cleaning: CleaningConfig, folders: list[Path], total: Counter[str], work: Path
    ) -> None:
        count = total["documents"]
        self._texts = self._bands = self._lines = None
        if cleaning.duplicate_documents == "drop":
            texts = (_index(folder)["text"].copy() for folder in folders)
            self._texts = FirstOccurrences(texts, count, work / "repeated-documents")
        if cleaning.near_duplicates == "drop":
            bands = (np.fromfile(folder / BANDS_FILE, "<u8") for folder in folders)
            self._bands = FirstOccurrences(bands, BANDS * count, work / "near-duplicates")
        if cleaning.duplicate_paragraphs == "drop":
            paragraphs = self._paragraphs(folders)
            folder = work / "repeated-paragraphs"
            self._lines = FirstOccurrences(paragraphs, total["paragraphs"], folder)
        self._text = 0
        self._line = 0

    def _reasons(self, first: int, count: int) -> NDArray[np.str_]:
        """Return why each of `count` documents from number `first` on is dropped, or ""."""
        reasons = np.full(count, "", f"<U{max(map(len, REPEATED))}")
        if self._bands:
            new = self._bands.keep(first * BANDS, count * BANDS).reshape(count, BANDS).all(1)
            reasons[~new] = "near_duplicates"
        if self._texts:
            reasons[~self._texts.keep(first, count)] = "duplicate_documents"
        return reasons

    def _paragraphs(self, folders: list[Path]) -> Iterator[NDArray[np.uint64]]:
        """Yield the keys of all paragraphs. Those of dropped documents are unlike any other."""
        first = 0
        line = 0
        for folder in folders:
            index = _index(folder)
            keys = np.fromfile(folder / "paragraphs", "<u8")
            is_dropped = self._reasons(first, len(index)) != ""
            dropped = np.flatnonzero(np.repeat(is_dropped, index["paragraphs"]))
            keys[dropped] = mix((line + dropped).astype(np.uint64))
            first += len(index)
            line += len(keys)
            yield keys

    def parts(self, folder: Path) -> Iterator[_Part]:
        """Yield the parts of a unit, which follow those of the unit before it."""
        index = _index(folder)
        reasons = self._reasons(self._text, len(index))
        self._text += len(index)
        for part in np.unique(index["part"]):
            here = index["part"] == part
            count = int(index["paragraphs"][here].sum())
            kept = self._lines.keep(self._line, count) if self._lines else np.ones(count, np.bool_)
            yield _Part(folder / f"part-{part:05d}.jsonl", index[here], reasons[here], kept)
            self._line += count


def _index(folder: Path) -> NDArray[Any]:
    return np.fromfile(folder / "index", INDEX)


def _copy(part: _Part, new: Path, cleaning: CleaningConfig, near: Samples) -> Counter[str]:
    """Write what stays of a part, and count it. Where all stays, the part only gets a second
    name.
    """
    counts: Counter[str] = Counter()
    rows = part.rows
    if (part.reasons == "").all() and part.kept.all():
        link_or_copy(part.path, new)
        counts["documents"] = len(rows)
        for key in ("lines", "bytes"):
            counts[key] = int(rows[key].sum(dtype=np.int64))
        return counts
    start = 0
    with part.path.open("rb") as source, new.open("wb") as target:
        for line, row, reason in zip(source, rows, part.reasons.tolist(), strict=True):
            stay = part.kept[start : start + int(row["paragraphs"])]
            start += len(stay)
            lines = int(row["lines"])
            size = int(row["bytes"])
            if reason:
                counts.update({reason: 1, "lines_of_documents": lines})
                if reason == "near_duplicates":
                    near.add(reason, **json.loads(line))
                continue
            if not stay.all():
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


def _without_repeated(text: str, stay: NDArray[np.bool_], shortest: int) -> str:
    """Return a text without its repeated paragraphs. `stay` speaks of those that are not short."""
    first = iter(stay.tolist())
    return "\n".join(line for line in text.split("\n") if len(line) < shortest or next(first))
