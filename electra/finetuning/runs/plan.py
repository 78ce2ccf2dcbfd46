"""One job: fine-tune one arm on one task with one seed, and leave predictions, scores and model as a whole folder.

A job's result is a function of its inputs alone, and these make its fingerprint: settings, rows, tokenizer, weights,
source code, torch. A folder that already bears the fingerprint, and whose bytes are what its manifest says, is not
computed again; so an interrupted stage goes on where it was.
"""

import dataclasses
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import torch

from electra.config import digest
from electra.errors import BadConfig, BadInput, CorruptFile
from electra.files import atomic_folder, read_json, readable, remove, write_json, write_jsonl
from electra.finetuning import reading
from electra.finetuning.folder import write_model
from electra.finetuning.registry import kind_of
from electra.finetuning.runs.job import Job, splits_of
from electra.finetuning.runs.solve import Record, Solved, solve, solve_together
from electra.finetuning.tasks import TASKS, FinetuneConfig, SquadTask, Stack, find
from electra.nn.weights import read_config, verify_folder
from electra.storage.manifest import read_manifest, sha256_once, verify_manifest, write_manifest
from electra.storage.tensors import write_tensors

MODEL = "model"
_SCORE = "score.json"
_WRITERS: dict[str, Callable[[Path, Any], None]] = {
    ".json": write_json,
    ".jsonl": write_jsonl,
    ".safetensors": write_tensors,
}


def plan(
    task: str,
    config: FinetuneConfig,
    *,
    rows: Path,
    model: Path,
    state: Path,
    device: str = "cpu",
    before: Sequence[Job] = (),
    keep: Literal["none", "first", "all"] | None = None,
    stack: Stack = "off",
    code: str = "",
) -> list[Job]:
    """The jobs of one task: every arm with every seed, results under `state/<task>/<arm>-seed<k>-<digits>`.

    The digits are the fingerprint's, so what was made of other settings, data or code stays for the day when they come back.

    `code` is a hash of the source files that a result depends on (the caller knows them: pipelines/rooms.py). `before` are the jobs of the task that `config.start` names; `keep` wins over the config's; `stack` says whether the
    seeds of an arm are trained as one (auto: on GPUs), which is part of their fingerprints. Raises BadInput or
    BadConfig at once for what no job could use: absent splits, a length beyond the model's positions.
    """
    encoder, vocab_size = read_config(model)
    facts = find(rows, task)
    keep = keep or config.keep
    kind_of(facts).check_config(facts, config, encoder, keep)
    scored, unlabelled = splits_of(facts, config)
    for split in ("train", scored[0]):
        if not (rows / f"{split}.jsonl").is_file():
            raise BadInput(
                rows / f"{split}.jsonl",
                "there is no such file",
                f"the {split} rows of {task}",
                f"give the source its {task} files and run the tasks stage",
            )
    names = ("train", *scored, *unlabelled)
    files = {name: sha256_once(path) for name in names if (path := rows / f"{name}.jsonl").is_file()}
    hashes = verify_folder(model)
    tokenizer = hashes.get("tokenizer.json", "")
    if (pieces := reading.tokenizer(model, tokenizer).vocab_size) != vocab_size:
        raise BadInput(
            model, f"holds a tokenizer of {pieces:,} pieces", f"the model's {vocab_size:,}", "pre-train again"
        )
    common: tuple[object, ...] = (
        task,
        files,
        tokenizer,
        dataclasses.asdict(encoder),
        vocab_size,
        code,
        torch.__version__,
        device,
    )
    if task not in TASKS:
        common = (*common, facts)
    size = (rows / "train.jsonl").stat().st_size * config.epochs * (2 if config.both_orders else 1)
    stacked = stack == "on" or (stack == "auto" and device.startswith("cuda"))
    together = config.seeds if stacked and len(config.seeds) > 1 else ()
    if together:
        common = (*common, "stacked", together)
    inputs = [(rows / f"{name}.jsonl", sha256) for name, sha256 in files.items()]
    inputs += [(model / name, sha256) for name, sha256 in hashes.items()]
    candidates = isinstance(facts, SquadTask) and config.ensemble and len(config.seeds) > 1
    if candidates:
        common = (*common, "candidates")
    starts = {job.seed: job for job in before if job.arm == "pretrained"}
    jobs = []
    for arm in config.arms:
        own = config.of_arm(arm)
        weights = hashes.get("model.safetensors") if arm == "pretrained" else None
        for seed in config.seeds:
            start = starts.get(seed) if arm == "pretrained" else None
            if config.start is not None and arm == "pretrained" and start is None:
                raise BadConfig(
                    f"finetune start of {task}",
                    f"has no seed {seed} in {config.start}",
                    "a run of each seed",
                    "let both have the same `seeds`",
                )
            kept = arm == "pretrained" and (keep == "all" or (keep == "first" and seed == config.seeds[0]))
            fingerprint = digest(*common, arm, seed, own, weights, kept, start.fingerprint if start else None)
            jobs.append(
                Job(
                    task=facts,
                    arm=arm,
                    seed=seed,
                    rows=rows,
                    model=model,
                    config=own,
                    folder=state / task / f"{arm}-seed{seed}-{fingerprint[:8]}",
                    fingerprint=fingerprint,
                    start=start.folder / MODEL if start else None,
                    keep=kept,
                    data=digest(files),
                    tokenizer=tokenizer,
                    inputs=tuple(inputs),
                    cost=size,
                    device=device,
                    together=together,
                    candidates=candidates,
                )
            )
    return jobs


def finished(job: Job) -> Record | None:
    """The record of a job that is done already, its files whole; else None."""
    if not job.folder.is_dir():
        return None
    try:
        if read_manifest(job.folder).get("fingerprint") != job.fingerprint:
            return None
        verify_manifest(job.folder)
        record: Record = read_json(job.folder / _SCORE)
    except (CorruptFile, BadInput) as error:
        print(f"warning: {error}; it is made again", file=sys.stderr, flush=True)
        return None
    return record


def check_inputs(job: Job) -> None:
    """Refuse files that are others than when the job was planned, which may be hours ago."""
    for path, sha256 in job.inputs:
        with readable(path):
            if (found := sha256_once(path)) != sha256:
                raise CorruptFile(path, f"has sha256 {found}", f"{sha256}, as when the stage began", "run it again")


def run(job: Job) -> Record:
    """Do a job, or read it if it is done. Deterministic at one thread; leaves the whole folder or nothing."""
    assert not job.together, "a job of a stack is done with the others"
    if record := finished(job):
        return record
    check_inputs(job)
    return _leave(job, solve(job))


def run_together(jobs: Sequence[Job]) -> list[Record]:
    """Do all the jobs of a stack, or read them. Where one is open all are trained: each depends on its company."""
    assert all(tuple(job.seed for job in jobs) == job.together for job in jobs), "a stack is done whole"
    records = [finished(job) for job in jobs]
    if None in records:
        check_inputs(jobs[0])
        try:
            solved = solve_together(jobs)
        except torch.OutOfMemoryError as error:
            raise BadConfig(
                "recipes.paper.stack",
                f"{len(jobs)} seeds of {jobs[0].task.name} do not fit into memory together ({error})"[:300],
                "fewer seeds or a smaller batch",
                "set stack: off to train one after the other",
            ) from None
        return [record or _leave(job, one) for job, record, one in zip(jobs, records, solved, strict=True)]
    return [record for record in records if record is not None]


def _leave(job: Job, solved: Solved) -> Record:
    """Write a job's folder, whole."""
    for stale in job.folder.parent.glob(f".{job.folder.name}.tmp-*"):  # of a process that was killed while it wrote
        remove(stale)
    record = {"task": job.task.name, "arm": job.arm, "seed": job.seed, **solved.record}
    with atomic_folder(job.folder) as folder:
        write_json(folder / _SCORE, record)
        for name, content in solved.files.items():
            _WRITERS[Path(name).suffix](folder / name, content)
        if job.keep:
            solved.widen()
            write_model(folder / MODEL, solved.network, job.task, job.config, job.model, name=job.name)
        write_manifest(folder, fingerprint=job.fingerprint)
    return record
