"""The work of one job: read rows, train, predict, score. A function of the job alone."""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from electra.finetuning import reading
from electra.finetuning.batches import Examples
from electra.finetuning.heads import Network, narrow
from electra.finetuning.reading import Split, kind_of
from electra.finetuning.runs.job import Job, splits_of
from electra.finetuning.squad.answers import Candidates, mean
from electra.finetuning.squad.kind import judge as judge_squad
from electra.finetuning.squad.windows import Reading
from electra.finetuning.task_kind import Encoded, SplitResult
from electra.finetuning.tasks import FinetuneConfig, SquadConfig
from electra.finetuning.training import Training, count_steps, read_outputs, train
from electra.nn.encoder import Encoder
from electra.nn.factory import add_fresh_layers, fresh_encoder
from electra.nn.huggingface import load_encoder, read_config, trained_positions
from electra.seeds import derive
from electra.storage.tensors import read_tensors

CANDIDATES = "dev-candidates.safetensors"
Record = dict[str, Any]
NOT_FINITE = "the loss or the outputs stopped being finite"


@dataclass(frozen=True)
class Solved:
    """What a job leaves: figures, content of files by name (rows, one JSON value or tensors), the network."""

    record: Record
    files: dict[str, Any]
    network: Network
    widen: Callable[[], None]  # gives the network its whole table of word vectors back


def solve(job: Job) -> Solved:
    """Train on the job's rows, then predict its splits; those with labels are scored, the first of them counts."""
    task, config, kind = job.task, job.config, kind_of(job.task)
    source = _read(job, "train")
    scored, unlabelled = splits_of(task, config)
    there = [split for split in (*scored, *unlabelled) if (job.rows / f"{split}.jsonl").is_file()]
    held_out = {split: _read(job, split, labelled=split in scored) for split in there}
    encoder, splits = _encoder(job), [source.examples, *(encoded.examples for encoded in held_out.values())]
    beyond = beyond_pretraining(job, *splits)
    (ready, *narrowed), widen = narrow(encoder, splits)
    stream = f"finetune/{task.name}"
    torch.manual_seed(derive(job.seed, f"{stream}/head"))
    network = kind.network(encoder, task, config).to(job.device)
    training = train(network, ready, config, seed=job.seed, stream=stream, device=job.device)

    def judge(encoded: Encoded, *, labelled: bool) -> SplitResult:
        outputs = read_outputs(network, encoded.examples, job.device, precision=config.precision)
        return kind.judge(outputs, encoded, task, config, labelled=labelled)

    record = _record(training, len(source.rows), len(ready), config) | beyond
    files: dict[str, Any] = {}
    for (split, wide), examples in zip(held_out.items(), narrowed, strict=True):
        labelled = split in scored or all(row.get(kind.label) is not None for row in wide.rows)
        judged = judge(dataclasses.replace(wide, examples=examples), labelled=labelled)
        left = judged.files | (judged.ensemble if job.candidates else {})
        files |= {f"{split}{suffix}": content for suffix, content in left.items()}
        suffix = split.removeprefix(scored[0]) if split in scored else f"_{split}"  # "", "_mismatched" or "_test"
        record["metrics"] |= {f"{name}{suffix}": value for name, value in judged.scores.items()}
        if split == scored[0]:
            record["dev_rows"] = len(wide.rows)
            record["failed"] = judged.fault if training.finite and judged.finite else NOT_FINITE
            if kind.scores_training:  # as many rows as are scored: whether it has learned them at all
                seen = dataclasses.replace(source, examples=ready).first(len(wide.rows))
                record["train_metrics"] = judge(seen, labelled=True).scores
    return Solved(record, files, network, widen)


def answer_together(jobs: Sequence[Job]) -> tuple[dict[str, float], dict[str, Any]]:
    """Figures and files of finished SQuAD jobs answering as one: the dev split by the mean of their probabilities."""
    config, dev = jobs[0].config, _read(jobs[0], "dev")
    assert isinstance(config, SquadConfig) and isinstance(dev, Reading)
    runs = [Candidates.of_tensors(read_tensors(job.folder / CANDIDATES, "run the stage again")) for job in jobs]
    judged = judge_squad(mean(runs, config), dev, jobs[0].task, config)
    return judged.scores, {f"dev{suffix}": content for suffix, content in judged.files.items()}


def _record(training: Training, rows: int, examples: int, config: FinetuneConfig) -> Record:
    return {
        "metrics": {},
        "failed": None,
        "train_rows": rows,  # of the source; examples are these in both orders, or their windows
        "train_examples": examples,
        "dev_rows": 0,
        "steps": count_steps(examples, config),
        "loss": [list(point) for point in training.curve],
    }


def beyond_pretraining(job: Job, *splits: Examples) -> Record:
    """The share of rows that reach positions unused in pre-training, if any do: `{beyond_pretraining: ...}`.

    Their vectors are as they were drawn. The scratch arm has drawn all of its own, so nothing is said of it.
    """
    seen, lengths = trained_positions(job.model), np.concatenate([split.length_N for split in splits])
    share = float((lengths > seen).mean())
    tells = job.arm == "pretrained" and share > 0
    return {"beyond_pretraining": {"positions": seen, "share": round(share, 4)}} if tells else {}


def _encoder(job: Job) -> Encoder:
    if job.start is not None:
        return load_encoder(job.weights, dropout=job.config.dropout)
    if job.arm == "pretrained":
        encoder = load_encoder(job.model, dropout=job.config.dropout)
    else:
        config, vocab_size = read_config(job.model)
        config = dataclasses.replace(config, dropout=job.config.dropout, attention_dropout=job.config.dropout)
        encoder = fresh_encoder(config, vocab_size, derive(job.seed, f"finetune/{job.task.name}/scratch"))
    add_fresh_layers(encoder, job.config.fresh_layers, derive(job.seed, f"finetune/{job.task.name}/fresh layers"))
    return encoder


def _read(job: Job, split: str, *, labelled: bool = True) -> Encoded:
    return reading.read(
        Split(
            path=job.rows / f"{split}.jsonl",
            data=job.data,
            model=job.model,
            tokenizer=job.tokenizer,
            task=job.task,
            layout=job.config.layout(train=split == "train"),
            labelled=labelled,
        )
    )
