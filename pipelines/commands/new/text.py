"""Corpus, rows and model for files of text."""

import dataclasses
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from electra.data.text import Rejected
from pipelines.commands.new.columns import records
from pipelines.sources import LocalCorpus, local, preview
from pipelines.sources.streams import COMPRESSIONS

BYTES_PER_TOKEN = 4.5  # of English text
PASSES = 40  # over the text: masks are drawn anew each time
BATCH = LENGTH = 128


def entries(name: str, files: Sequence[str], encoder: str) -> dict[str, Any]:
    """The entries of params.yaml, inferred from the files."""
    paths = local.find_files(tuple(files), "--text")
    size = sum(path.stat().st_size * (4 if path.suffix in COMPRESSIONS else 1) for path in paths)
    steps = PASSES * size / BYTES_PER_TOKEN / (BATCH * LENGTH)
    steps = int(min(1_000_000, max(2_000, round(steps, -3))))
    source, markup = _source(files, paths)
    pretrain = {"length": LENGTH, "batch": BATCH, "steps": steps, "warmup": steps // 20, "learning_rate": 5.0e-4}
    pieces, held_out = 2_048 if size < 2e7 else 8_192 if size < 1e9 else 30_522, 0.01 if size > 2e7 else 0.05
    return {
        "corpora": {"sources": {"text": source}, **({"cleaning": {"markup": True}} if markup else {})},
        "tokenizers": {"kind": "train", "vocab_size": pieces},
        "tokens": {"corpus": name, "tokenizer": name, "lengths": [LENGTH], "valid_fraction": held_out},
        "models": {"tokens": name, "encoder": encoder, "pretrain": pretrain},
    }


def _source(files: Sequence[str], paths: list[Path]) -> tuple[dict[str, Any], bool]:
    """The source with the settings that its files need, and whether they hold HTML."""
    found: dict[str, Any] = {"kind": "local", "files": list(files)}
    if local.guess_format(paths[0]) in {"jsonl", "parquet"}:
        rows = [row for _, row in islice(records(paths[0]), 100) if not isinstance(row, Rejected)]
        keys = dict.fromkeys(key for row in rows for key in row)
        sizes = {key: sum(len(row[key]) for row in rows if isinstance(row.get(key), str)) for key in keys}
        longest = max(sizes, key=sizes.__getitem__, default="text")
        found |= {} if "text" in sizes else {"text": longest}
    source = dataclasses.replace(LocalCorpus(kind="local", files=tuple(files)), text=found.get("text", "text"))
    hints = " ".join(preview.hints(source, paths, markup=False))
    for documents in ("headings", "blank_lines", "lines"):
        if f"documents: {documents}`" in hints:
            found["documents"] = documents
    if "hard_wrapped: true" in hints:
        found["hard_wrapped"] = True
    return found, "markup: true" in hints
