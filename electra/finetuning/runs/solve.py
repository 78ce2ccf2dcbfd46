"""The work of one job: read rows, train, predict, score. A function of the job alone.

Three kinds of task take the same road: classes or numbers for texts, tags for words, answers to questions.
"""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from electra.finetuning import predictions, reading, spans, tagging
from electra.finetuning.batches import Examples
from electra.finetuning.heads import Classifier, Network, narrow
from electra.finetuning.reading import Split
from electra.finetuning.runs.job import Job, splits_of
from electra.finetuning.squad import answers, metrics, windows
from electra.finetuning.squad.head import SpanFinder
from electra.finetuning.stacked import train_together
from electra.finetuning.tagging import Tagger
from electra.finetuning.tasks import FinetuneConfig, SquadConfig
from electra.finetuning.trainer import Training, count_steps, read_outputs, train
from electra.nn.encoder import Encoder
from electra.nn.fresh import add_fresh_layers, fresh_encoder
from electra.nn.weights import load_encoder, read_config, trained_positions
from electra.seeds import derive
from electra.storage.tensors import read_tensors

CANDIDATES = "dev-candidates.safetensors"
Record = dict[str, Any]
Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Solved:
    """What a job leaves: figures, content of files by name (rows, one JSON value or tensors), the network."""

    record: Record
    files: dict[str, Any]
    network: Network
    widen: Callable[[], None]  # gives the network its whole table of word vectors back


@dataclass(frozen=True)
class Ready:
    """A job that stands before its training, and what follows it."""

    network: Network
    examples: Examples
    finish: Callable[[Training], Solved]


def solve(job: Job) -> Solved:
    """Train on the job's rows, then predict its splits; those with labels are scored, the first of them counts."""
    if job.device.startswith("cuda"):
        return solve_together([job])[0]  # where steps are recorded
    ready = _prepare(job)
    stream = f"finetune/{job.task}"
    return ready.finish(
        train(ready.network, ready.examples, job.config, seed=job.seed, stream=stream, device=job.device)
    )


def solve_together(jobs: Sequence[Job]) -> list[Solved]:
    """The same for all seeds of one arm, trained in one stack of weights."""
    first = jobs[0]
    ready = [_prepare(job) for job in jobs]
    trainings = train_together(
        [one.network for one in ready],
        ready[0].examples,
        first.config,
        seeds=[job.seed for job in jobs],
        stream=f"finetune/{first.task}",
        device=first.device,
    )
    return [one.finish(training) for one, training in zip(ready, trainings, strict=True)]


def _prepare(job: Job) -> Ready:
    """The network with its head, as the seed draws it, and the rows; torch's global generator stands after the head."""
    if job.facts is None:
        return _answer(job)
    task, config = job.facts, job.config
    train_rows, ready = reading.rows(_split(job, "train"), task, config.both_orders)
    scored, unlabelled = splits_of(task, config)
    there = [split for split in (*scored, *unlabelled) if (job.rows / f"{split}.jsonl").is_file()]
    held_out = {split: reading.rows(_split(job, split), task, labelled=split in scored) for split in there}
    encoder = _encoder(job)
    beyond = beyond_pretraining(job, ready, *(examples for _, examples in held_out.values()))
    (ready, *narrowed), widen = narrow(encoder, [ready, *(examples for _, examples in held_out.values())])
    torch.manual_seed(derive(job.seed, f"finetune/{job.task}/head"))
    model: Network
    if task.tagging:
        model = Tagger(encoder, len(task.classes), config.length).to(job.device)
    else:
        model = Classifier(encoder, len(task.labels), config.head_dropout, config.pooling).to(job.device)

    def finish(training: Training) -> Solved:
        record = _record(training, len(train_rows), len(ready), config) | beyond
        files: dict[str, Any] = {}
        for (split, (rows, _)), examples in zip(held_out.items(), narrowed, strict=True):
            labelled = split in scored or all(row.get("tags" if task.tagging else "label") is not None for row in rows)
            lines, scores, fault = _judge(job, model, rows, examples, training.finite, labelled=labelled)
            files[f"{split}.jsonl"] = lines
            suffix = split.removeprefix(scored[0]) if split in scored else f"_{split}"  # "", "_mismatched" or "_test"
            record["metrics"] |= {f"{name}{suffix}": value for name, value in scores.items()}
            if split == scored[0]:
                record["dev_rows"], record["failed"] = len(rows), fault
                if not task.tagging:  # as many rows as are scored: whether it has learned them at all
                    seen = train_rows[: len(rows)]
                    outputs = read_outputs(model, ready, job.device, precision=config.precision, most=len(seen))
                    record["train_metrics"] = predictions.scores(task, seen, outputs["logits"])
        return Solved(record, files, model, widen)

    return Ready(model, ready, finish)


def _judge(
    job: Job, model: Network, rows: Rows, examples: Examples, trained: bool, *, labelled: bool
) -> tuple[Rows, dict[str, float], str | None]:
    """Predictions of a split; its scores and what is wrong with them, if it has labels."""
    assert job.facts is not None
    task, outputs = job.facts, read_outputs(model, examples, job.device, precision=job.config.precision)
    if not task.tagging:
        logits_NC = outputs["logits"]
        lines = predictions.lines(task, rows, logits_NC)
        if not labelled:
            return lines, {}, None
        return lines, predictions.scores(task, rows, logits_NC), predictions.fault(task, rows, logits_NC, trained)
    tags = tagging.tags_of(task, rows, examples, outputs["tags"])
    lines = tagging.lines(rows, tags)
    if not labelled:
        return lines, {}, None
    scores = spans.tag_scores(tags, [row["tags"] for row in rows])
    return lines, scores, tagging.fault(rows, tags, trained and bool(outputs["finite"].all()))


def _answer(job: Job) -> Ready:
    """SQuAD: train, then answer and score the dev split."""
    config = job.config
    assert isinstance(config, SquadConfig)
    source, dev = _questions(job, "train"), _questions(job, "dev")
    encoder = _encoder(job)
    beyond = beyond_pretraining(job, source.examples, dev.examples)
    (ready, dev_examples), widen = narrow(encoder, [source.examples, dev.examples])
    torch.manual_seed(derive(job.seed, f"finetune/{job.task}/head"))
    model = SpanFinder(encoder, config).to(job.device)

    def finish(training: Training) -> Solved:
        record = _record(training, len(source.rows), len(ready), config) | beyond
        candidates, finite = _candidates(job, model, dev, dev_examples)
        record["metrics"], files = _score_answers(job, dev, candidates)
        seen = source.first(len(dev.rows))  # as many as are scored: whether it has learned them at all
        learned, _ = _candidates(job, model, seen, ready.first(len(seen.windows)))
        record["train_metrics"], _ = _score_answers(job, seen, learned)
        record["dev_rows"], given = len(dev.rows), files["dev.json"]
        if not (training.finite and finite):
            record["failed"] = "the loss or the outputs stopped being finite"
        elif len(given) > 1 and len(set(given.values())) == 1:
            record["failed"] = f"{next(iter(given.values()))!r} was the answer to every question"
        if job.candidates:
            files[CANDIDATES] = candidates.tensors()
        return Solved(record, files, model, widen)

    return Ready(model, ready, finish)


def _candidates(
    job: Job, model: SpanFinder, questions: windows.Reading, examples: Examples
) -> tuple[answers.Candidates, bool]:
    """What may be answers, and whether every output was finite."""
    assert isinstance(job.config, SquadConfig)
    outputs = read_outputs(model, examples, job.device, precision=job.config.precision)
    finite = all(np.isfinite(outputs[name]).all() for name in ("null", "start"))
    outputs = {key: predictions.finite(value) for key, value in outputs.items()}
    return answers.candidates(questions, outputs, job.config), finite


def answer_together(jobs: Sequence[Job]) -> tuple[dict[str, float], dict[str, Any]]:
    """Figures and files of finished SQuAD jobs answering as one: the dev split by the mean of their probabilities."""
    config = jobs[0].config
    assert isinstance(config, SquadConfig)
    runs = [answers.Candidates.of_tensors(read_tensors(job.folder / CANDIDATES, "run the stage again")) for job in jobs]
    return _score_answers(jobs[0], _questions(jobs[0], "dev"), answers.mean(runs, config))


def _score_answers(
    job: Job, dev: windows.Reading, candidates: answers.Candidates
) -> tuple[dict[str, float], dict[str, Any]]:
    """Every official figure, and the official files."""
    assert isinstance(job.config, SquadConfig)
    version: metrics.Version = "2.0" if job.task == "squad2" else "1.1"
    threshold = job.config.null_threshold
    chosen = answers.choose(dev, candidates, job.config)
    n_best = {key: [list(pair) for pair in best] for key, best in chosen.n_best.items()}
    files = {
        "dev.json": chosen.given(threshold if version == "2.0" else None),
        "dev-null-odds.json": chosen.null,
        "dev-nbest.json": n_best,
    }
    return metrics.evaluate(dev.rows, chosen.spans, chosen.null, version, threshold), files


def _questions(job: Job, split: str) -> windows.Reading:
    assert isinstance(job.config, SquadConfig)
    return reading.questions(_split(job, split), job.config.stride, job.config.question_length)


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
    """The share of rows that reach positions which pre-training has not used, if there are any: `{beyond_pretraining: ...}`.

    Their vectors are as they were drawn. The scratch arm has drawn all of its own, so nothing is said of it.
    """
    seen, lengths = trained_positions(job.model), np.concatenate([split.length_N for split in splits])
    share = float((lengths > seen).mean())
    tells = job.arm == "pretrained" and share > 0
    return {"beyond_pretraining": {"positions": seen, "share": round(share, 4)}} if tells else {}


def _encoder(job: Job) -> Encoder:
    if job.start is not None:
        return load_encoder(job.start, dropout=job.config.dropout)
    if job.arm == "pretrained":
        encoder = load_encoder(job.model, dropout=job.config.dropout)
    else:
        config, vocab_size = read_config(job.model)
        config = dataclasses.replace(config, dropout=job.config.dropout, attention_dropout=job.config.dropout)
        encoder = fresh_encoder(config, vocab_size, derive(job.seed, f"finetune/{job.task}/scratch"))
    add_fresh_layers(encoder, job.config.fresh_layers, derive(job.seed, f"finetune/{job.task}/fresh layers"))
    return encoder


def _split(job: Job, name: str) -> Split:
    most = job.config.max_train_rows if name == "train" else None
    path = job.rows / f"{name}.jsonl"
    return Split(
        path=path, data=job.data, model=job.model, tokenizer=job.tokenizer, length=job.config.length, most=most
    )
