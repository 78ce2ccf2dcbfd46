"""One run of fine-tuning: an arm of a task with a seed, all that its result depends on, and the
work itself.

`train_and_evaluate` reads rows, trains, predicts and scores; it is a function of the job alone.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from electra.config import digest
from electra.finetuning import reading
from electra.finetuning.batches import Examples
from electra.finetuning.heads import Network, shrink_word_table
from electra.finetuning.reading import kind_of
from electra.finetuning.squad.answers import Candidates, mean
from electra.finetuning.squad.kind import QuestionAnswering
from electra.finetuning.squad.windows import EncodedQuestions
from electra.finetuning.task_kind import Encoded, SplitResult
from electra.finetuning.tasks import FinetuneConfig, SquadConfig, SquadTask, Task
from electra.finetuning.training import count_steps, read_outputs, train
from electra.nn.config import EncoderConfig
from electra.nn.encoder import Encoder
from electra.nn.factory import add_new_layers, fresh_encoder
from electra.nn.huggingface import load_encoder, open_folder
from electra.seeds import derive
from electra.storage.fingerprint import Code
from electra.storage.tensors import read_tensors

MODEL = "model"
CANDIDATES = "dev-candidates.safetensors"
Record = dict[str, Any]
# settings that have no bearing on the numbers of a single run
ABOVE_RUNS = ("arms", "seeds", "keep_models", "ensemble", "scratch", "predict_test")
NOT_FINITE = "the loss or the outputs stopped being finite"


@dataclass(frozen=True, kw_only=True)
class Job:
    """One fine-tuning to compute, and its folder."""

    task: Task
    arm: str
    seed: int
    config: FinetuneConfig  # of this arm
    rows: Path  # folder of the task's splits
    splits: dict[str, str]  # sha256 of each, when planned: "train", those scored, others
    # Hugging Face folder: weights, config.json, tokenizer; the scratch arm takes all but the
    # weights
    model: Path
    files: dict[str, str]  # sha256 of each of its files, when planned
    encoder: EncoderConfig
    vocab_size: int
    runs: Path
    cost: float  # estimate for the order of jobs, in bytes of training rows read
    code: Code
    device: str
    # whose fine-tuned encoder to start from instead of `model`'s weights
    start: "Job | None"
    keep: bool  # also write the fine-tuned model
    candidates: bool  # also write the candidates for an ensemble of seeds

    @cached_property
    def fingerprint(self) -> str:
        """A hash of all inputs of its result, except code and torch (`made_by`)."""
        weights = self.files.get("model.safetensors") if self.arm == "pretrained" else None
        start = self.start.fingerprint if self.start else None
        run = (self.task, self.arm, self.seed, self.config, self.keep, self.candidates, self.device)
        model = (weights, start, self.tokenizer, self.encoder, self.vocab_size)
        return digest(*run, *model, self.splits)

    @property
    def made_by(self) -> str:
        """A hash of the code and torch's version. A job finished by another one is run again."""
        return digest(self.code, torch.__version__)

    @property
    def tokenizer(self) -> str:
        """The sha256 of the tokenizer's file."""
        return self.files.get("tokenizer.json", "")

    @property
    def data(self) -> str:
        """A hash of the rows."""
        return digest(self.splits)

    @property
    def name(self) -> str:
        """`cola-pretrained-seed1`."""
        return f"{self.task.name}-{self.arm}-seed{self.seed}"

    @property
    def folder(self) -> Path:
        """The folder of its results, named by its settings and data alone."""
        return self.runs / self.fingerprint[:8]


def train_and_evaluate(job: Job) -> tuple[Record, dict[str, Any], Network]:
    """Train on the job's rows, then predict its splits. Those with labels are scored, the first of
    them counts. Return the scores, the content of files by name (rows, one JSON value or tensors),
    and the network.
    """
    task = job.task
    config = job.config
    kind = kind_of(task)
    source = _read(job, "train")
    scored = task.evaluation
    held_out = {
        split: _read(job, split, labelled=split in scored)
        for split in job.splits
        if split != "train"
    }
    # as many as are scored: whether it has learned them at all
    few = source.rows[: len(held_out[scored[0]].rows)]
    tokenizer = reading.tokenizer(job.model, job.tokenizer)
    train_sample = kind.encode(few, tokenizer, config.layout(train=False))
    splits = [source.examples, *(encoded.examples for encoded in held_out.values())]
    encoder = build_encoder(job)
    narrowed, widen = shrink_word_table(encoder, [*splits, train_sample.examples])
    examples, *examples_held_out, examples_of_sample = narrowed
    stream = f"finetune/{task.name}"
    torch.manual_seed(derive(job.seed, f"{stream}/head"))
    network = kind.network(encoder, config).to(job.device)
    training = train(network, examples, config, seed=job.seed, stream=stream, device=job.device)

    def judge(encoded: Encoded, examples: Examples, *, labelled: bool) -> SplitResult:
        outputs = read_outputs(network, examples, job.device, precision=config.precision)
        return kind.score_split(outputs, encoded, config, labelled=labelled)

    record: Record = {
        "metrics": {},
        "failed": None,
        "train_rows": len(source.rows),  # examples are these in both orders, or their windows
        "train_examples": len(examples),
        "dev_rows": len(held_out[scored[0]].rows),
        "steps": count_steps(len(examples), config),
        "loss": [list(point) for point in training.curve],
        **share_beyond_pretraining(job, splits),
    }
    files: dict[str, Any] = {}
    for (split, encoded), split_examples in zip(held_out.items(), examples_held_out, strict=True):
        labelled = split in scored or all(row.get(kind.label) is not None for row in encoded.rows)
        result = judge(encoded, split_examples, labelled=labelled)
        contents = result.files | (result.ensemble if job.candidates else {})
        files |= {f"{split}{suffix}": content for suffix, content in contents.items()}
        # "", "_mismatched" or "_test"
        suffix = split.removeprefix(scored[0]) if split in scored else f"_{split}"
        record["metrics"] |= {f"{name}{suffix}": value for name, value in result.scores.items()}
        if split == scored[0]:
            finite = training.finite and result.finite
            record["failed"] = result.fault if finite else NOT_FINITE
    if kind.scores_training:
        record["train_metrics"] = judge(train_sample, examples_of_sample, labelled=True).scores
    widen()
    return record, files, network


def answer_together(jobs: Sequence[Job]) -> tuple[dict[str, float], dict[str, Any]]:
    """Return the figures and files of several finished SQuAD jobs as an ensemble: answers for the
    dev split by their mean probabilities.
    """
    task = jobs[0].task
    config = jobs[0].config
    dev = _read(jobs[0], "dev")
    assert isinstance(task, SquadTask) and isinstance(config, SquadConfig)
    assert isinstance(dev, EncodedQuestions)
    runs = []
    for job in jobs:
        tensors = read_tensors(job.folder / CANDIDATES, "run the stage again")
        runs.append(Candidates.from_tensors(tensors))
    result = QuestionAnswering(task).score_candidates(mean(runs, config), dev, config)
    return result.scores, {f"dev{suffix}": content for suffix, content in result.files.items()}


def share_beyond_pretraining(job: Job, splits: Sequence[Examples]) -> Record:
    """Return the share of rows that reach positions unused in pre-training, if any do:
    `{beyond_pretraining: ...}`.

    Those positions keep their random initial vectors. The scratch arm starts from random vectors
    anyway, so nothing is reported for it.
    """
    positions = open_folder(job.model).trained_positions
    lengths = np.concatenate([split.length_N for split in splits])
    share = float((lengths > positions).mean())
    if job.arm != "pretrained" or share == 0:
        return {}
    return {"beyond_pretraining": {"positions": positions, "share": round(share, 4)}}


def build_encoder(job: Job) -> Encoder:
    """Return the encoder that a job starts from, with its new layers."""
    dropout = job.config.dropout
    if job.start is not None:
        return load_encoder(job.start.folder / MODEL, dropout=dropout)
    stream = f"finetune/{job.task.name}"
    if job.arm == "pretrained":
        encoder = load_encoder(job.model, dropout=dropout)
    else:
        config = dataclasses.replace(job.encoder, dropout=dropout, attention_dropout=dropout)
        encoder = fresh_encoder(config, job.vocab_size, derive(job.seed, f"{stream}/scratch"))
    add_new_layers(encoder, job.config.new_layers, derive(job.seed, f"{stream}/fresh layers"))
    return encoder


def _read(job: Job, split: str, *, labelled: bool = True) -> Encoded:
    tokenizer = reading.tokenizer(job.model, job.tokenizer)
    layout = job.config.layout(train=split == "train")
    path = job.rows / f"{split}.jsonl"
    return reading.read(path, job.data, tokenizer, job.task, layout, labelled)
