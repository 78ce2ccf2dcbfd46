"""Splits of a task, read, checked and tokenised once a process: the jobs of one task follow each other.

What is remembered goes by content, not by name: a changed file is read again.
"""

import functools
from dataclasses import dataclass
from pathlib import Path

from electra.data import tokenizer as tokenizers
from electra.data.tokenizer import Tokenizer
from electra.finetuning import examples
from electra.finetuning.batches import Examples
from electra.finetuning.examples import Row
from electra.finetuning.squad import windows
from electra.finetuning.tasks import Task


@dataclass(frozen=True, kw_only=True)
class Split:
    """Which rows, through which tokenizer, to what length."""

    path: Path
    data: str  # digest of the task's rows
    model: Path
    tokenizer: str  # sha256 of the tokenizer's file
    length: int
    most: int | None = None  # rows drawn from it; null: all


@functools.lru_cache(maxsize=6)
def rows(split: Split, task: Task, turned: bool = False, labelled: bool = True) -> tuple[list[Row], Examples]:
    """Rows of a split and their arrays; `turned` adds every pair in the other order to the arrays alone."""
    found = examples.subset(examples.read_rows(split.path, task, labelled=labelled), split.most, seed=0)
    seen = examples.both_orders(found) if turned else found
    return found, examples.encode(seen, task, tokenizer(split.model, split.tokenizer), split.length)


@functools.lru_cache(maxsize=2)
def questions(split: Split, stride: int, question_length: int) -> windows.Reading:
    """Questions of a SQuAD split and their windows."""
    found = examples.subset(windows.read_rows(split.path), split.most, seed=0)
    through = tokenizer(split.model, split.tokenizer)
    return windows.encode(found, through, length=split.length, stride=stride, question_length=question_length)


@functools.lru_cache(maxsize=4)
def tokenizer(folder: Path, sha256: str) -> Tokenizer:
    """The tokenizer in a model's folder; its hash is what tells a new one from the remembered."""
    return tokenizers.load(folder)
