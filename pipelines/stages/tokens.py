"""tokens@K: documents → build/tokens/K: the tokenizer, and rows-<L>/ for every length, train and
valid.

1. tokenizer  trained on the corpus, or a published vocabulary
2. unit       one shard of documents: tokenize once, pack for every length          any process, in any order
3. collect    join the shards' rows, repeat scarce sources as the weights ask      one process, in the shards' order

A document is held out (valid) by the hash of its text alone, so neither a repetition nor another
order can leak it. A killed run goes on with the shards that are missing.
"""

import contextlib
import functools
import hashlib
import itertools
import json
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from electra.config import digest
from electra.data import tokenizer as wordpiece
from electra.data.packing import Packer, PackingConfig, TokensConfig
from electra.data.shards import SPLITS, RowWriter, seal, shard_paths
from electra.data.tokenizer import Form, HubTokenizer, TrainTokenizer
from electra.errors import BadInput, CorruptFile
from electra.files import (
    atomic_folder,
    lock_folder,
    readable,
    remove,
    room,
    sha256_file,
    write_json,
)
from electra.seeds import derive, permute
from electra.storage.manifest import MANIFEST, read_manifest, sha256_once, write_manifest
from electra.storage.run_dir import RUNS, folder_of, name_run
from pipelines import again
from pipelines.runtime.progress_bar import print_left_out
from pipelines.runtime.work_units import MadeOf, Shown, finish_unit, finish_units, mixed_code
from pipelines.sources import hub
from pipelines.stages import RESULTS, STAGES
from pipelines.text.cleaning import sentences

if TYPE_CHECKING:
    from pipelines.config.params import Params
    from pipelines.tracking import Tracker

BATCH_CHARACTERS = 1 << 20  # text that is tokenized at once
MUCH_PADDING = 0.2  # of the rows' tokens: more is worth a warning
Counts = dict[str, Any]


def run(name: str, params: "Params", tracker: "Tracker") -> None:
    """The stage: params.yaml `tokens.<name>` → build/tokens/<name>."""
    config = params.tokens[name]
    folder, corpus = Path("build/tokens") / name, Path("build/corpus") / config.corpus
    form = params.corpora[config.corpus].cleaning.unicode
    metrics = make_rows(config, f"tokens.{name}", corpus, folder, form=form)
    tell_losses(config, f"tokens.{name}", metrics, folder / RESULTS)
    tracker.summary({**metrics, "rows": None})
    tracker.summary({f"rows-{length}": splits for length, splits in metrics["rows"].items()})
    tracker.dataset(f"tokens/{name}", sha256_file(folder / MANIFEST), "tokens")


def tell_losses(config: TokensConfig, where: str, metrics: dict[str, Any], noted: Path) -> None:
    """What packing cut off or left empty, and what the vocabulary has no pieces for."""
    for length, splits in metrics["rows"].items():
        read, lost = (
            sum(one[key] for one in splits.values()) for key in ("tokens_read", "tokens_discarded")
        )
        keys = (
            "overflow: carry"
            if config.packing.lines == "sentences"
            else "lines: sentences or overflow: carry"
        )
        why = f"did not fit rows of {length}"
        print_left_out(
            where,
            lost,
            read,
            "tokens",
            why,
            f"see {noted}, and {where}.packing ({keys}) to change it",
        )
        if (padding := splits["train"]["padding"]) > MUCH_PADDING:
            found = f"{padding:.1%} of its rows of {length} is padding, which is computed and teaches nothing"
            do = "`packing: {rule: packed}` or shorter rows (lengths) fill them"
            print(f"warning: {where}: {found}; {do}", file=sys.stderr)
    unknown, characters = metrics["unknown_characters"], metrics["characters"]
    more = f"see {noted}, and {where}.tokenizer to change it"
    print_left_out(where, unknown, characters, "characters", "became [UNK]", more)


def run_folder(name: str, params: "Params") -> Path:
    """Where the tokenizer and finished shards of these settings and their corpus lie until all are
    there.
    """
    config = params.tokens[name]
    return folder_of(
        "tokens", _fingerprint(config, _manifest(config, Path("build/corpus") / config.corpus))
    )


def _manifest(config: TokensConfig, corpus: Path) -> dict[str, Any]:
    return read_manifest(corpus, again("corpus", config.corpus), kind="corpus", name=config.corpus)


def _fingerprint(config: TokensConfig, manifest: dict[str, Any]) -> str:
    return digest(config, manifest["files"])


def make_rows(
    config: TokensConfig,
    where: str,
    corpus: Path,
    folder: Path,
    runs: Path = RUNS,
    form: Form = "NFC",
) -> dict[str, Any]:
    """Write tokenizer and rows to `folder`; return the counts; `runs` holds unfinished runs'
    shards, `form` is the normal form of the corpus.
    """
    manifest = _manifest(config, corpus)
    of = MadeOf(_fingerprint(config, manifest), STAGES["tokens"].digest)
    work = folder_of("tokens", of.fingerprint, runs)
    name_run(work, where.rpartition(".")[2], of.fingerprint)
    shards = [shard["file"] for shard in manifest["shards"]]
    hashes = {name: manifest["files"][name]["sha256"] for name in shards}
    sizes = [manifest["files"][name]["bytes"] for name in shards]
    with lock_folder(work):
        made = work / "tokenizer"
        trained = finish_unit(
            made, of, functools.partial(prepare_tokenizer, config, where, corpus, hashes, form)
        )
        jobs = [
            PackJob(corpus / name, hashes[name], number, made, config)
            for number, name in enumerate(shards)
        ]
        counts = finish_units(work, of, pack_shard, jobs, Shown(where, sizes, "tokens"))
        facts = {"long_words": trained["long_words"], **mixed_code([trained, *counts])}
        metrics = collect(config, where, manifest, counts, work, folder, facts)
        remove(work)
    return metrics


def prepare_tokenizer(
    config: TokensConfig,
    where: str,
    corpus: Path,
    hashes: dict[str, str],
    form: Form,
    folder: Path,
) -> dict[str, Any]:
    """Train the tokenizer or take the published one, and leave it in `folder` for the workers."""
    settings, counts = config.tokenizer, Counter[str](long_words=0)
    cased: dict[str, Any] = {
        "lowercase": settings.lowercase,
        "strip_accents": settings.strip_accents,
        "form": form,
    }
    if isinstance(settings, TrainTokenizer):
        lines = SampleLines(corpus, hashes, settings.megabytes << 20)
        made = wordpiece.train_wordpiece(
            lines, settings.vocab_size, alphabet=settings.alphabet, counts=counts, **cased
        )
    elif isinstance(settings, HubTokenizer):
        file = hub.fetch_file(settings.repo, settings.file, settings.revision, f"{where}.tokenizer")
        made = wordpiece.load(file, **cased)
    else:
        made = wordpiece.load(Path(settings.file), **cased)
    wordpiece.save(made, folder)
    return {"identity": made.identity, **counts}


@dataclass(frozen=True)
class SampleLines:
    """Lines of the corpus for training a tokenizer: the beginning of every shard, `most` bytes in
    all.
    """

    corpus: Path
    hashes: dict[str, str]
    most: int

    def __iter__(self) -> Iterator[str]:
        for name, sha256 in self.hashes.items():
            taken = 0
            for text in read_texts(self.corpus / name, sha256):
                yield from text.split("\n")
                taken += len(text.encode())
                if taken >= self.most // len(self.hashes):
                    break


def read_texts(path: Path, sha256: str) -> Iterator[str]:
    """The texts of a shard of documents, after its bytes were checked."""
    do = again("corpus", path.parent.name)
    with readable(path, do):
        if (found := sha256_once(path)) != sha256:
            raise CorruptFile(path, f"has sha256 {found}", sha256, do)
        with path.open(encoding="utf-8", newline="\n") as file:
            for line in file:
                yield json.loads(line)["text"]


def split_of(text: str, seed: int, valid_fraction: float) -> str:
    """`valid` for the documents held out: a matter of the text, the seed and the fraction only."""
    key = hashlib.blake2b(
        text.encode(), digest_size=8, key=seed.to_bytes(8, "little", signed=True)
    ).digest()
    return "valid" if int.from_bytes(key, "little") < valid_fraction * 2**64 else "train"


@dataclass(frozen=True)
class PackJob:
    """One shard of documents to tokenize and pack."""

    path: Path
    sha256: str
    number: int
    tokenizer: Path
    config: TokensConfig


# a worker keeps its tokenizer and the words it has met
_load = functools.lru_cache(maxsize=1)(wordpiece.load)


def pack_shard(job: PackJob, folder: Path) -> Counts:
    """Write rows-<L>/<split>-00000.{ids,bounds} of one shard; return counts of it and of each row
    set.
    """
    config, tokenizer = job.config, _load(job.tokenizer)
    total: Counter[str] = Counter()
    packers, writers = dict[tuple[int, str], Packer](), dict[tuple[int, str], RowWriter]()
    for length, split in itertools.product(config.lengths, SPLITS):
        seed = derive(config.seed, f"packing/{split}", job.number, length)
        packers[length, split] = Packer(length, tokenizer, config.packing, seed)
        (folder / f"rows-{length}").mkdir(exist_ok=True)
        writers[length, split] = RowWriter(folder / f"rows-{length}", split, length, tokenizer)

    def pack(texts: list[str]) -> None:
        documents = [lines_of(text, config.packing) for text in texts]
        every = [line for lines in documents for line in lines]
        encoded = iter(found := tokenizer.encode_bytes(every))
        total["characters"] += sum(len(line) - line.count(" ") for line in every)
        total["unknown_characters"] += tokenizer.unknown_characters(every, found)
        for text, lines in zip(texts, documents, strict=True):
            split = split_of(text, config.seed, config.valid_fraction)
            tokens = [next(encoded) for _ in lines]
            total.update({f"documents_{split}": 1, "documents": 1, "lines": len(lines)})
            total["tokens"] += sum(map(len, tokens)) // tokenizer.dtype.itemsize
            for length in config.lengths:
                packer = packers[length, split]
                for line in tokens:
                    packer.add_line(line)
                packer.end_document()

    def flush() -> None:
        for key, packer in packers.items():
            ids, bounds = packer.take()
            writers[key].write(ids, bounds)
            if key[0] == config.lengths[0]:
                total["unknown"] += int((ids == tokenizer.unk_id).sum())

    with room(folder), contextlib.ExitStack() as opened:
        for writer in writers.values():
            opened.enter_context(writer)
        batch: list[str] = []
        size = 0
        for text in read_texts(job.path, job.sha256):
            batch.append(text)
            size += len(text)
            if size >= BATCH_CHARACTERS:
                pack(batch)
                flush()
                batch, size = [], 0
        pack(batch)
        for packer in packers.values():
            packer.finish()
        flush()
    for (length, split), packer in packers.items():
        counts = packer.counts
        assert counts["tokens_kept"] + counts["tokens_discarded"] == counts["tokens_read"], (
            length,
            split,
            counts,
        )
    rows = {f"{length}/{split}": dict(packer.counts) for (length, split), packer in packers.items()}
    return {**total, "rows": rows}


def lines_of(text: str, config: PackingConfig) -> list[str]:
    """The lines of a document: its paragraphs, or their sentences."""
    lines = text.split("\n")
    return (
        lines
        if config.lines == "paragraphs"
        else [piece for line in lines for piece in sentences(line)]
    )


def collect(
    config: TokensConfig,
    where: str,
    manifest: Any,
    counts: list[Counts],
    work: Path,
    folder: Path,
    facts: dict[str, Any],
) -> dict[str, Any]:
    """Join the finished shards into the tokens folder, in order, and return the metrics, with
    `facts` among them.
    """
    tokenizer, total = wordpiece.load(work / "tokenizer"), Counter[str]()
    for count in counts:
        total.update({key: value for key, value in count.items() if isinstance(value, int)})
    units = [work / f"unit-{number:05d}" for number in range(len(counts))]
    counted = (
        "documents",
        "lines",
        "tokens",
        "characters",
        "unknown_characters",
        "documents_valid",
    )
    metrics: dict[str, Any] = {key: total[key] for key in counted}
    metrics |= {
        "vocab_size": tokenizer.vocab_size,
        "tokenizer": tokenizer.identity,
        "rows": {},
        **facts,
    }
    _check_amounts(config, where, total, counts)
    with atomic_folder(folder) as temporary:
        wordpiece.save(tokenizer, temporary)
        for length in config.lengths:
            rows_folder = temporary / f"rows-{length}"
            rows_folder.mkdir()
            of_splits: dict[str, dict[str, int]] = {}
            metrics["rows"][str(length)] = {}
            for split in SPLITS:
                parts = [count["rows"][f"{length}/{split}"] for count in counts]
                copies = (
                    source_copies(manifest, parts)
                    if split == "train"
                    else [1.0] * len(manifest["weights"])
                )
                with RowWriter(rows_folder, split, length, tokenizer) as writer:
                    for source, factor in enumerate(copies):
                        pairs = zip(units, manifest["shards"], strict=True)
                        mine = [
                            unit / f"rows-{length}"
                            for unit, shard in pairs
                            if shard["source"] == source
                        ]
                        append_rows(writer, mine, split, factor, config.seed, source)
                of_splits[split] = {"rows": writer.rows, "tokens": writer.tokens}
                read, kept = (
                    sum(part.get(key, 0) for part in parts)
                    for key in ("tokens_read", "tokens_kept")
                )
                padding = round(1 - writer.tokens / max(1, writer.rows * length), 4)
                found = {"tokens_read": read, "tokens_discarded": read - kept, "padding": padding}
                metrics["rows"][str(length)][split] = {**of_splits[split], **found}
            seal(rows_folder, length, tokenizer, of_splits)
        first = metrics["rows"][str(config.lengths[0])]
        kept = sum(
            first[split]["tokens_read"] - first[split]["tokens_discarded"] for split in SPLITS
        )
        metrics["unknown_rate"] = round(total["unknown"] / max(1, kept), 6)
        write_json(temporary / RESULTS, metrics)
        whose = {
            "kind": "tokens",
            "name": where.rpartition(".")[2],
            "tokenizer": tokenizer.identity,
        }
        write_manifest(temporary, lengths=list(config.lengths), **whose)
    return metrics


def source_copies(manifest: Any, parts: list[Counts]) -> list[float]:
    """How often each source's rows are taken, so that tokens are shared by weight: the most
    abundant's once.
    """
    weights: list[float | None] = manifest["weights"]
    tokens = [0] * len(weights)
    for shard, part in zip(manifest["shards"], parts, strict=True):
        tokens[shard["source"]] += part.get("tokens_kept", 0)
    if None in weights:
        return [1.0] * len(weights)
    wanted = [
        weight / max(1, count)
        for weight, count in zip(weights, tokens, strict=True)
        if weight is not None
    ]
    least = min(ratio for ratio, count in zip(wanted, tokens, strict=True) if count)
    return [ratio / least if count else 0.0 for ratio, count in zip(wanted, tokens, strict=True)]


def append_rows(
    writer: RowWriter, folders: list[Path], split: str, copies: float, seed: int, source: int
) -> None:
    """Append the rows of `folders` to the writer, `copies` times over; a fraction takes a random
    part of them.
    """
    counts = [shard_paths(folder, split)[1].stat().st_size // 4 for folder in folders]
    for _ in range(int(copies)):
        for folder, count in zip(folders, counts, strict=True):
            writer.append_files(*shard_paths(folder, split), count)
    rows = sum(counts)
    extra, key, start = round((copies - int(copies)) * rows), derive(seed, "weights", source), 0
    for folder, count in zip(folders, counts, strict=True):
        # row i is taken if a permutation of all rows moves it below `extra`: exactly so many are
        if extra:
            here = permute(np.arange(start, start + count, dtype=np.int64), rows, key) < extra
            writer.append_files(*shard_paths(folder, split), count, np.flatnonzero(here))
        start += count


def _check_amounts(
    config: TokensConfig, where: str, total: Counter[str], counts: list[Counts]
) -> None:
    """Refuse rows that nothing could be trained on, with the number that is missing."""
    length = config.lengths[0]
    for split, advice in (
        ("train", "use a larger corpus"),
        ("valid", "raise valid_fraction or use more documents"),
    ):
        if not total[f"documents_{split}"]:
            raise BadInput(
                where,
                f"has {total['documents']:,} documents, none for {split}",
                "at least one",
                advice,
            )
    train = sum(count["rows"][f"{length}/train"].get("tokens_read", 0) for count in counts)
    if train < max(config.lengths):
        found, expected = (
            f"has {train:,} tokens to train on",
            f"enough for one row of {max(config.lengths):,}",
        )
        raise BadInput(where, found, expected, "use a larger corpus or shorter rows")
    if total["unknown"] > config.maximum_unknown * total["tokens"]:
        found = f"knows too little of the text: {total['unknown'] / total['tokens']:.1%} of its tokens are [UNK]"
        do = "use a vocabulary of the text's language, or train one"
        raise BadInput(f"{where}.tokenizer", found, f"at most {config.maximum_unknown:.1%}", do)
