"""Plan the jobs of a task, and run them, several at once: each writes predictions, scores and model
as a whole folder.

A job's result is a function of its inputs alone, which make its fingerprint. A folder with that
fingerprint and intact files is not computed again, so an interrupted stage resumes where it was.
Workers are processes of one thread, forked from a server process that has loaded torch once and
started no thread (a fork of the caller would copy whatever locks its threads hold); how many there
are, and which one runs a job, affects no result.
"""

import itertools
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from electra.devices import use_own_gpu
from electra.errors import BadConfig, BadInput, CorruptFile
from electra.files import atomic_folder, read_errors, read_json, sweep, write_json, write_jsonl
from electra.finetuning import reading
from electra.finetuning.folder import write_model
from electra.finetuning.reading import kind_of
from electra.finetuning.tasks import DIAGNOSTIC, FinetuneConfig, SquadTask, Task, find
from electra.nn.huggingface import read_config, verify_folder
from electra.storage import manifest
from electra.storage.fingerprint import Code
from electra.storage.manifest import cached_sha256, write_manifest
from electra.storage.run_dir import archive
from electra.storage.tensors import write_tensors
from electra.workers import run_units
from pipelines.finetuning_runs.job import MODEL, Job, Record, train_and_evaluate

_SCORE = "score.json"
_WRITERS: dict[str, Callable[[Path, Any], None]] = {
    ".json": write_json,
    ".jsonl": write_jsonl,
    ".safetensors": write_tensors,
}


def plan_jobs(
    name: str,
    config: FinetuneConfig,
    *,
    rows: Path,
    model: Path,
    runs: Path,
    device: str = "cpu",
    code: Code = "",
    source_jobs: Sequence[Job] = (),
) -> list[Job]:
    """Return a job for each arm and seed of the task `name`, each with a folder below `runs`.
    `source_jobs` are those of the task that `config.init_from_task` names.

    Raises BadInput or BadConfig at once for inputs that no job could use: absent splits, a length
    beyond the model's positions.
    """
    keep = config.keep_models
    encoder, vocab_size = read_config(model)
    task = find(rows, name)
    kind_of(task).check_config(config, encoder, keep)
    splits = _hash_splits(task, config, rows)
    files = verify_folder(model)
    pieces = reading.tokenizer(model, files.get("tokenizer.json", "")).vocab_size
    if pieces != vocab_size:
        raise BadInput(
            f"{model}: holds a tokenizer of {pieces:,} pieces; "
            f"expected the model's {vocab_size:,}; pre-train again"
        )
    cost = (rows / "train.jsonl").stat().st_size * config.epochs
    is_together = isinstance(task, SquadTask) and config.ensemble and len(config.seeds) > 1
    starts = {job.seed: job for job in source_jobs if job.arm == "pretrained"}
    jobs = []
    for arm, seed in itertools.product(config.arms, config.seeds):
        is_pretrained = arm == "pretrained"
        if is_pretrained and config.init_from_task and seed not in starts:
            raise BadConfig(
                f"finetune of {name}: {config.init_from_task} has no seed {seed}; "
                "let both have the same `seeds`"
            )
        is_kept = keep == "all" or (keep == "first" and seed == config.seeds[0])
        job = Job(
            task=task,
            arm=arm,
            seed=seed,
            config=config.for_arm(arm),
            rows=rows,
            splits=splits,
            model=model,
            files=files,
            encoder=encoder,
            vocab_size=vocab_size,
            runs=runs,
            cost=cost,
            code=code,
            device=device,
            start=starts.get(seed) if is_pretrained else None,
            keep=is_pretrained and is_kept,
            candidates=is_together,
        )
        jobs.append(job)
    return jobs


def _hash_splits(task: Task, config: FinetuneConfig, rows: Path) -> dict[str, str]:
    """Return the sha256 of each split that exists: `train`, those that are scored, of which the
    first counts, and those that are predicted only.
    """
    splits = ["train", *task.evaluation]
    if config.predict_test:
        splits += [split.replace("dev", "test") for split in task.evaluation]
        splits += DIAGNOSTIC.get(task.name, ())
    paths = {split: rows / f"{split}.jsonl" for split in splits}
    for split in splits[:2]:
        if not paths[split].is_file():
            raise BadInput(
                f"{paths[split]}: there is no such file; "
                f"give the source the {task.name} files and run the tasks stage"
            )
    return {split: cached_sha256(path) for split, path in paths.items() if path.is_file()}


def read_finished(job: Job) -> Record | None:
    """Return the record of a job that this code has finished, its files intact, or None."""
    complete = manifest.read_if_complete(job.folder, job.fingerprint)
    if complete is None or complete.get("made_by") != job.made_by:
        return None
    record: Record = read_json(job.folder / _SCORE)
    return record


def check_inputs(job: Job) -> None:
    """Raise CorruptFile for files that have changed since the job was planned, which may be hours
    ago.
    """
    hashes = {job.rows / f"{split}.jsonl": sha256 for split, sha256 in job.splits.items()}
    hashes |= {job.model / name: sha256 for name, sha256 in job.files.items()}
    for path, expected in hashes.items():
        with read_errors(path):
            if cached_sha256(path) != expected:
                raise CorruptFile(
                    f"{path}: has another sha256 than {expected}, as when the stage began. "
                    "Run it again"
                )


def run(job: Job) -> Record:
    """Run a job, or read its record if it is finished. It is deterministic at one thread and
    writes all or nothing.
    """
    if record := read_finished(job):
        return record
    check_inputs(job)
    results, files, network = train_and_evaluate(job)
    if manifest.read_if_complete(job.folder, job.fingerprint):  # by other code
        archive(job.folder)
    record = {"task": job.task.name, "arm": job.arm, "seed": job.seed, **results}
    with atomic_folder(job.folder) as folder:
        write_json(folder / _SCORE, record)
        for name, content in files.items():
            _WRITERS[Path(name).suffix](folder / name, content)
        if job.keep:
            write_model(folder / MODEL, network, job.task, job.config, job.model, name=job.name)
        write_manifest(
            folder, entry=job.name, fingerprint=job.fingerprint, made_by=job.made_by, code=job.code
        )
    return record


def run_all(
    jobs: Sequence[Job],
    workers: int,
    on_done: Callable[[Job, Record], None] = lambda job, record: None,
) -> list[Record]:
    """Run all jobs, at most `workers` at once, and return their records in the order of `jobs`.
    Jobs that are done are only read.

    `on_done` is called for each as it ends. A job's UserError is raised here and ends the others.
    Finished jobs stay. Jobs that start from another's model run after all others.
    """
    for folder in {job.folder.parent for job in jobs}:
        sweep(folder, ".*")
    records: dict[Path, Record] = {}  # by the job's folder, which no other job shares

    def note(job: Job, record: Record) -> None:
        records[job.folder] = record
        on_done(job, record)

    limit = "recipes.paper.workers in params.yaml"
    for has_start in (False, True):
        waiting: list[Job] = []
        wave = [job for job in jobs if (job.start is not None) == has_start]
        for job in sorted(wave, key=lambda job: (-job.cost, job.name)):
            record = read_finished(job)
            if record is None:
                waiting.append(job)
            else:
                note(job, record)
        units = run_units(run_on_one_thread, waiting, workers, preload=(__name__,), limit=limit)
        for index, record in units:
            note(waiting[index], record)
    return [records[job.folder] for job in jobs]


def run_on_one_thread(job: Job) -> Record:
    """Run a job on one thread, so that its bytes do not depend on the machine's number of cores,
    and on one GPU. `seconds` of its record is how long it took.
    """
    use_own_gpu()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    started = time.monotonic()
    try:
        return run(job) | {"seconds": time.monotonic() - started}
    finally:
        torch.set_num_threads(threads)
