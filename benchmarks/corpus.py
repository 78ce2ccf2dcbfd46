"""Text to training rows beside `datasets.map`, a transformers tokenizer and grouping, as their
documentation suggests.

    python benchmarks/corpus.py --rounds 4 --megabytes 12

Reads real text (corpus `local_wiki_books`, benchmarks/real_text.yaml), cleans it once into slices
of JSON lines, and turns every slice into rows of 128 by both arms in turn, in one process on one
thread; rates are tokens over process CPU time. `ours` is the work of a tokens worker: verify,
parse, split sentences, tokenize, pack by ELECTRA's rule, write. `peer` loads the JSON lines, maps
the tokenizer over batches and maps `group_texts`, cache files written as by default. Peaks of
memory are measured in a fresh process for each arm; `peer_lines` is the peer given one paragraph an
example, where its batches are smallest. `filters` are those of a corpus's cleaning:
`times_cleaning` is what one costs, in times of cleaning the same text. `formats` are files as they
are delivered, made here of the same text with markup and boilerplate around it: megabytes of text
that are found. That the ids agree is shown by tests/electra/data/test_word_cache.py.
"""

import argparse
import bz2
import gzip
import json
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from html import escape
from pathlib import Path
from typing import Any

os.environ |= {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"}
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

from benchmarks.harness import (
    arguments,
    in_turns,
    local_params,
    memory_mb,
    provenance,
    ratios,
    run_process,
    spread,
    write_record,
)
from electra.config import build
from electra.data import tokenizer as wordpiece
from electra.data.order import row_indices
from electra.data.shards import SPLITS, Rows, RowWriter, seal
from electra.files import sha256_file
from pipelines.sources import LocalCorpus
from pipelines.sources.local import read_documents
from pipelines.sources.paths import find_files
from pipelines.sources.streams import Piece
from pipelines.stages.corpus import forbidden_ngrams
from pipelines.stages.filters import judge
from pipelines.stages.tokens import PackJob, pack_shard
from pipelines.text.cleaning import CleaningConfig, Document, clean

LENGTH = 128
PARAMS = local_params()
CONFIG = replace(PARAMS.tokens["local_wiki_books"], lengths=(LENGTH,))
ARMS = ("ours", "peer", "peer_lines")
CLEANING = {
    "cleaning": {},
    "language": {"language": "en"},
    "quality": {"quality": "gopher"},
    "near_duplicates": {"near_duplicates": "drop"},
    "decontaminate": {"decontaminate": {"tasks": "local"}},
    "all_filters": {
        "language": "en",
        "quality": "gopher",
        "near_duplicates": "drop",
        "decontaminate": {"tasks": "local"},
    },
}


def prepare(folder: Path, rounds: int, megabytes: float) -> dict[str, float]:
    """Write slices of clean documents, half of each source; return the rate of reading and
    cleaning.
    """
    corpus = PARAMS.corpora["local_wiki_books"]
    started, size = time.process_time(), 0
    readers = [
        (
            item
            for path in find_files(source.files, "corpora")
            for item in read_documents(Piece(path), source)
        )
        for source in corpus.sources
    ]
    for number in range(rounds):
        with (folder / f"slice-{number}.jsonl").open("w", encoding="utf-8") as target:
            for reader in readers:
                taken = 0
                while taken < megabytes * 1e6 / len(readers) and isinstance(
                    item := next(reader), Document
                ):
                    text = clean(item.text, corpus.cleaning, Counter())
                    taken += len(text.encode())
                    target.write(
                        json.dumps({"id": item.id, "text": text}, ensure_ascii=False) + "\n"
                    )
                size += taken
    return {"megabytes_per_second": round(size / 1e6 / (time.process_time() - started), 2)}


def peer(path: Path, folder: Path, *, lines: bool) -> int:
    """Rows by `datasets` and transformers; returns the tokens of the text."""
    import datasets
    from transformers import BertTokenizer

    datasets.disable_progress_bars()
    tokenizer = BertTokenizer.from_pretrained(
        str(folder.parent / "published"), model_max_length=10**9
    )

    def tokenize(batch: dict[str, list[str]]) -> Any:
        return tokenizer(batch["text"], return_special_tokens_mask=True)

    def group(batch: dict[str, list[list[int]]]) -> dict[str, list[list[int]]]:
        joined = {key: [value for row in rows for value in row] for key, rows in batch.items()}
        total = len(joined["input_ids"]) // LENGTH * LENGTH
        return {
            key: [row[i : i + LENGTH] for i in range(0, total, LENGTH)]
            for key, row in joined.items()
        }

    if lines:
        text = folder / "lines.txt"
        text.write_text(
            "\n".join(json.loads(line)["text"] for line in path.open(encoding="utf-8")),
            encoding="utf-8",
        )
        path = text
    kind = "text" if lines else "json"
    rows = datasets.load_dataset(
        kind, data_files=str(path), split="train", cache_dir=str(folder / "cache")
    )
    mapped = rows.map(tokenize, batched=True, remove_columns=rows.column_names)
    assert len(mapped.map(group, batched=True))
    batches = mapped.select_columns(["input_ids"]).iter(100)
    return sum(len(ids) - 2 for batch in batches for ids in batch["input_ids"])


def timed(arm: str, path: Path, folder: Path) -> tuple[int, float]:
    """(tokens, CPU seconds) of one arm on one slice."""
    here = folder / "work"
    shutil.rmtree(here, ignore_errors=True)
    (here / "rows").mkdir(parents=True)
    started = time.process_time()
    if arm == "ours":
        job = PackJob(path, sha256_file(path), 0, folder / "tokenizer", CONFIG)
        tokens = int(pack_shard(job, here / "rows")["tokens"])
    else:
        tokens = peer(path, here, lines=arm == "peer_lines")
    return tokens, time.process_time() - started


def reading(folder: Path, batch: int, length: int, steps: int) -> int:
    """Tokens per CPU second of what a training step asks for: row numbers of the step, and a copy
    of those rows.
    """
    tokenizer = wordpiece.load(folder / "tokenizer")
    (rows_folder := folder / f"read-{length}").mkdir()
    count = 64_000_000 // length
    ids = np.random.default_rng(0).integers(
        0, tokenizer.vocab_size, (count, length), dtype=np.uint16
    )
    with RowWriter(rows_folder, "train", length, tokenizer) as writer:
        writer.write(ids, np.full((count, 2), length, dtype=np.uint16))
    with RowWriter(rows_folder, "valid", length, tokenizer):
        pass
    counts = {split: count * (split == "train") for split in SPLITS}
    seal(
        rows_folder,
        length,
        tokenizer,
        {name: {"rows": n, "tokens": n * length} for name, n in counts.items()},
    )
    rows = Rows.open(rows_folder, "train")
    started = time.process_time()
    for step in range(steps):
        indices = row_indices(1, step, batch, len(rows))
        assert rows.ids[indices].shape == (batch, length) and len(rows.bounds[indices]) == batch
    return round(steps * batch * length / (time.process_time() - started))


def record(kind: str, media: str, block: str) -> bytes:
    data = block.encode()
    head = f"WARC/1.0\r\nWARC-Type: {kind}\r\nContent-Type: {media}\r\nContent-Length: {len(data)}\r\n\r\n"
    return gzip.compress(head.encode() + data + b"\r\n\r\n")


def page(text: str) -> str:
    links = "".join(f'<li><a href="/{number}">Section {number}</a></li>' for number in range(40))
    body = "".join(f"<p>{escape(line)}</p>\n" for line in text.split("\n"))
    head = f"<head><title>T</title><style>{'p {margin: 1em} ' * 100}</style></head>"
    return f"<html>{head}<body><nav><ul>{links}</ul></nav><main>{body}</main><footer>{links}</footer></body></html>"


def story(text: str) -> str:
    lines = "".join(f"<P>\n{escape(line, quote=False)}\n</P>\n" for line in text.split("\n"))
    return f'<DOC id="A" type="story" >\n<TEXT>\n{lines}</TEXT>\n</DOC>\n'


def article(text: str) -> str:
    markup = escape(
        "{{Infobox\n| a = b\n}}\n"
        + text
        + "<ref>{{cite|x}}</ref> [[a|link]]\n== See also ==\n* [[b]]"
    )
    head = "  <page>\n    <title>T</title>\n    <ns>0</ns>\n    <id>1</id>\n    <revision>\n      <id>2</id>\n"
    return f"{head}      <text>{markup}</text>\n    </revision>\n  </page>\n"


def formats(slices: list[Path], folder: Path) -> dict[str, Any]:
    """Megabytes of text per CPU second that each reader finds in files as they are delivered."""
    http = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"
    made, least = dict[str, list[Path]](), 0.5 * min(path.stat().st_size for path in slices)
    for number, path in enumerate(slices):
        texts = [json.loads(line)["text"] for line in path.open(encoding="utf-8")]
        files = {
            "html.warc.gz": b"".join(
                record("response", "application/http", http + page(text)) for text in texts
            ),
            "text.warc.wet.gz": b"".join(
                record("conversion", "text/plain", text) for text in texts
            ),
            "gigaword.gz": gzip.compress("".join(map(story, texts)).encode()),
            "wikipedia.xml.bz2": bz2.compress(
                f"<mediawiki>\n{''.join(map(article, texts))}</mediawiki>\n".encode()
            ),
        }
        for name, data in files.items():
            (file := folder / f"{number}-{name}").write_bytes(data)
            made.setdefault(name, []).append(file)

    def rate(name: str) -> float:
        file = next(left[name])
        kind: Any = "warc" if "warc" in name else name.partition(".")[0]
        source = LocalCorpus(kind=kind, files=(str(file),))
        started = time.process_time()
        items = read_documents(Piece(file), source)
        size = sum(len(item.text.encode()) for item in items if isinstance(item, Document))
        assert size > least, (name, size)
        return size / 1e6 / (time.process_time() - started)

    left = {name: iter(files) for name, files in made.items()}
    rates = in_turns({name: partial(rate, name) for name in made}, len(slices))
    return {name: spread(values, 3) for name, values in rates.items()}


def filtering(slices: list[Path], folder: Path) -> dict[str, Any]:
    """Megabytes of clean text per CPU second: cleaning once more, each filter by itself, and all at
    once.
    """
    (scratch := folder / "benchmark").mkdir()
    forbidden = forbidden_ngrams(
        PARAMS.tasks["local"], build(CleaningConfig, CLEANING["decontaminate"]), scratch
    )
    judges: dict[str, Callable[[str], object]] = {}
    for arm, settings in CLEANING.items():
        scored = forbidden if "decontaminate" in settings else None
        judges[arm] = partial(judge, cleaning=build(CleaningConfig, settings), forbidden=scored)
    judges["cleaning"] = partial(
        clean, config=PARAMS.corpora["local_wiki_books"].cleaning, counts=Counter()
    )
    texts = [[json.loads(line)["text"] for line in path.open(encoding="utf-8")] for path in slices]
    for arm in judges:  # loads what it needs
        judges[arm](texts[0][0])

    def rate(arm: str) -> float:
        every = next(left[arm])
        started = time.process_time()
        for text in every:
            judges[arm](text)
        return sum(len(text.encode()) for text in every) / 1e6 / (time.process_time() - started)

    left = {arm: iter(texts) for arm in judges}
    rates = in_turns({arm: partial(rate, arm) for arm in judges}, len(texts))
    return {
        "megabytes_per_cpu_second": {arm: spread(values, 3) for arm, values in rates.items()},
        "times_cleaning": {
            arm: ratios(rates["cleaning"], rates[arm]) for arm in rates if arm != "cleaning"
        },
    }


def main() -> None:
    parse = arguments(__doc__, "corpus.json")
    parse.add_argument("--rounds", type=int, default=4)
    parse.add_argument("--megabytes", type=float, default=12)
    for hidden, kind in (("--arm", str), ("--slice", Path), ("--folder", Path)):
        parse.add_argument(hidden, type=kind, help=argparse.SUPPRESS)
    options = parse.parse_args()
    if options.arm:
        tokens, _ = timed(options.arm, options.slice, options.folder)
        print(json.dumps({"peak_megabytes": memory_mb("VmHWM"), "tokens": tokens}))
        return
    origin = provenance("datasets", "transformers", "pyarrow")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        cleaning = prepare(folder, options.rounds, options.megabytes)
        wordpiece.save(
            wordpiece.load(Path(CONFIG.tokenizer.file), lowercase=True), folder / "tokenizer"
        )
        (folder / "published").mkdir()
        shutil.copy(CONFIG.tokenizer.file, folder / "published" / "vocab.txt")
        slices = [folder / f"slice-{number}.jsonl" for number in range(options.rounds)]
        left = {arm: iter(slices) for arm in ("ours", "peer")}
        turns = in_turns(
            {arm: partial(lambda a: timed(a, next(left[a]), folder), arm) for arm in left},
            len(slices),
        )
        assert [tokens for tokens, _ in turns["ours"]] == [tokens for tokens, _ in turns["peer"]]
        rates = {
            arm: [tokens / seconds for tokens, seconds in found] for arm, found in turns.items()
        }
        words = ("--slice", str(slices[0]), "--folder", str(folder))
        filters, delivered = filtering(slices, folder), formats(slices, folder)
        memory = {arm: run_process(__file__, ["--arm", arm, *words]) for arm in ARMS}
        read = {
            f"{batch} x {length}": reading(folder, batch, length, 600)
            for batch, length in ((128, 128), (256, 512))
        }
    peaks = {arm: found["peak_megabytes"] for arm, found in memory.items()}
    result = {
        "what": "clean documents (JSON lines) to rows of 128 on disk, one thread, tokens per second of CPU time",
        "tokens_per_cpu_second": {arm: spread(values, 6) for arm, values in rates.items()},
        "ratio": ratios(rates["ours"], rates["peer"]),
        "rounds": {arm: [round(value) for value in values] for arm, values in rates.items()},
        "peak_memory": memory,
        "memory_ratio": {arm: round(peaks["ours"] / peaks[arm], 3) for arm in ARMS[1:]},
        "reading_and_cleaning_before": cleaning,
        "filters": filters,
        "formats_megabytes_per_cpu_second": delivered,
        "reading_rows": {"tokens_per_cpu_second": read},
    }
    write_record(options.output, result, origin)
    print(
        json.dumps(
            {key: result[key] for key in ("ratio", "peak_memory", "reading_rows", "filters")},
            indent=2,
        )
    )


if __name__ == "__main__":
    main()
