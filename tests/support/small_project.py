"""A project with a random encoder and made-up rows of four tasks."""

import contextlib
import random
from pathlib import Path

from electra.files import write_jsonl
from electra.finetuning.tasks import GLUE
from electra.storage.manifest import write_manifest
from tests.support.models import write_base

WORDS = ["red", "blue", "green", "cat", "dog", "bird", "runs", "sleeps"]
PARAMS = """
run: {models: [small], ablations: []}
tracking: none
published: {}
ablations: {}
corpora: {c: {sources: [{kind: sample}]}}
tokenizers: {w: {kind: train, vocab_size: 800}}
tokens: {t: {corpus: c, tokenizer: w, lengths: [16]}}
tasks: {made_up: {kind: sample}, own: {kind: local, glue: here}}
encoders:
  small: {layers: 1, hidden: 16, heads: 2, ffn: 32, embedding: 16, positions: 16}
recipes:
  paper:
    defaults: {seeds: [1, 2], epochs: 1, learning_rate: 1.0e-3, length: 16, scratch: {layer_decay: 1.0}}
    tasks: {mrpc: {both_orders: true}}
    squad: {stride: 4, question_length: 4}
  few: {run: [cola, mnli, mrpc, stsb], tasks: {cola: {arms: [pretrained]}}}
models:
  small: &model
    tokens: t
    encoder: small
    pretrain: {length: 16, batch: 8, steps: 10, warmup: 1, learning_rate: 1.0e-3, threads: 1}
finetunings:
  small: {model: small, tasks: made_up, recipe: few, arms: [pretrained, scratch]}
"""
ROWS = Path("build/tasks/made_up")


def change(*pairs):
    """Replace texts in params.yaml."""
    text = Path("params.yaml").read_text()
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    Path("params.yaml").write_text(text)


def run_apart(tmp_path, name, output, run):
    """Return what a function returns that runs in a folder of its own. `tmp_path / name` is a link
    to its output.
    """
    place = tmp_path / f"work-{name}"
    place.mkdir(exist_ok=True)
    (tmp_path / name).unlink(missing_ok=True)
    (tmp_path / name).symlink_to(place / output)
    with contextlib.chdir(place):
        return run()


def write_small(folder):
    """Write the project in a folder, the working one."""
    Path("params.yaml").write_text(PARAMS)
    write_base(folder, WORDS, 16, "build/models/small/encoder", model="small", part="encoder")
    draw = random.Random(1)
    for name in ("cola", "mnli", "mrpc", "stsb"):
        labels = GLUE[name].labels or (0.5, 2.0, 4.5)
        for split in ("train", *GLUE[name].evaluation):
            rows = []
            for number in range(20):
                a = " ".join(draw.choices(WORDS, k=4))
                b = None if name == "cola" else " ".join(draw.choices(WORDS, k=5))
                label = labels[number % len(labels)]
                rows.append({"id": str(number), "a": a, "b": b, "label": label})
            write_jsonl(ROWS / name / f"{split}.jsonl", rows)
    write_manifest(ROWS, kind="tasks", name="made_up")
