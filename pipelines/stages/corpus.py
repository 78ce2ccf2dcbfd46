"""corpus@C: sources → build/corpus/C/documents-*.jsonl, clean documents {"id", "text"}, one a line.

1. plan      files, ranges of large ones, files of a hub data set: each is a unit      pipelines/sources/documents.py
2. unit      read, clean, filter, write parts of 32 MB; what is bad is quarantined     any process, in any order
3. collect   drop what is repeated, number the parts, count everything                 pipelines/stages/collecting.py

A killed run goes on with the units that are missing. Always: rows = documents + dropped +
quarantined, and lines read = lines + dropped lines.
"""

import contextlib
import json
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from electra.config import digest
from electra.errors import BadInput, OutOfRoom, UserError
from electra.files import lock_folder, remove, room, sha256_file, write_jsonl
from electra.storage.run_dir import RUNS, folder_of, name_run
from pipelines.runtime.progress_bar import print_left_out
from pipelines.runtime.work_units import Counts, MadeOf, Shown, finish_units
from pipelines.sources import CorpusConfig, TaskSourceConfig, documents, language
from pipelines.sources.paths import unreadable
from pipelines.sources.streams import Skipped
from pipelines.stages import RESULTS, STAGES, benchmark
from pipelines.stages.collecting import (
    BANDS_FILE,
    INDEX,
    SAMPLES,
    check_quarantine,
    collect,
    documents_read,
    key_of,
)
from pipelines.stages.filters import Forbidden, Samples, judge
from pipelines.stages.required_files import source_of
from pipelines.stages.tasks import open_splits, read_split
from pipelines.text.cleaning import CleaningConfig, Document, QuarantineConfig, Rejected, clean

if TYPE_CHECKING:
    from pipelines.config.params import Params
    from pipelines.tracking import Tracker

PART_BYTES = 32 << 20
HOPELESS = 1000  # bad rows in one unit: then it is asked at once whether they are too many
SAMPLED = 5  # dropped documents of a unit and reason that are kept to be looked at


def run(name: str, params: "Params", tracker: "Tracker") -> None:
    """The stage: params.yaml `corpora.<name>` → build/corpus/<name>."""
    folder = Path("build/corpus") / name
    metrics = gather(params.corpora[name], f"corpora.{name}", folder, tasks=_tasks(name, params))
    tell_dropped(metrics, f"corpora.{name}", folder)
    bad, details, key = metrics["quarantined"], folder / "quarantine.jsonl", f"corpora.{name}"
    print_left_out(
        key,
        bad,
        metrics["rows"],
        "rows",
        "cannot be read",
        f"see {details}, and {key}.quarantine to change it",
    )
    if left_out := {
        key.removeprefix("left_out_"): n
        for key, n in metrics["dropped"].items()
        if "left_out_" in key
    }:
        told = ", ".join(f"{reason} {count:,}" for reason, count in left_out.items())
        print(
            f"{key}: {sum(left_out.values()):,} of {metrics['rows']:,} rows left out: {told}",
            file=sys.stderr,
        )
    tracker.summary({**metrics, "changed": None, "reasons": None})
    tracker.artifact(folder / RESULTS)
    tracker.dataset(f"corpus/{name}", sha256_file(folder / "MANIFEST.json"), "corpus")


def run_folder(name: str, params: "Params") -> Path:
    """Where the finished units of a corpus's present settings and input lie until it is complete."""
    with lock_folder(scratch := RUNS / "corpus" / f".{name}"):
        resolved, units = documents.plan(params.corpora[name], f"corpora.{name}", scratch)
        forbidden = forbidden_ngrams(_tasks(name, params), resolved.cleaning, scratch)
        return folder_of("corpus", _fingerprint(resolved, units, forbidden))


def _tasks(name: str, params: "Params") -> TaskSourceConfig | None:
    scored = params.corpora[name].cleaning.decontaminate
    return source_of(params, scored.tasks) if scored else None


def _fingerprint(
    resolved: CorpusConfig, units: list[documents.WorkUnit], forbidden: Forbidden | None
) -> str:
    return digest(resolved, [unit.state() for unit in units], *(forbidden or ())[1:])


def forbidden_ngrams(
    tasks: TaskSourceConfig | None, cleaning: CleaningConfig, scratch: Path
) -> Forbidden | None:
    """Return the n-grams by which documents count as contaminated, or None where no tasks are
    named.
    """
    if tasks is None or cleaning.decontaminate is None:
        return None
    remove(official := scratch / "official")
    found, where = np.empty(0, np.uint64), f"tasks.{cleaning.decontaminate.tasks}"
    for task, split, rows in open_splits(tasks, where, official):
        if benchmark.is_scored(split):
            # stops, else what is bad would stay
            kept, _ = read_split(task, split, rows, where, tasks.quarantine)
            found = np.union1d(found, benchmark.of_rows(kept, benchmark.SIZE))
    remove(official)
    if not len(found):
        raise BadInput(
            where, f"has no dev or test text of {benchmark.SIZE} words", "some to search for"
        )
    np.save(file := scratch / "forbidden.npy", found)
    return file, sha256_file(file)


def gather(
    config: CorpusConfig,
    where: str,
    folder: Path,
    runs: Path = RUNS,
    tasks: TaskSourceConfig | None = None,
) -> dict[str, Any]:
    """Write a corpus's documents to `folder`; return what was read, kept and dropped; `runs` has
    unfinished ones.

    `tasks` are those that `cleaning.decontaminate` names.
    """
    check_room(config, where, folder)
    cleaning, name = config.cleaning, where.rpartition(".")[2]
    if cleaning.language:
        language.check(cleaning.language, f"{where}.cleaning.language")
    with lock_folder(scratch := runs / "corpus" / f".{name}"):
        resolved, units = documents.plan(config, where, scratch)
        forbidden = forbidden_ngrams(tasks, cleaning, scratch)
        made = MadeOf(_fingerprint(resolved, units, forbidden), STAGES["corpus"].digest)
        work = folder_of("corpus", made.fingerprint, runs)
        name_run(work, name, made.fingerprint)
        jobs = [ReadJob(unit, cleaning, config.quarantine, forbidden) for unit in units]
        sizes = [max(1, unit.bytes) for unit in units]
        with lock_folder(work):
            counts = finish_units(work, made, read_unit, jobs, Shown(where, sizes, "documents"))
            _refuse(counts, where, work)
            metrics = collect(resolved, units, counts, where, work, folder)
            remove(work)
        remove(scratch)
    return metrics


def tell_dropped(metrics: dict[str, Any], where: str, folder: Path) -> None:
    """One line about the documents that the filters dropped, each reason with its share."""
    shares = metrics.get("dropped_shares", {})
    if told := [
        f"{metrics['dropped'][reason]:,} {reason} ({share:.2%})" for reason, share in shares.items()
    ]:
        said = f"of {documents_read(metrics['documents'], metrics['dropped']):,} documents dropped {', '.join(told)}"
        print(
            f"{where}: {said}; see {folder / SAMPLES}, and {where}.cleaning to change it",
            file=sys.stderr,
        )


def _refuse(counts: list[dict[str, Any]], where: str, work: Path) -> None:
    """Raise what is wrong with all files that could not be read; their units are to be read again."""
    refused: dict[Path, UserError] = {}
    for number, count in enumerate(counts):
        if count.get("refused"):
            refused |= {
                Path(file): BadInput(sentence) for file, sentence in count["refused"].items()
            }
            remove(work / f"unit-{number:05d}")
    if refused:
        raise unreadable(refused, where)


@dataclass(frozen=True)
class ReadJob:
    """A unit and what is done to its text."""

    unit: documents.WorkUnit
    cleaning: CleaningConfig
    quarantine: QuarantineConfig
    forbidden: Forbidden | None = None


def read_unit(job: ReadJob, folder: Path) -> dict[str, Any]:
    """Write a unit's documents as part-NNNNN.jsonl, with index, paragraphs and more; return the
    counts.
    """
    counts: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    firsts: dict[str, dict[str, Any]] = {}  # by file
    refused: dict[str, str] = {}  # by file, a sentence
    repeats = job.cleaning.duplicate_paragraphs == "drop"
    samples = Samples(SAMPLED)
    with (
        room(folder),
        contextlib.closing(_Parts(folder)) as parts,
        (folder / "index").open("wb") as index,
        (folder / "paragraphs").open("wb") as paragraphs,
        (folder / BANDS_FILE).open("wb") as bands,
        (folder / "quarantine.jsonl").open("wb") as quarantine,
    ):
        for item in _items(job.unit, refused):
            counts["rows"] += 1
            if isinstance(item, Skipped):
                counts[f"left_out_{item.reason}"] += 1
                continue
            if not isinstance(item, Document):
                quarantine.write(json.dumps(asdict(item), ensure_ascii=False).encode() + b"\n")
                firsts.setdefault(item.where.rpartition(":")[0], asdict(item))
                reasons[item.reason] += 1
                counts["quarantined_lines"] += item.lines
                if reasons.total() > HOPELESS:
                    check_quarantine(
                        [*firsts.values()], reasons.total(), counts["rows"], job.quarantine
                    )
                continue
            before = counts["lines"]
            if not (text := clean(item.text, job.cleaning, counts)):
                continue
            lines = counts["lines"] - before
            judgement = judge(text, job.cleaning, job.forbidden)
            counts["has_benchmark_text"] += judgement.contaminated
            if reason := judgement.reason:
                samples.add(reason, item.id, text)
                counts.update({reason: 1, "lines_of_documents": lines})
                continue
            part = parts.write({"id": item.id, "text": text})
            longer = (
                line for line in text.split("\n") if len(line) >= job.cleaning.shortest_paragraph
            )
            # repeated, a short line means nothing
            keys = [key_of(line) for line in longer] if repeats else []
            paragraphs.write(np.array(keys, dtype="<u8").tobytes())
            bands.write(judgement.bands.tobytes())
            facts = (key_of(text), lines, len(text.encode()), part, len(keys))
            index.write(np.array([facts], dtype=INDEX).tobytes())
            counts["documents"] += 1
            counts["paragraphs"] += len(keys)
    write_jsonl(folder / SAMPLES, samples.rows)
    first, *others = firsts.values() or [{}]
    bad: Counts = {
        "reasons": dict(reasons),
        "first_bad": first,
        "others": others,
        "refused": refused,
    }
    return {**counts, "parts": parts.count, **bad}


def _items(
    unit: documents.WorkUnit, refused: dict[str, str]
) -> Iterator[Document | Rejected | Skipped]:
    """Yield what a unit holds; a file that cannot be read to its end is added to `refused`."""
    if not unit.pieces:
        yield from unit.read()
    for piece in unit.pieces:
        try:
            yield from replace(unit, pieces=(piece,)).read()
        except BadInput as error:
            refused[str(piece.path)] = str(error)


def check_room(config: CorpusConfig, where: str, folder: Path) -> None:
    """Refuse before the first byte when the disk cannot hold the corpus that is expected."""
    if config.expected is None:
        return
    root = next(parent for parent in folder.absolute().parents if parent.is_dir())
    free = shutil.disk_usage(root).free
    if free < config.expected.gigabytes * 1e9:
        fault = f"has {free / 1e9:,.0f} GB free; {where} needs {config.expected.gigabytes:,.0f} GB"
        raise OutOfRoom(f"{folder}: {fault}; free some space or move the checkout")


class _Parts:
    """Writes rows to part-00000.jsonl, part-00001.jsonl, … of some PART_BYTES each."""

    def __init__(self, folder: Path) -> None:
        self.count, self._folder, self._size = 0, folder, 0
        self._file: IO[bytes] | None = None

    def close(self) -> None:
        if self._file:
            self._file.close()

    def write(self, row: dict[str, str]) -> int:
        """Write a row and return the number of its part."""
        if self._file is None or self._size >= PART_BYTES:
            self.close()
            self._file, self._size = (self._folder / f"part-{self.count:05d}.jsonl").open("wb"), 0
            self.count += 1
        line = json.dumps(row, ensure_ascii=False).encode() + b"\n"
        self._file.write(line)
        self._size += len(line)
        return self.count - 1
