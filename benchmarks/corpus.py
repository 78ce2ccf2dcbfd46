"""Compare our preparation of training rows with `datasets.map`, a transformers tokenizer and
grouping, as their documentation suggests.

    python benchmarks/corpus.py --rounds 4 --megabytes 12

The text (corpus `local_wiki_books`, benchmarks/real_text.yaml) is cleaned once into slices of JSON
lines. Both arms turn every slice into rows of 128, in turns, in one process on one thread; rates
are per second of process time. tests/electra/data/test_tokenizer.py checks that the ids agree.

ours        the work of a tokens worker: verify, parse, split sentences, tokenize, pack, write
peer        load the JSON lines, map the tokenizer over batches, map `group_texts`, with cache files
peer_lines  the peer with one paragraph per example, so that its batches are smallest

Peak memory is measured in a new process for each arm. `filters` are those of a corpus's cleaning;
`times_cleaning` is the cost of a filter relative to cleaning the same text.
"""

import functools
import itertools
import operator
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

os.environ |= {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"}
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.harness import (
    arguments,
    in_process,
    in_turns,
    local_params,
    peak_memory_mb,
    provenance,
    ratios,
    spread,
    write_record,
)
from electra.config import build
from electra.data import tokenizer as wordpiece
from electra.files import read_jsonl, sha256_file, write_jsonl
from pipelines.sources.local import read_documents
from pipelines.sources.paths import find_files
from pipelines.sources.streams import FileRange
from pipelines.stages.corpus import forbidden_ngrams, judge
from pipelines.stages.tokens import pack_shard
from pipelines.text.cleaning import CleaningConfig, Document, clean

LENGTH = 128
PARAMS = local_params()
CONFIG = replace(PARAMS.tokens["local_wiki_books"], lengths=(LENGTH,))
ARMS = ("ours", "peer", "peer_lines")
FILTERS: dict[str, dict[str, Any]] = {
    "language": {"language": "en"},
    "quality": {"quality": "gopher"},
    "near_duplicates": {"near_duplicates": "drop"},
    "decontaminate": {"decontaminate": {"tasks": "local"}},
}
FILTERS["all_filters"] = functools.reduce(operator.or_, FILTERS.values())


def read_texts(source: Any, paths: Iterable[Path]) -> Iterator[str]:
    """Yield the text of every document of a source's files."""
    for path in paths:
        for item in read_documents(FileRange(path), source):
            if isinstance(item, Document):
                yield item.text


def write_slices(folder: Path, rounds: int, megabytes: float) -> list[Path]:
    """Write slices of clean documents, half of each source."""
    corpus = PARAMS.corpora["local_wiki_books"]
    readers = [read_texts(source, find_files(source.files, "corpora")) for source in corpus.sources]
    slices = []
    for number in range(rounds):
        rows = []
        for reader in readers:
            taken = 0
            while taken < megabytes * 1e6 / len(readers):
                text = clean(next(reader), corpus.cleaning, Counter())
                taken += len(text.encode())
                rows.append({"id": str(len(rows)), "text": text})
        slices.append(folder / f"slice-{number}.jsonl")
        write_jsonl(slices[-1], rows)
    return slices


def peer(path: Path, folder: Path, *, lines: bool) -> int:
    """Write rows with `datasets` and transformers, and return the number of tokens."""
    import datasets
    from transformers import BertTokenizer

    datasets.disable_progress_bars()
    tokenizer = BertTokenizer.from_pretrained(
        str(folder.parent / "published"), model_max_length=10**9
    )

    def tokenize(batch: dict[str, list[str]]) -> Any:
        return tokenizer(batch["text"], return_special_tokens_mask=True)

    def group(batch: dict[str, list[list[int]]]) -> dict[str, list[list[int]]]:
        joined = {key: list(itertools.chain(*rows)) for key, rows in batch.items()}
        total = len(joined["input_ids"]) // LENGTH * LENGTH
        return {
            key: [ids[start : start + LENGTH] for start in range(0, total, LENGTH)]
            for key, ids in joined.items()
        }

    kind = "json"
    if lines:
        kind = "text"
        texts = [row["text"] for row in read_jsonl(path)]
        path = folder / "lines.txt"
        path.write_text("\n".join(texts), encoding="utf-8")
    rows = datasets.load_dataset(
        kind, data_files=str(path), split="train", cache_dir=str(folder / "cache")
    )
    mapped = rows.map(tokenize, batched=True, remove_columns=rows.column_names)
    assert len(mapped.map(group, batched=True))
    return sum(len(ids) - 2 for ids in mapped["input_ids"])


def run_arm(arm: str, path: Path, folder: Path) -> tuple[int, float]:
    """Return the tokens and processor seconds of one arm on one slice."""
    work = folder / "work"
    shutil.rmtree(work, ignore_errors=True)
    (work / "rows").mkdir(parents=True)
    started = time.process_time()
    if arm == "ours":
        shard = (0, (path, sha256_file(path)))
        tokens = int(pack_shard(CONFIG, folder / "tokenizer", shard, work / "rows")["tokens"])
    else:
        tokens = peer(path, work, lines=arm == "peer_lines")
    return tokens, time.process_time() - started


def measure_memory(arm: str, path: Path, folder: Path) -> dict[str, Any]:
    """Return the peak memory of this process after one arm, and the arm's tokens."""
    tokens, _ = run_arm(arm, path, folder)
    return {"peak_megabytes": peak_memory_mb(), "tokens": tokens}


def measure_filters(slices: list[Path], folder: Path) -> dict[str, Any]:
    """Return the megabytes of clean text per processor second, for cleaning, each filter and all
    filters together.
    """

    def rate(arm: str) -> float:
        texts = next(remaining[arm])
        started = time.process_time()
        for text in texts:
            judges[arm](text)
        return sum(len(text.encode()) for text in texts) / 1e6 / (time.process_time() - started)

    cleaning = PARAMS.corpora["local_wiki_books"].cleaning
    folder.mkdir()
    forbidden = forbidden_ngrams(
        PARAMS.tasks["local"], build(CleaningConfig, FILTERS["decontaminate"], "cleaning"), folder
    )
    judges: dict[str, Callable[[str], object]] = {
        "cleaning": partial(clean, config=cleaning, counts=Counter())
    }
    for arm, settings in FILTERS.items():
        scored = forbidden if "decontaminate" in settings else None
        judges[arm] = partial(
            judge, cleaning=build(CleaningConfig, settings, arm), forbidden=scored
        )
    texts = [[row["text"] for row in read_jsonl(path)] for path in slices]
    for function in judges.values():  # load models and word lists before timing
        function(texts[0][0])
    remaining = {arm: iter(texts) for arm in judges}
    rates = in_turns({arm: partial(rate, arm) for arm in judges}, len(texts))
    return {
        "megabytes_per_cpu_second": {arm: spread(values, 3) for arm, values in rates.items()},
        "times_cleaning": {arm: ratios(rates["cleaning"], rates[arm]) for arm in FILTERS},
    }


def main() -> None:
    parser = arguments(__doc__, "corpus.json")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--megabytes", type=float, default=12)
    options = parser.parse_args()
    origin = provenance("datasets", "transformers", "pyarrow")
    with tempfile.TemporaryDirectory() as name:
        write_record(options.output, measure(Path(name), options.rounds, options.megabytes), origin)


def measure(folder: Path, rounds: int, megabytes: float) -> dict[str, Any]:
    """Return the rates and peak memory of all arms, and the rates of the filters."""
    slices = write_slices(folder, rounds, megabytes)
    vocabulary = Path(CONFIG.tokenizer.file)
    wordpiece.save(wordpiece.load(vocabulary, lowercase=True), folder / "tokenizer")
    (folder / "published").mkdir()
    shutil.copy(vocabulary, folder / "published" / "vocab.txt")
    remaining = {arm: iter(slices) for arm in ARMS[:2]}

    def run_next(arm: str) -> tuple[int, float]:
        return run_arm(arm, next(remaining[arm]), folder)

    turns = in_turns({arm: partial(run_next, arm) for arm in remaining}, rounds)
    assert [tokens for tokens, _ in turns["ours"]] == [tokens for tokens, _ in turns["peer"]]
    rates = {
        arm: [tokens / seconds for tokens, seconds in results] for arm, results in turns.items()
    }
    memory = {arm: in_process(measure_memory, arm, slices[0], folder) for arm in ARMS}
    peaks = {arm: result["peak_megabytes"] for arm, result in memory.items()}
    return {
        "what": "clean documents (JSON lines) to rows of 128 on disk, one thread",
        "tokens_per_cpu_second": {arm: spread(values, 6) for arm, values in rates.items()},
        "ratio": ratios(rates["ours"], rates["peer"]),
        "rounds": {arm: [round(value) for value in values] for arm, values in rates.items()},
        "peak_memory": memory,
        "memory_ratio": {arm: round(peaks["ours"] / peaks[arm], 3) for arm in ARMS[1:]},
        "filters": measure_filters(slices, folder / "benchmark"),
    }


if __name__ == "__main__":
    main()
