"""tokens@K: documents → build/tokens/K: the tokenizer, and rows-<L>/ for every length, train and
valid.

1. tokenizer  trained on the corpus, or a published vocabulary
2. unit       one shard of documents: tokenize once, pack for every length (any process, in any
              order)
3. collect    join the shards' rows, repeat scarce sources as the weights ask (one process, in the
              shards' order)

A document is held out (valid) by the hash of its text alone, so neither a repetition nor another
order can leak it. A killed run continues with the shards that are missing.
"""

import contextlib
import functools
import hashlib
import itertools
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from electra.config import digest
from electra.data import tokenizer as wordpiece
from electra.data.packing import Packer, PackingConfig, TokensConfig
from electra.data.shards import SPLITS, RowWriter, seal, shard_paths
from electra.data.tokenizer import Form, HubTokenizer, TrainTokenizer
from electra.errors import BadInput, CorruptFile, pluralize
from electra.files import (
    atomic_folder,
    lock_folder,
    read_errors,
    remove,
    sha256_file,
    write_errors,
    write_json,
)
from electra.seeds import derive, permute
from electra.storage.manifest import MANIFEST, cached_sha256, read_manifest, write_manifest
from electra.storage.run_dir import name_run, run_path
from pipelines import rebuild_advice
from pipelines.sources import hub
from pipelines.stages import BUILD, RESULTS, STAGES
from pipelines.stages.progress_bar import print_left_out
from pipelines.stages.work_units import UnitKey, finish_units, make_unit, mixed_code, read_counts
from pipelines.text.cleaning import sentences

if TYPE_CHECKING:
    from pipelines.config.params import Params
    from pipelines.tracking import Tracker

BATCH_CHARACTERS = 1 << 20  # text that is tokenized at once
MUCH_PADDING = 0.2  # of the rows' tokens: more is worth a warning
COUNTED = ("documents", "lines", "tokens", "characters", "unknown_characters", "documents_valid")
Counts = dict[str, Any]


def run(name: str, params: "Params", tracker: "Tracker") -> None:
    """Run the stage: params.yaml `tokens.<name>` → build/tokens/<name>."""
    config = params.tokens[name]
    folder = BUILD / "tokens" / name
    metrics = make_rows(config, name, params.corpora[config.corpus].cleaning.unicode)
    print_losses(f"tokens.{name}", metrics, folder / RESULTS)
    tracker.summary({**metrics, "rows": None})
    tracker.summary({f"rows-{length}": splits for length, splits in metrics["rows"].items()})
    tracker.dataset(f"tokens/{name}", sha256_file(folder / MANIFEST), "tokens")


def print_losses(where: str, metrics: dict[str, Any], results: Path) -> None:
    """Print the shares of tokens cut off, of padding, and of text without pieces."""
    advice = f"see {results}, and {where}.packing to change it"
    for length, splits in metrics["rows"].items():
        read = sum(counts["tokens_read"] for counts in splits.values())
        lost = sum(counts["tokens_discarded"] for counts in splits.values())
        print_left_out(where, lost, read, "tokens", f"did not fit rows of {length}", advice)
        padding = splits["train"]["padding"]
        if padding > MUCH_PADDING:
            print(
                f"warning: {where}: {padding:.1%} of its rows of {length} is padding; "
                "`packing: {rule: packed}` or shorter rows (lengths) fill them",
                file=sys.stderr,
            )
    unknown = metrics["unknown_characters"]
    advice = f"see {results}, and {where}.tokenizer to change it"
    print_left_out(where, unknown, metrics["characters"], "characters", "became [UNK]", advice)


def run_folder(name: str, params: "Params") -> Path:
    """Return the folder of the tokenizer and of finished shards for these settings and their
    corpus, until all exist.
    """
    config = params.tokens[name]
    return run_path("tokens", digest(config, _manifest(config.corpus)["files"]))


def _manifest(corpus: str) -> dict[str, Any]:
    folder = BUILD / "corpus" / corpus
    return read_manifest(folder, rebuild_advice("corpus", corpus), kind="corpus", name=corpus)


def make_rows(config: TokensConfig, name: str, form: Form = "NFC") -> dict[str, Any]:
    """Write tokenizer and rows. Return the counts. `form` is the normal form of the corpus."""
    manifest = _manifest(config.corpus)
    where = f"tokens.{name}"
    key = UnitKey(digest(config, manifest["files"]), STAGES["tokens"].digest)
    work = run_path("tokens", key.fingerprint)
    name_run(work, name, key.fingerprint)
    shards = {
        BUILD / "corpus" / config.corpus / shard["file"]: manifest["files"][shard["file"]]["sha256"]
        for shard in manifest["shards"]
    }
    tokenizer = work / "tokenizer"
    with lock_folder(work):
        trained = read_counts(tokenizer, key.fingerprint)
        if trained is None:
            prepare = functools.partial(prepare_tokenizer, config, where, shards, form)
            trained = make_unit(tokenizer, key, prepare)
        pack = functools.partial(pack_shard, config, tokenizer)
        counts = finish_units(work, key, pack, list(enumerate(shards.items())), where, "tokens")
        facts = {"long_words": trained["long_words"], **mixed_code([trained, *counts])}
        metrics = collect(config, name, manifest, counts, work, facts)
        remove(work)
    return metrics


def prepare_tokenizer(
    config: TokensConfig, where: str, shards: dict[Path, str], form: Form, folder: Path
) -> Counts:
    """Train the tokenizer or take the published one, and leave it in `folder` for the workers."""
    settings = config.tokenizer
    counts = Counter[str](long_words=0)
    case: dict[str, Any] = {
        "lowercase": settings.lowercase,
        "strip_accents": settings.strip_accents,
        "form": form,
    }
    if isinstance(settings, TrainTokenizer):
        lines = SampleLines(shards, settings.megabytes << 20)
        tokenizer = wordpiece.train_wordpiece(
            lines, settings.vocab_size, alphabet=settings.alphabet, counts=counts, **case
        )
    else:
        file = Path(settings.file)
        if isinstance(settings, HubTokenizer):
            place = f"{where}.tokenizer"
            file = hub.fetch_file(settings.repo, settings.file, settings.revision, place)
        tokenizer = wordpiece.load(file, **case)
    wordpiece.save(tokenizer, folder)
    return counts


@dataclass(frozen=True)
class SampleLines:
    """Lines of the corpus for training a tokenizer: the beginning of every shard, `most` bytes in
    all.
    """

    shards: dict[Path, str]  # with the sha256 of each
    most: int

    def __iter__(self) -> Iterator[str]:
        for path, sha256 in self.shards.items():
            taken = 0
            for text in read_texts(path, sha256):
                yield from text.split("\n")
                taken += len(text.encode())
                if taken >= self.most // len(self.shards):
                    break


def read_texts(path: Path, sha256: str) -> Iterator[str]:
    """Yield the texts of a shard of documents, after its bytes were checked."""
    advice = rebuild_advice("corpus", path.parent.name)
    with read_errors(path, advice):
        actual = cached_sha256(path)
        if actual != sha256:
            raise CorruptFile(f"{path}: has sha256 {actual}; expected {sha256}; {advice}")
        with path.open(encoding="utf-8", newline="\n") as file:
            for line in file:
                yield json.loads(line)["text"]


def choose_split(text: str, seed: int, valid_fraction: float) -> str:
    """Return `valid` for a document that is held out: a function of the text, the seed and the
    fraction only.
    """
    key = seed.to_bytes(8, "little", signed=True)
    place = hashlib.blake2b(text.encode(), digest_size=8, key=key).digest()
    return "valid" if int.from_bytes(place, "little") < valid_fraction * 2**64 else "train"


# a worker keeps its tokenizer and the words it has met
_load = functools.lru_cache(maxsize=1)(wordpiece.load)


def pack_shard(
    config: TokensConfig, vocabulary: Path, shard: tuple[int, tuple[Path, str]], folder: Path
) -> Counts:
    """Write rows-<L>/<split>-00000.{ids,bounds} of one shard: its number, file and sha256. Return
    counts of it and of each row set.
    """
    number, file = shard
    tokenizer = _load(vocabulary)
    total: Counter[str] = Counter()
    packers: dict[tuple[int, str], Packer] = {}
    with write_errors(folder), contextlib.ExitStack() as stack:
        writers: dict[tuple[int, str], RowWriter] = {}
        for length, split in itertools.product(config.lengths, SPLITS):
            rows_folder = folder / f"rows-{length}"
            rows_folder.mkdir(exist_ok=True)
            seed = derive(config.seed, f"packing/{split}", number, length)
            packers[length, split] = Packer(length, tokenizer, config.packing, seed)
            writer = RowWriter(rows_folder, split, length, tokenizer)
            writers[length, split] = stack.enter_context(writer)

        def flush() -> None:
            for (length, split), packer in packers.items():
                ids, bounds = packer.take()
                writers[length, split].write(ids, bounds)
                if length == config.lengths[0]:
                    total["unknown"] += int((ids == tokenizer.unk_id).sum())

        for texts in _batches(read_texts(*file)):
            documents = [split_lines(text, config.packing) for text in texts]
            lines = list(itertools.chain.from_iterable(documents))
            encoded = tokenizer.encode_bytes(lines)
            total["characters"] += sum(len(line) - line.count(" ") for line in lines)
            total["unknown_characters"] += tokenizer.unknown_characters(lines, encoded)
            total["tokens"] += sum(map(len, encoded)) // tokenizer.dtype.itemsize
            ids_of_lines = iter(encoded)
            for text, document in zip(texts, documents, strict=True):
                split = choose_split(text, config.seed, config.valid_fraction)
                tokens = list(itertools.islice(ids_of_lines, len(document)))
                total.update({f"documents_{split}": 1, "documents": 1, "lines": len(document)})
                for length in config.lengths:
                    packer = packers[length, split]
                    for line in tokens:
                        packer.add_line(line)
                    packer.end_document()
            flush()
        for packer in packers.values():
            packer.finish()
        flush()
    rows = {}
    for (length, split), packer in packers.items():
        counts = packer.counts
        assert counts["tokens_kept"] + counts["tokens_discarded"] == counts["tokens_read"], counts
        rows[f"{length}/{split}"] = counts
    return {**total, "rows": rows}


def _batches(texts: Iterable[str]) -> Iterator[list[str]]:
    """Yield texts of some BATCH_CHARACTERS together."""
    batch: list[str] = []
    size = 0
    for text in texts:
        batch.append(text)
        size += len(text)
        if size >= BATCH_CHARACTERS:
            yield batch
            batch = []
            size = 0
    if batch:
        yield batch


def split_lines(text: str, config: PackingConfig) -> list[str]:
    """Return the lines of a document: its paragraphs, or their sentences."""
    lines = text.split("\n")
    if config.lines == "paragraphs":
        return lines
    return list(itertools.chain.from_iterable(map(sentences, lines)))


def collect(
    config: TokensConfig,
    name: str,
    manifest: dict[str, Any],
    counts: list[Counts],
    work: Path,
    facts: dict[str, Any],
) -> dict[str, Any]:
    """Join the finished shards into the tokens folder, in order, and return the metrics, with
    `facts` among them.
    """
    tokenizer = wordpiece.load(work / "tokenizer")
    total = Counter[str]()
    for count in counts:
        total.update({key: value for key, value in count.items() if isinstance(value, int)})
    where = f"tokens.{name}"
    _check_amounts(config, where, total, counts)
    rows: dict[str, dict[str, dict[str, Any]]] = {}
    with atomic_folder(BUILD / "tokens" / name) as temporary:
        wordpiece.save(tokenizer, temporary)
        for length in config.lengths:
            rows_folder = temporary / f"rows-{length}"
            rows_folder.mkdir()
            splits = rows[str(length)] = {}
            for split in SPLITS:
                parts = [Counter(count["rows"][f"{length}/{split}"]) for count in counts]
                copies = [1.0] * len(manifest["weights"])
                if split == "train":
                    copies = source_copies(manifest, parts)
                with RowWriter(rows_folder, split, length, tokenizer) as writer:
                    for source, factor in enumerate(copies):
                        folders = [
                            work / f"unit-{number:05d}" / f"rows-{length}"
                            for number, shard in enumerate(manifest["shards"])
                            if shard["source"] == source
                        ]
                        append_rows(writer, folders, split, factor, config.seed, source)
                read = sum(part["tokens_read"] for part in parts)
                splits[split] = {
                    "rows": writer.rows,
                    "tokens": writer.tokens,
                    "tokens_read": read,
                    "tokens_discarded": read - sum(part["tokens_kept"] for part in parts),
                    "padding": round(1 - writer.tokens / max(1, writer.rows * length), 4),
                }
            written = {
                split: {"rows": of["rows"], "tokens": of["tokens"]} for split, of in splits.items()
            }
            seal(rows_folder, length, tokenizer, written)
        first = rows[str(config.lengths[0])].values()
        kept = sum(split["tokens_read"] - split["tokens_discarded"] for split in first)
        unknown_rate = total["unknown"] / max(1, kept)
        if unknown_rate > config.max_unk_rate:
            raise BadInput(
                f"{where}.tokenizer: knows too little of the text: {unknown_rate:.1%} of its "
                f"tokens are [UNK]; expected at most {config.max_unk_rate:.1%}; "
                "use a vocabulary of the text's language, or train one"
            )
        metrics = {
            **{key: total[key] for key in COUNTED},
            "vocab_size": tokenizer.vocab_size,
            "tokenizer": tokenizer.identity,
            "rows": rows,
            "unknown_rate": round(unknown_rate, 6),
            **facts,
        }
        write_json(temporary / RESULTS, metrics)
        write_manifest(
            temporary,
            kind="tokens",
            name=name,
            lengths=list(config.lengths),
            tokenizer=tokenizer.identity,
        )
    return metrics


def source_copies(manifest: dict[str, Any], parts: Sequence[Mapping[str, int]]) -> list[float]:
    """Return how often each source's rows are taken, so that tokens are shared by weight: the most
    abundant's once.
    """
    weights = manifest["weights"]
    if None in weights:
        return [1.0] * len(weights)
    tokens = [0] * len(weights)
    for shard, part in zip(manifest["shards"], parts, strict=True):
        tokens[shard["source"]] += part["tokens_kept"]
    ratios = [
        weight / count if count else 0.0 for weight, count in zip(weights, tokens, strict=True)
    ]
    least = min(filter(None, ratios))
    return [ratio / least for ratio in ratios]


def append_rows(
    writer: RowWriter, folders: list[Path], split: str, copies: float, seed: int, source: int
) -> None:
    """Append the rows of `folders` to the writer, `copies` times over. A fraction takes a random
    part of them.
    """
    files = [shard_paths(folder, split) for folder in folders]
    counts = [bounds.stat().st_size // 4 for _, bounds in files]
    for _ in range(int(copies)):
        for paths in files:
            writer.append_files(*paths)
    rows = sum(counts)
    extra = round((copies - int(copies)) * rows)
    if not extra:
        return
    # row i is taken if a permutation of all rows moves it below `extra`: exactly so many are
    key = derive(seed, "weights", source)
    start = 0
    for paths, count in zip(files, counts, strict=True):
        is_taken = permute(np.arange(start, start + count, dtype=np.int64), rows, key) < extra
        writer.append_files(*paths, is_taken)
        start += count


def _check_amounts(
    config: TokensConfig, where: str, total: Counter[str], counts: list[Counts]
) -> None:
    """Raise BadInput for too few rows to train on, with the number that is missing."""
    documents = total["documents"]
    advice = {
        "train": "use a larger corpus",
        "valid": "raise valid_fraction or use more documents",
    }
    for split in SPLITS:
        if not total[f"documents_{split}"]:
            raise BadInput(
                f"{where}: has {pluralize(documents, 'document')}, none for {split}; "
                f"{advice[split]}"
            )
    key = f"{config.lengths[0]}/train"
    train = sum(count["rows"][key].get("tokens_read", 0) for count in counts)
    longest = max(config.lengths)
    if train < longest:
        raise BadInput(
            f"{where}: has {train:,} tokens to train on, too few for one row of {longest:,}; "
            "use a larger corpus or shorter rows"
        )
