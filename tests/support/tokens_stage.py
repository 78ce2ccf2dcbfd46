"""The tokens stage on a made-up corpus."""

import shutil

import numpy as np

from electra.config import build
from electra.data.packing import TokensConfig
from electra.files import write_jsonl
from electra.storage.manifest import write_manifest
from pipelines.stages.tokens import make_rows
from tests.support.small_project import run_apart

WORDS = [f"{a}{b}{c}" for a in "bdfgklmnprst" for b in "aeiou" for c in "klmnrst"]


def write_corpus(folder, shards=4, documents=30, weights=None):
    folder.mkdir(parents=True)
    numbers = np.random.default_rng(0)
    sources = len(weights or [None])
    facts = []
    for shard in range(shards):
        rows = []
        for i in range(documents):
            lengths = [numbers.integers(1, 30) for _ in range(numbers.integers(1, 8))]
            lines = [" ".join(numbers.choice(WORDS, length)) + "." for length in lengths]
            rows.append({"id": f"{shard}-{i}", "text": "\n".join(lines)})
        name = f"documents-{shard:05d}.jsonl"
        write_jsonl(folder / name, rows)
        facts.append({"file": name, "source": min(shard, sources - 1), "documents": documents})
    write_manifest(folder, kind="corpus", name="x", shards=facts, weights=weights or [None])
    return folder


def config(**settings):
    base = {"corpus": "x", "tokenizer": {"kind": "train", "vocab_size": 150}, "lengths": [32, 64]}
    return build(TokensConfig, {**base, "valid_fraction": 0.1, **settings}, "tokens.x")


def run(tmp_path, corpus, name="out", form="NFC", **settings):
    def make():
        shutil.copytree(corpus, "build/corpus/x", dirs_exist_ok=True)
        return make_rows(config(**settings), "x", form)

    return run_apart(tmp_path, name, "build/tokens/x", make)
