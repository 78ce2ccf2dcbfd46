"""Text to training rows beside `datasets.map`, a transformers tokenizer and grouping, as their documentation suggests.

    python benchmarks/corpus.py --rounds 4 --megabytes 12

Reads real text (corpus `local_wiki_books`), cleans it once into slices of JSON lines, and turns every slice into rows
of 128 by both arms in turn, in one process on one thread; rates are tokens over process CPU time. `ours` is the work of
a tokens worker: verify, parse, split sentences, tokenize, pack by ELECTRA's rule, write. `peer` loads the JSON lines,
maps the tokenizer over batches and maps `group_texts`, cache files written as by default. Peaks of memory are measured
in a fresh process for each arm; `peer_lines` is the peer given one paragraph an example, where its batches are
smallest.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

os.environ |= {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"}
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

from benchmarks.provenance import provenance
from electra.data import tokenizer as wordpiece
from electra.data.order import row_indices
from electra.data.shards import SPLITS, Rows, RowWriter, seal
from electra.data.text import Document, clean
from electra.files import sha256_file, write_json
from pipelines.config.params import load
from pipelines.sources.local import find_files, read_documents
from pipelines.sources.streams import Piece
from pipelines.stages.tokens import Job, pack_shard

LENGTH = 128
TRAINER = 3.6e6  # tokens/s: the stretch goal for Small on one H200, above every figure published or measured so far
CONFIG = replace(load().tokens["local_wiki_books"], lengths=(LENGTH,))


def prepare(folder: Path, rounds: int, megabytes: float) -> dict[str, float]:
    """Write slices of clean documents, half of each source; return the rate of reading and cleaning."""
    corpus = load().corpora["local_wiki_books"]
    started, size = time.process_time(), 0
    readers = []
    for source in corpus.sources:
        files = find_files(source.files, "corpora")
        readers.append(item for path in files for item in read_documents(Piece(path), source))
    for number in range(rounds):
        with (folder / f"slice-{number}.jsonl").open("w", encoding="utf-8") as target:
            for reader in readers:
                taken = 0
                while taken < megabytes * 1e6 / len(readers) and isinstance(item := next(reader), Document):
                    text = clean(item.text, corpus.cleaning, Counter())
                    taken += len(text.encode())
                    target.write(json.dumps({"id": item.id, "text": text}, ensure_ascii=False) + "\n")
                size += taken
    return {"megabytes_per_second": round(size / 1e6 / (time.process_time() - started), 2)}


def ours(path: Path, folder: Path) -> int:
    """What a worker of the tokens stage does with one shard; returns the tokens of its text."""
    (folder / "rows").mkdir()
    return int(
        pack_shard(Job(path, sha256_file(path), 0, folder.parent / "tokenizer", CONFIG), folder / "rows")["tokens"]
    )


def peer(path: Path, folder: Path, *, lines: bool = False) -> int:
    """The same by `datasets` and transformers; returns the tokens of its text."""
    import datasets
    from transformers import BertTokenizer

    datasets.disable_progress_bars()
    tokenizer = BertTokenizer.from_pretrained(str(folder.parent / "published"), model_max_length=10**9)

    def tokenize(batch: dict[str, list[str]]) -> Any:
        return tokenizer(batch["text"], return_special_tokens_mask=True)

    def group(batch: dict[str, list[list[int]]]) -> dict[str, list[list[int]]]:
        joined = {key: [value for row in rows for value in row] for key, rows in batch.items()}
        total = len(joined["input_ids"]) // LENGTH * LENGTH
        return {key: [row[i : i + LENGTH] for i in range(0, total, LENGTH)] for key, row in joined.items()}

    if lines:
        text = folder / "lines.txt"
        text.write_text("\n".join(json.loads(line)["text"] for line in path.open(encoding="utf-8")), encoding="utf-8")
        rows = datasets.load_dataset("text", data_files=str(text), split="train", cache_dir=str(folder / "cache"))
    else:
        rows = datasets.load_dataset("json", data_files=str(path), split="train", cache_dir=str(folder / "cache"))
    mapped = rows.map(tokenize, batched=True, remove_columns=rows.column_names)
    grouped = mapped.map(group, batched=True)
    assert len(grouped)
    lengths = (len(ids) - 2 for batch in mapped.select_columns(["input_ids"]).iter(100) for ids in batch["input_ids"])
    return sum(lengths)


ARMS: dict[str, Callable[[Path, Path], int]] = {
    "ours": ours,
    "peer": peer,
    "peer_lines": lambda path, folder: peer(path, folder, lines=True),
}


def timed(arm: str, path: Path, folder: Path) -> tuple[int, float]:
    """(tokens, CPU seconds) of one arm on one slice; the peer's count of its tokens is left out."""
    here = folder / "work"
    shutil.rmtree(here, ignore_errors=True)
    here.mkdir()
    started = time.process_time()
    tokens = ARMS[arm](path, here)
    return tokens, time.process_time() - started


def same_ids(path: Path, folder: Path, most: int) -> int:
    """Compare documents' ids, ours line by line and the peer's of the whole text; returns the ids compared."""
    from transformers import BertTokenizer

    mine = wordpiece.load(folder / "tokenizer")
    theirs = BertTokenizer.from_pretrained(str(folder / "published"), model_max_length=10**9)
    compared = 0
    for line in path.open(encoding="utf-8"):
        text = json.loads(line)["text"]
        ids = np.frombuffer(b"".join(mine.encode_bytes(text.split("\n"))), mine.dtype)
        assert ids.tolist() == theirs(text, add_special_tokens=False)["input_ids"], text[:80]
        compared += len(ids)
        if compared > most:
            break
    return compared


def reading(folder: Path, batch: int, length: int, steps: int) -> float:
    """Tokens per CPU second of what a training step asks for: row numbers of the step, and a copy of those rows."""
    tokenizer = wordpiece.load(folder / "tokenizer")
    rows_folder = folder / f"read-{length}"
    rows_folder.mkdir(exist_ok=True)
    numbers = np.random.default_rng(0)
    count = 64_000_000 // length
    with RowWriter(rows_folder, "train", length, tokenizer) as writer:
        writer.write(
            numbers.integers(0, tokenizer.vocab_size, (count, length), dtype=np.uint16),
            np.full((count, 2), length, dtype=np.uint16),
        )
    with RowWriter(rows_folder, "valid", length, tokenizer):
        pass
    facts = {
        split: {"rows": count * (split == "train"), "tokens": count * length * (split == "train")} for split in SPLITS
    }
    seal(rows_folder, length, tokenizer, facts)
    rows = Rows.open(rows_folder, "train")
    started = time.process_time()
    for step in range(steps):
        indices = row_indices(1, step, batch, len(rows))
        ids, bounds = rows.ids[indices], rows.bounds[indices]
    assert ids.shape == (batch, length) and len(bounds) == batch
    return steps * batch * length / (time.process_time() - started)


def peak(arm: str, path: Path, folder: Path) -> dict[str, float]:
    """The peak resident memory of a fresh process that does one arm, and of its imports alone."""
    command = [sys.executable, __file__, "--arm", arm, "--slice", str(path), "--folder", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def spread(values: list[float]) -> dict[str, float]:
    return {"median": statistics.median(values), "least": min(values), "most": max(values)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--megabytes", type=float, default=12)
    parser.add_argument("--arm", help=argparse.SUPPRESS)
    parser.add_argument("--slice", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.arm:
        tokens, _ = timed(options.arm, options.slice, options.folder)
        status = Path("/proc/self/status").read_text()  # getrusage would tell the parent's peak, too
        memory = int(status.partition("VmHWM:")[2].split()[0]) / 1024
        print(json.dumps({"peak_megabytes": round(memory, 1), "tokens": tokens}))
        return
    origin = provenance(("datasets", "transformers", "pyarrow"))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        cleaning = prepare(folder, options.rounds, options.megabytes)
        made = wordpiece.from_vocab(Path(CONFIG.tokenizer.file), lowercase=True)
        wordpiece.save(made, folder / "tokenizer")
        (folder / "published").mkdir()
        shutil.copy(CONFIG.tokenizer.file, folder / "published" / "vocab.txt")
        slices = [folder / f"slice-{number}.jsonl" for number in range(options.rounds)]
        compared = same_ids(slices[0], folder, 300_000)
        rates: dict[str, list[float]] = {"ours": [], "peer": []}
        for path in slices:
            counts = set()
            for arm, values in rates.items():
                tokens, seconds = timed(arm, path, folder)
                counts.add(tokens)
                values.append(tokens / seconds)
                print(f"{path.stem} {arm}: {tokens:,} tokens, {tokens / seconds / 1e6:.2f} M/s", flush=True)
            assert len(counts) == 1, counts
        memory = {arm: peak(arm, slices[0], folder) for arm in ARMS}
        read = {
            f"{batch} x {length}": reading(folder, batch, length, 600) for batch, length in ((128, 128), (256, 512))
        }
    ratios = [a / b for a, b in zip(rates["ours"], rates["peer"], strict=True)]
    result = {
        "command": f"python benchmarks/corpus.py --rounds {options.rounds} --megabytes {options.megabytes:g}",
        "what": "clean documents (JSON lines) to rows of 128 on disk, one thread, tokens per second of CPU time",
        "tokens_per_cpu_second": {arm: spread(values) for arm, values in rates.items()},
        "ratio": spread(ratios),
        "rounds": {arm: [round(value) for value in values] for arm, values in rates.items()},
        "peak_memory": memory,
        "memory_ratio": {
            arm: round(memory["ours"]["peak_megabytes"] / memory[arm]["peak_megabytes"], 3)
            for arm in ("peer", "peer_lines")
        },
        "identical_ids_compared": compared,
        "reading_and_cleaning_before": cleaning,
        "reading_rows": {
            "tokens_per_cpu_second": {key: round(value) for key, value in read.items()},
            "trainer_tokens_per_second": TRAINER,
            "trainer": "stretch goal for Small on one H200, not a measurement",
            "times_the_trainer": {key: round(value / TRAINER, 1) for key, value in read.items()},
        },
        **origin,
    }
    write_json(Path("benchmarks/results/corpus.json"), result)
    print(
        json.dumps(
            {key: result[key] for key in ("tokens_per_cpu_second", "ratio", "peak_memory", "reading_rows")}, indent=2
        )
    )


if __name__ == "__main__":
    main()
