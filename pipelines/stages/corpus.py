"""corpus@C: sources → build/corpus/C/documents-*.jsonl, clean documents {"id", "text"}, one a line.

1. plan      every file, or shard of a hub data set, is a unit                      pipelines/sources/documents.py
2. unit      read, clean, write parts of some 32 MB; what is bad goes to quarantine    any process, in any order
3. collect   drop repeated documents, number the parts, count everything            one process, in the units' order

A killed run goes on with the units that are missing. Rows in = documents + dropped + quarantined, always.
"""

import json
import shutil
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from electra.config import code_digest, digest
from electra.data.text import CleaningConfig, Document, QuarantineConfig, as_dict, clean
from electra.errors import BadInput, OutOfRoom
from electra.files import (
    atomic_folder,
    link_or_copy,
    lock_folder,
    remove,
    room,
    sha256_bytes,
    sha256_file,
    write_json,
    write_jsonl,
    write_manifest,
)
from pipelines.sources import CorpusConfig, documents
from pipelines.stages.resumable import finish_units

if TYPE_CHECKING:
    from pipelines.params import Params
    from pipelines.tracking import Tracker

PART_BYTES = 32 << 20
HOPELESS = 1000  # bad rows in one unit: then it is asked at once whether they are too many
INDEX = np.dtype([("text", "<u8"), ("lines", "<u4"), ("bytes", "<u4"), ("part", "<u4")])


def run(name: str, params: "Params", tracker: "Tracker") -> None:
    """The stage: params.yaml `corpora.<name>` → build/corpus/<name>, results/corpus/<name>.json."""
    folder = Path("build/corpus") / name
    metrics = gather(params.corpora[name], f"corpora.{name}", folder, Path("runs") / f"corpus-{name}" / "work")
    write_json(Path("results/corpus") / f"{name}.json", metrics)
    flat = {key: value for key, value in metrics.items() if isinstance(value, int | float)}
    tracker.summary({**flat, **{f"dropped/{key}": value for key, value in metrics["dropped"].items()}})
    tracker.dataset(f"corpus/{name}", sha256_file(folder / "MANIFEST.json"), "corpus")


def gather(config: CorpusConfig, where: str, folder: Path, work: Path) -> dict[str, Any]:
    """Write the documents of a corpus to `folder` and return what was read, kept and dropped; `work` keeps finished units."""
    _check_room(config, where, folder)
    with lock_folder(work):
        found, units = documents.plan(config, where, work)
        here = Path(__file__)
        code = code_digest(here, here.parents[1] / "sources", here.parents[2] / "electra" / "data" / "text.py")
        fingerprint = digest(found, [unit.state() for unit in units], code)
        jobs = [Job(unit, config.cleaning, config.quarantine) for unit in units]
        sizes = [unit.bytes or 1 for unit in units]
        counts = finish_units(work, fingerprint, read_unit, jobs, title=where, sizes=sizes, shown="documents")
        metrics = collect(found, units, counts, where, work, folder)
        remove(work)
    return metrics


@dataclass(frozen=True)
class Job:
    """A unit and what is done to its text."""

    unit: documents.Unit
    cleaning: CleaningConfig
    quarantine: QuarantineConfig


def read_unit(job: Job, folder: Path) -> dict[str, Any]:
    """Write one unit's documents as part-NNNNN.jsonl, index.npy and quarantine.jsonl; return the counts."""
    counts: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    bad: list[dict[str, str]] = []
    index: list[tuple[int, int, int, int]] = []
    parts = _Parts(folder)
    with room(folder), parts:
        for item in job.unit.read():
            counts["rows"] += 1
            if not isinstance(item, Document):
                bad.append(as_dict(item))
                reasons[item.reason] += 1
                if len(bad) > HOPELESS:
                    check_quarantine(bad, counts["rows"], job.quarantine)
                continue
            before = counts["lines"]
            if not (text := clean(item.text, job.cleaning, counts)):
                continue
            part = parts.write({"id": item.id, "text": text})
            key = int.from_bytes(bytes.fromhex(sha256_bytes(text.encode())[:16]), "little")
            index.append((key, counts["lines"] - before, len(text.encode()), part))
    np.save(folder / "index.npy", np.array(index, dtype=INDEX), allow_pickle=False)
    write_jsonl(folder / "quarantine.jsonl", bad)
    return {**counts, "documents": len(index), "parts": parts.count, "quarantined": dict(reasons)}


def check_quarantine(bad: list[dict[str, str]], rows: int, config: QuarantineConfig) -> None:
    """Stop when more rows are bad than the quarantine tolerates; the sentence shows the first."""
    if len(bad) > config.tolerated(rows) or (bad and len(bad) == rows):
        raise BadInput(
            bad[0]["where"],
            f"{bad[0]['reason']} (the first of {len(bad):,} bad rows of {rows:,})",
            f"at most {config.tolerated(rows):,}",
            "mend the input, or raise `quarantine` to leave such rows out",
        )


def collect(
    config: CorpusConfig,
    units: list[documents.Unit],
    counts: list[dict[str, Any]],
    where: str,
    work: Path,
    folder: Path,
) -> dict[str, Any]:
    """Join the finished units into the corpus folder, in order; return the metrics."""
    folders = [work / f"unit-{number:05d}" for number in range(len(units))]
    bad = [json.loads(line) for unit in folders for line in (unit / "quarantine.jsonl").open(encoding="utf-8")]
    total: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    for count in counts:
        total.update({key: value for key, value in count.items() if isinstance(value, int)})
        reasons.update(count["quarantined"])
    check_quarantine(bad, total["rows"], config.quarantine)
    indices = [np.load(unit / "index.npy", allow_pickle=False) for unit in folders]
    keep = _first_occurrences(indices, config.cleaning.duplicate_documents == "drop")
    dropped = {key.removeprefix("dropped_"): value for key, value in total.items() if key.startswith("dropped_")}
    dropped["duplicate_documents"] = sum(int((~kept).sum()) for kept in keep)
    if sum(int(kept.sum()) for kept in keep) == 0:
        raise BadInput(
            where,
            f"holds no document ({total['rows']:,} rows read, {len(bad):,} quarantined, {sum(dropped.values()):,} dropped)",
            "at least one with text",
            "check the files and the `cleaning` settings",
        )
    shards: list[dict[str, Any]] = []
    sources = [Counter(documents=0, lines=0, bytes=0) for _ in config.sources]
    with atomic_folder(folder) as temporary:
        for unit, source, index, kept in zip(units, folders, indices, keep, strict=True):
            rows = index[kept]
            sources[unit.source].update(
                documents=len(rows), lines=int(rows["lines"].sum()), bytes=int(rows["bytes"].sum())
            )
            for part in np.unique(rows["part"]):
                name = f"documents-{len(shards):05d}.jsonl"
                of_part = kept[index["part"] == part]
                _copy_kept(source / f"part-{part:05d}.jsonl", temporary / name, of_part)
                shards.append({"file": name, "source": unit.source, "documents": int(of_part.sum())})
        write_jsonl(temporary / "quarantine.jsonl", bad)
        weights = [source.weight for source in config.sources]
        write_manifest(temporary, kind="corpus", shards=shards, weights=weights)
    return {
        "documents": sum(source["documents"] for source in sources),
        "lines": sum(source["lines"] for source in sources),
        "bytes": sum(source["bytes"] for source in sources),
        "rows": total["rows"],
        "shards": len(shards),
        "dropped": dict(sorted(dropped.items())),
        "changed": {key.removeprefix("changed_"): n for key, n in sorted(total.items()) if key.startswith("changed_")},
        "quarantined": len(bad),
        "reasons": dict(sorted(reasons.items())),
        "sources": [
            {"kind": source.kind, "revision": getattr(source, "revision", None), "weight": source.weight, **count}
            for source, count in zip(config.sources, sources, strict=True)
        ],
    }


def _first_occurrences(indices: list[NDArray[Any]], drop: bool) -> list[NDArray[np.bool_]]:
    """For each unit, which documents stay: all, or the first of each text. Eight bytes a document are in memory."""
    keep = np.full(sum(map(len, indices)), not drop)
    if drop:
        keep[np.unique(np.concatenate([index["text"] for index in indices]), return_index=True)[1]] = True
    return np.split(keep, np.cumsum([len(index) for index in indices])[:-1])


def _copy_kept(old: Path, new: Path, kept: NDArray[np.bool_]) -> None:
    if kept.all():
        link_or_copy(old, new)
        return
    with old.open("rb") as source, new.open("wb") as target:
        target.writelines(line for line, keep in zip(source, kept, strict=True) if keep)


def _check_room(config: CorpusConfig, where: str, folder: Path) -> None:
    """Refuse before the first byte when the disk cannot hold the corpus that is expected."""
    if config.expected is None:
        return
    root = next(parent for parent in folder.absolute().parents if parent.is_dir())
    free = shutil.disk_usage(root).free
    if free < config.expected.gigabytes * 1e9:
        raise OutOfRoom(
            folder,
            f"has {free / 1e9:,.0f} GB free for {where}",
            f"{config.expected.gigabytes:,.0f} GB",
            "free some space or move the checkout",
        )


class _Parts:
    """Writes rows to part-00000.jsonl, part-00001.jsonl, … of some PART_BYTES each."""

    def __init__(self, folder: Path) -> None:
        self.count, self._folder, self._size = 0, folder, 0
        self._file: IO[bytes] | None = None

    def __enter__(self) -> "_Parts":
        return self

    def __exit__(self, *_: object) -> None:
        if self._file:
            self._file.close()

    def write(self, row: dict[str, str]) -> int:
        """Write a row and return the number of its part."""
        if self._file is None or self._size >= PART_BYTES:
            self.__exit__()
            self._file, self._size = (self._folder / f"part-{self.count:05d}.jsonl").open("wb"), 0
            self.count += 1
        line = json.dumps(row, ensure_ascii=False).encode() + b"\n"
        self._file.write(line)
        self._size += len(line)
        return self.count - 1
