"""The corpus stage's last step: finished units become numbered shards, less repetitions; everything
is counted.

Memory holds one unit's index at a time; what is repeated anywhere in the corpus is found on disk
(pipelines/text/duplicates.py).
"""

import json
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from electra.errors import BadInput
from electra.files import (
    atomic_folder,
    link_or_copy,
    read_jsonl,
    remove,
    sha256_bytes,
    write_json,
    write_jsonl,
)
from electra.storage.manifest import write_manifest
from pipelines.runtime.work_units import mixed_code
from pipelines.sources import CorpusConfig, documents
from pipelines.stages import RESULTS
from pipelines.stages.filters import REASONS, Samples
from pipelines.text.cleaning import CleaningConfig, QuarantineConfig
from pipelines.text.duplicates import FirstOccurrences
from pipelines.text.near_duplicates import BANDS
from pipelines.text.ngrams import mix

# Of each document of a unit: the hash of its text, its lines and bytes, the part it lies in, its
# paragraphs that are hashed
INDEX = np.dtype(
    [("text", "<u8"), ("lines", "<u4"), ("bytes", "<u4"), ("part", "<u4"), ("paragraphs", "<u4")]
)
LINES = ("short_lines", "duplicate_lines", "lines_of_documents")  # what cleaning may drop
# beginnings of what is counted by document
TEXTS = ("empty_documents", "short_documents", "left_out_", *REASONS)
# what is known when all units are there
REPEATED = ("duplicate_documents", "near_duplicates", "repeated_documents")
BANDS_FILE = "bands"  # of a unit: BANDS keys of each document, if near-duplicates go
SAMPLES = "dropped.jsonl"  # the first documents that were filtered out
SAMPLED = 100  # of each reason


def key_of(text: str) -> int:
    """The 64-bit hash by which repetitions are found."""
    return int.from_bytes(bytes.fromhex(sha256_bytes(text.encode())[:16]), "little")


def check_quarantine(
    firsts: list[dict[str, Any]], bad: int, rows: int, config: QuarantineConfig
) -> None:
    """Stop when more rows are bad than the quarantine tolerates; the sentence shows the first of
    each file.
    """
    if bad > config.tolerated(rows) or (bad and bad == rows):
        first, *others = firsts
        found = f"{first['reason']} (the first of {bad:,} bad rows of {rows:,})"
        found += "".join(f", {other['where']}: {other['reason']}" for other in others)
        do = "fix the input, or raise `quarantine` to leave such rows out"
        raise BadInput(first["where"], found, f"at most {config.tolerated(rows):,}", do)


def collect(
    config: CorpusConfig,
    units: list[documents.WorkUnit],
    counts: list[dict[str, Any]],
    where: str,
    work: Path,
    folder: Path,
) -> dict[str, Any]:
    """Join the finished units into the corpus folder, in order; return the metrics."""
    total, reasons = Counter[str](), Counter[str]()
    for count in counts:
        total.update({key: value for key, value in count.items() if isinstance(value, int)})
        reasons.update(count["reasons"])
    firsts = [
        first
        for count in counts
        for first in (count["first_bad"], *count.get("others", ()))
        if first
    ]
    bad = reasons.total()
    check_quarantine(firsts, bad, total["rows"], config.quarantine)
    dropped = Counter(
        {key: n for key, n in total.items() if n and key.startswith(TEXTS)}
        | {"duplicate_documents": 0}
    )
    lines = Counter({key: total[key] for key in LINES if total[key]})
    folders = [work / f"unit-{number:05d}" for number in range(len(units))]
    sources = [Counter(documents=0, lines=0, bytes=0) for _ in config.sources]
    shards: list[dict[str, Any]] = []
    near = Samples(SAMPLED)
    with atomic_folder(folder) as temporary:
        repeats = _Repeats(config.cleaning, folders, total, work)
        for unit, source in zip(units, folders, strict=True):
            for part in repeats.parts(source):
                name = f"documents-{len(shards):05d}.jsonl"
                made = _copy(part, temporary / name, config.cleaning, near)
                dropped.update({key: made[key] for key in REPEATED if made[key]})
                lines.update(
                    {
                        key: made[key]
                        for key in ("lines_of_documents", "duplicate_paragraphs")
                        if made[key]
                    }
                )
                sources[unit.source].update(
                    {key: made[key] for key in ("documents", "lines", "bytes")}
                )
                if made["documents"]:
                    shards.append(
                        {"file": name, "source": unit.source, "documents": made["documents"]}
                    )
                else:
                    remove(temporary / name)
        if not shards:
            raise _empty(where, total["rows"], bad, dropped)
        _write_what_went(folders, near if config.cleaning.filters else None, temporary)
        sums = {
            key: sum(source[key] for source in sources) for key in ("documents", "lines", "bytes")
        }
        assert total["rows"] == sums["documents"] + bad + dropped.total(), (
            total,
            sums,
            bad,
            dropped,
        )
        assert total["lines_read"] == sums["lines"] + lines.total(), (total, sums, lines)
        changed = {
            key.removeprefix("changed_"): count
            for key, count in sorted(total.items())
            if key.startswith("changed_")
        }
        scored = config.cleaning.decontaminate
        counts_contaminated = scored is not None and scored.action == "count"
        metrics = {
            **sums,
            "rows": total["rows"],
            "lines_read": total["lines_read"],
            "shards": len(shards),
            "dropped": dict(sorted(dropped.items())),
            **(
                {"dropped_shares": _shares(dropped, sums["documents"])}
                if config.cleaning.filters
                else {}
            ),
            **({"contaminated": total["has_benchmark_text"]} if counts_contaminated else {}),
            "dropped_lines": dict(sorted(lines.items())),
            "changed": changed,
            **mixed_code(counts),
            "quarantined": bad,
            "quarantined_lines": total["quarantined_lines"],
            "reasons": dict(sorted(reasons.items())),
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
        write_json(temporary / RESULTS, metrics)
        weights = [source.weight for source in config.sources]
        write_manifest(
            temporary, kind="corpus", name=where.rpartition(".")[2], shards=shards, weights=weights
        )
    return metrics


def _empty(where: str, rows: int, bad: int, dropped: Counter[str]) -> BadInput:
    most = next((f", most as {reason}" for reason, count in dropped.most_common(1) if count), "")
    left_out = f"{rows:,} rows read, {bad:,} quarantined, {dropped.total():,} dropped{most}"
    do = "check the files and the `cleaning` settings"
    return BadInput(where, f"holds no document ({left_out})", "at least one with text", do)


def documents_read(kept: int, dropped: Mapping[str, int]) -> int:
    """How many documents there were; what is left out is none."""
    return kept + sum(
        count for reason, count in dropped.items() if not reason.startswith("left_out_")
    )


def _shares(dropped: Counter[str], kept: int) -> dict[str, float]:
    """What the filters dropped of all documents, by reason."""
    read = documents_read(kept, dropped)
    return {
        reason: round(dropped[reason] / read, 6)
        for reason in (*REASONS, "near_duplicates")
        if dropped[reason]
    }


def _write_what_went(folders: list[Path], near: Samples | None, target: Path) -> None:
    """Join the units' quarantines and, with the samples of near-duplicates, what their filters
    dropped first.
    """
    with (target / "quarantine.jsonl").open("wb") as whole:
        for folder in folders:
            with (folder / "quarantine.jsonl").open("rb") as source:
                shutil.copyfileobj(source, whole)
    if near:
        samples = Samples(SAMPLED)
        for row in (row for folder in folders for row in read_jsonl(folder / SAMPLES)):
            samples.add(row["reason"], row["id"], row["text"])
        write_jsonl(target / SAMPLES, [*samples.rows, *near.rows])


@dataclass(frozen=True)
class _Part:
    """A part of a unit: the index of its documents, why each is dropped or "", which of their
    paragraphs stay.
    """

    path: Path
    rows: NDArray[Any]
    gone: NDArray[np.str_]
    kept: NDArray[np.bool_]


class _Repeats:
    """Which documents and paragraphs of each unit are there for the first time."""

    def __init__(
        self, cleaning: CleaningConfig, folders: list[Path], total: Counter[str], work: Path
    ) -> None:
        self._texts = self._bands = self._lines = None
        if cleaning.duplicate_documents == "drop":
            texts = (_index(folder)["text"].copy() for folder in folders)
            self._texts = FirstOccurrences(texts, total["documents"], work / "repeated-documents")
        if cleaning.near_duplicates == "drop":
            bands = (np.fromfile(folder / BANDS_FILE, "<u8") for folder in folders)
            self._bands = FirstOccurrences(
                bands, BANDS * total["documents"], work / "near-duplicates"
            )
        if cleaning.duplicate_paragraphs == "drop":
            self._lines = FirstOccurrences(
                self._paragraphs(folders), total["paragraphs"], work / "repeated-paragraphs"
            )
        self._text = self._line = 0

    def _gone(self, first: int, count: int) -> NDArray[np.str_]:
        """Why each of `count` documents from number `first` on is dropped, or ""."""
        gone = np.full(count, "", f"<U{max(map(len, REPEATED))}")
        if self._bands:
            new = self._bands.keep(first * BANDS, count * BANDS).reshape(count, BANDS).all(1)
            gone[~new] = "near_duplicates"
        if self._texts:
            gone[~self._texts.keep(first, count)] = "duplicate_documents"
        return gone

    def _paragraphs(self, folders: list[Path]) -> Iterator[NDArray[np.uint64]]:
        """The keys of all paragraphs; those of documents that go are made unlike any other."""
        first = line = 0
        for folder in folders:
            index, keys = _index(folder), np.fromfile(folder / "paragraphs", "<u8")
            gone = np.flatnonzero(
                np.repeat(self._gone(first, len(index)) != "", index["paragraphs"])
            )
            keys[gone] = mix((line + gone).astype(np.uint64))
            first, line = first + len(index), line + len(keys)
            yield keys

    def parts(self, folder: Path) -> Iterator[_Part]:
        """The parts of a unit, which follow those of the unit before it."""
        index = _index(folder)
        gone = self._gone(self._text, len(index))
        self._text += len(index)
        for part in np.unique(index["part"]):
            here = index["part"] == part
            count = int(index["paragraphs"][here].sum())
            kept = self._lines.keep(self._line, count) if self._lines else np.ones(count, np.bool_)
            yield _Part(folder / f"part-{part:05d}.jsonl", index[here], gone[here], kept)
            self._line += count


def _index(folder: Path) -> NDArray[Any]:
    return np.fromfile(folder / "index", INDEX)


def _copy(part: _Part, new: Path, cleaning: CleaningConfig, near: Samples) -> Counter[str]:
    """Write what stays of a part, and count it; where all stays, the part only gets a second name."""
    made: Counter[str] = Counter()
    rows = part.rows
    if (part.gone == "").all() and part.kept.all():
        link_or_copy(part.path, new)
        made.update(
            documents=len(rows),
            lines=int(rows["lines"].sum()),
            bytes=int(rows["bytes"].sum(dtype=np.int64)),
        )
        return made
    start = 0
    with part.path.open("rb") as source, new.open("wb") as target:
        for line, row, gone in zip(source, rows, part.gone.tolist(), strict=True):
            stay = part.kept[start : start + int(row["paragraphs"])]
            start += len(stay)
            lines, size = int(row["lines"]), int(row["bytes"])
            if gone:
                made.update({gone: 1, "lines_of_documents": lines})
                if gone == "near_duplicates":
                    near.add(gone, **json.loads(line))
                continue
            if not stay.all():
                document, first = json.loads(line), iter(stay.tolist())
                every = document["text"].split("\n")
                left = [
                    text for text in every if len(text) < cleaning.shortest_paragraph or next(first)
                ]
                made["duplicate_paragraphs"] += len(every) - len(left)
                text = "\n".join(left)
                lines, size = len(left), len(text.encode())
                if len(text) < cleaning.minimum_document:
                    made.update(repeated_documents=1, lines_of_documents=lines)
                    continue
                line = json.dumps({**document, "text": text}, ensure_ascii=False).encode() + b"\n"
            target.write(line)
            made.update(documents=1, lines=lines, bytes=size)
    return made
