"""One job: fine-tune one arm on one task with one seed, and leave predictions and scores as a whole folder.

A job's result is a function of its inputs alone, and these make its fingerprint: settings, rows, tokenizer, weights,
source code, torch. A folder that already bears the fingerprint, and whose bytes are what its manifest says, is not
computed again; so an interrupted stage goes on where it was.
"""

import dataclasses
import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

import electra
from electra.config import code_digest, digest
from electra.errors import BadConfig, BadInput, CorruptFile
from electra.export import fresh_encoder, load_encoder, read_config
from electra.files import (
    atomic_folder,
    read_json,
    remove,
    sha256_file,
    verify_manifest,
    write_json,
    write_jsonl,
    write_manifest,
)
from electra.finetuning import predictions, reading, squad_answers, squad_metrics
from electra.finetuning.heads import Classifier, narrow
from electra.finetuning.loop import Training, count_steps, read_outputs, train
from electra.finetuning.reading import Split
from electra.finetuning.squad_head import SpanFinder
from electra.finetuning.tasks import GLUE, SQUAD, FinetuneConfig, SquadConfig
from electra.model.encoder import Encoder
from electra.seeds import derive

Record = dict[str, Any]
Files = dict[str, Any]  # content by name: rows of a .jsonl, or one JSON value

_SCORE = "score.json"
_CODE = (
    "finetuning",
    "model",
    "training/optimizer.py",
    "training/schedule.py",
    "data/tokenizer.py",
    "seeds.py",
    "export.py",
)


@dataclass(frozen=True, kw_only=True)
class Job:
    """What to compute and where to leave it."""

    task: str  # a name in GLUE, or squad1, squad2
    arm: str
    seed: int
    rows: Path  # folder of the task's splits
    model: Path  # Hugging Face folder: weights, config.json, tokenizer; the scratch arm takes all but the weights
    config: FinetuneConfig  # of this arm
    folder: Path
    fingerprint: str
    data: str = ""  # digest of the rows
    tokenizer: str = ""  # sha256 of its file
    cost: float = 0.0  # estimate for the order of jobs, in bytes of training rows read
    device: str = "cpu"

    @property
    def place(self) -> str:
        """The folder of its predictions within a stage's: the task's name, or SQuAD's version."""
        return next((version for version, task in SQUAD.items() if task == self.task), self.task)

    @property
    def name(self) -> str:
        """`cola-pretrained-seed1`."""
        return f"{self.task}-{self.arm}-seed{self.seed}"


def plan(task: str, config: FinetuneConfig, *, rows: Path, model: Path, state: Path, device: str = "cpu") -> list[Job]:
    """The jobs of one task: every arm with every seed, results under `state/<task>/<arm>-seed<k>`.

    Raises BadInput or BadConfig at once for what no job could use: absent splits, a length beyond the model's positions.
    """
    encoder, vocab_size = read_config(model)
    if config.length > encoder.positions:
        raise BadConfig(
            f"finetune length of {task}", f"is {config.length}", f"at most the model's positions ({encoder.positions})"
        )
    splits = evaluation_splits(task)
    for split in ("train", splits[0]):
        if not (rows / f"{split}.jsonl").is_file():
            raise BadInput(
                rows / f"{split}.jsonl", "there is no such file", f"the {split} rows of {task}", "run the tasks stage"
            )
    files = {name: sha256_file(path) for name in ("train", *splits) if (path := rows / f"{name}.jsonl").is_file()}
    tokenizer = sha256_file(model / "tokenizer.json")
    if (pieces := reading.tokenizer(model, tokenizer).vocab_size) != vocab_size:
        raise BadInput(
            model, f"holds a tokenizer of {pieces:,} pieces", f"the model's {vocab_size:,}", "pre-train again"
        )
    common = (
        task,
        files,
        tokenizer,
        dataclasses.asdict(encoder),
        vocab_size,
        code(),
        torch.__version__,
        device,
    )
    epochs = config.epochs * (2 if config.both_orders else 1)
    size = (rows / "train.jsonl").stat().st_size
    jobs = []
    for arm in config.arms:
        own = config.of_arm(arm)
        weights = sha256_file(model / "model.safetensors") if arm == "pretrained" else None
        jobs += [
            Job(
                task=task,
                arm=arm,
                seed=seed,
                rows=rows,
                model=model,
                config=own,
                folder=state / task / f"{arm}-seed{seed}",
                fingerprint=digest(*common, arm, seed, own, weights),
                data=digest(files),
                tokenizer=tokenizer,
                cost=size * epochs,
                device=device,
            )
            for seed in config.seeds
        ]
    return jobs


def evaluation_splits(task: str) -> tuple[str, ...]:
    """The splits whose predictions are scored; the first is the one that counts."""
    return GLUE[task].evaluation if task in GLUE else ("dev",)


@functools.cache
def code() -> str:
    """Digest of the source files that a result depends on."""
    root = Path(electra.__file__).parent
    return code_digest(*(root / name for name in _CODE))


def finished(job: Job) -> Record | None:
    """The record of a job that is done already, its files whole; else None."""
    try:
        if verify_manifest(job.folder).get("fingerprint") != job.fingerprint:
            return None
        record: Record = read_json(job.folder / _SCORE)
    except (CorruptFile, BadInput):
        return None
    return record


def run(job: Job) -> Record:
    """Do a job, or read it if it is done. Deterministic at one thread; leaves the whole folder or nothing."""
    if (record := finished(job)) is not None:
        return record
    for stale in job.folder.parent.glob(f".{job.folder.name}.tmp-*"):  # of a process that was killed while it wrote
        remove(stale)
    facts, files = _answer(job) if isinstance(job.config, SquadConfig) else _classify(job)
    record = {"task": job.task, "arm": job.arm, "seed": job.seed, **facts}
    with atomic_folder(job.folder) as folder:
        write_json(folder / _SCORE, record)
        for name, content in files.items():
            (write_jsonl if name.endswith(".jsonl") else write_json)(folder / name, content)
        write_manifest(folder, fingerprint=job.fingerprint)
    return record


def _classify(job: Job) -> tuple[Record, Files]:
    """GLUE: train, then predict and score every evaluation split."""
    task, config = GLUE[job.task], job.config
    train_rows, ready = reading.glue(_split(job, "train"), task.name, config.both_orders)
    splits = [split for split in task.evaluation if (job.rows / f"{split}.jsonl").is_file()]
    held_out = {split: reading.glue(_split(job, split), task.name) for split in splits}
    encoder = _encoder(job)
    ready, *narrowed = narrow(encoder, [ready, *(examples for _, examples in held_out.values())])
    torch.manual_seed(derive(job.seed, f"finetune/{job.task}/head"))
    model = Classifier(encoder, len(task.labels), config.head_dropout).to(job.device)
    training = train(model, ready, config, seed=job.seed, stream=f"finetune/{job.task}", device=job.device)
    record = _record(training, len(train_rows), len(ready), config)
    files: Files = {}
    for (split, (rows, _)), examples in zip(held_out.items(), narrowed, strict=True):
        logits_NC = read_outputs(model, examples, job.device)["logits"]
        files[f"{split}.jsonl"] = predictions.lines(task, rows, logits_NC)
        suffix = split.removeprefix(task.evaluation[0])  # "" or "_mismatched"
        record["metrics"] |= {f"{k}{suffix}": v for k, v in predictions.scores(task, rows, logits_NC).items()}
        if not suffix:
            record["dev_rows"] = len(rows)
            record["failed"] = predictions.fault(task, rows, logits_NC, training.finite)
    return record, files


def _answer(job: Job) -> tuple[Record, Files]:
    """SQuAD: train, then answer and score the dev split."""
    config = job.config
    assert isinstance(config, SquadConfig)
    version: squad_metrics.Version = "2.0" if job.task == "squad2" else "1.1"
    cut = (config.stride, config.question_length)
    source = reading.questions(_split(job, "train"), *cut)
    dev = reading.questions(_split(job, "dev"), *cut)
    encoder = _encoder(job)
    ready, dev_examples = narrow(encoder, [source.examples, dev.examples])
    torch.manual_seed(derive(job.seed, f"finetune/{job.task}/head"))
    model = SpanFinder(encoder, config).to(job.device)
    training = train(model, ready, config, seed=job.seed, stream=f"finetune/{job.task}", device=job.device)
    record = _record(training, len(source.rows), len(ready), config)
    outputs = read_outputs(model, dev_examples, job.device, tokens=4096)
    finite = all(np.isfinite(outputs[name]).all() for name in ("null", "start"))
    answers = squad_answers.find(dev, {key: predictions.finite(value) for key, value in outputs.items()}, config)
    threshold = config.null_threshold if version == "2.0" else None
    given = answers.given(threshold)
    record["metrics"] = squad_metrics.evaluate(dev.rows, answers.spans, answers.null, version, config.null_threshold)
    record["dev_rows"] = len(dev.rows)
    if not (training.finite and finite):
        record["failed"] = "the loss or the outputs stopped being finite"
    elif len(given) > 1 and len(set(given.values())) == 1:
        record["failed"] = f"{next(iter(given.values()))!r} was the answer to every question"
    n_best = {key: [list(pair) for pair in best] for key, best in answers.n_best.items()}
    return record, {"dev.json": given, "dev-null-odds.json": answers.null, "dev-nbest.json": n_best}


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


def _encoder(job: Job) -> Encoder:
    if job.arm == "pretrained":
        return load_encoder(job.model, dropout=job.config.dropout)
    config, vocab_size = read_config(job.model)
    config = dataclasses.replace(config, dropout=job.config.dropout, attention_dropout=job.config.dropout)
    return fresh_encoder(config, vocab_size, derive(job.seed, f"finetune/{job.task}/scratch"))


def _split(job: Job, name: str) -> Split:
    most = job.config.max_train_rows if name == "train" else None
    path = job.rows / f"{name}.jsonl"
    return Split(
        path=path, data=job.data, model=job.model, tokenizer=job.tokenizer, length=job.config.length, most=most
    )
