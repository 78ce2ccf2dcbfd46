"""Fine-tune a model on its classification, regression and tagging tasks (GLUE's nine or own),
pre-trained and from scratch.

It leaves build/glue/M: predictions, leaderboard files, kept models, results.json. Each (task, arm,
seed) that is done is a folder in runs/finetune, which a second start does not repeat.
"""

import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

import torch

from electra.config import digest, to_jsonable
from electra.devices import refuse_unusable_driver
from electra.files import (
    atomic_folder,
    link_or_copy,
    read_jsonl,
    write_atomic,
    write_json,
    write_jsonl,
)
from electra.finetuning.reading import kind_of
from electra.finetuning.tasks import FinetuneConfig, SquadTask, Task
from electra.storage.manifest import write_manifest
from electra.storage.run_dir import RUNS
from electra.workers import worker_count
from pipelines.config.params import Params
from pipelines.finetuning_runs import leaderboard, summary
from pipelines.finetuning_runs.job import ABOVE_RUNS, MODEL, Job, Record
from pipelines.finetuning_runs.plan import plan_jobs, run_all
from pipelines.finetuning_runs.summary import ARMS
from pipelines.stages import BUILD, RESULTS, baselines, data_label, inputs
from pipelines.stages import FINETUNING as CODE
from pipelines.stages.progress_bar import ProgressBar
from pipelines.stages.summarize import task_numbers
from pipelines.tracking import flatten
from pipelines.versioning.code import code_digest

FINETUNING = RUNS / "finetune"
SUFFIXES = {  # a job's file of a split -> the end of its name here
    "dev.jsonl": ".jsonl",
    "dev_mismatched.jsonl": "-mismatched.jsonl",
    "test.jsonl": "-test.jsonl",
    "test_mismatched.jsonl": "-test-mismatched.jsonl",
    "test_diagnostic.jsonl": "-test-diagnostic.jsonl",
}
Records = dict[str, list[Record]]  # by task


def run(name: str, params: Params, tracker: Any) -> None:
    """Run the stage: every task, arm and seed. Then predictions and scores in one go."""
    config = params.finetunings[name]
    configs = task_configs(name, params)
    encoder = inputs.encoder_folder(config.model, params)
    jobs = plan_glue(configs, inputs.task_rows(config.tasks), encoder)
    last_jobs = {job.task.name: job for job in jobs}  # of each task
    scores = {
        task: baselines.score_baselines(job.task, job.rows, job.config)
        for task, job in last_jobs.items()
    }
    records = run_jobs(jobs, count_workers(params, config.model), f"glue {name}", tracker)
    frozen = baselines.load_frozen(BUILD / "models" / config.model)
    tasks = {}
    for task, job in last_jobs.items():
        auc = frozen and baselines.score_frozen(frozen, job.task, job.rows, job.config, job.model)
        if auc:
            scores[task]["replaced_tokens"] = auc
        tasks[task] = summary.summarize_task(job.task, records[task]) | {"baselines": scores[task]}
    ensembles = [task for task, settings in configs.items() if settings.ensemble]
    with atomic_folder(BUILD / "glue" / name) as folder:
        copy_outputs(jobs, folder, SUFFIXES)
        for task, figures in write_leaderboard_files(jobs, folder, ensembles).items():
            tasks[task]["ensemble"] = figures
        sample = params.tasks[config.tasks].kind == "sample"
        average = summary.average_tasks(tasks, sample=sample)
        result = label(params, config.tasks) | {
            "tasks": tasks,
            "average": average,
            "provenance": provenance(jobs),
        }
        write_json(folder / RESULTS, result)
        write_manifest(folder, kind="glue", name=name)
    for task, facts in tasks.items():
        print(f"glue {name}: {task}: {describe_scores(facts)}", file=sys.stderr)
    if len(tasks) > 1:
        print(f"glue {name}: {average['name']}: {describe_scores(average)}", file=sys.stderr)


def describe_scores(facts: dict[str, Any]) -> str:
    """Return the means of both arms in words, next to the best score that needs no network. A
    model that does no better than that is a warning.
    """
    words = [f"{facts[arm]['mean']:.1f} {title}" for arm, title in ARMS.items() if arm in facts]
    # the discriminator's own ranking of rows isn't a score of the task
    simple = [
        (score, method)
        for method, score in facts.get("baselines", {}).items()
        if method in baselines.SIMPLE
    ]
    if simple:
        best, method = max(simple)
        words.append(f"{best:.1f} without a network ({method.replace('_', ' ')})")
        if "pretrained" in facts and best >= facts["pretrained"]["mean"]:
            words.append("WARNING: that is at least as good as the fine-tuned model")
    return ", ".join(words)


def task_configs(name: str, params: Params) -> dict[str, FinetuneConfig]:
    """Return the tasks of a fine-tuning, each with its settings."""
    return {task: params.task_config(name, task) for task in params.selected_tasks(name)}


def plan_task(
    task: str, config: FinetuneConfig, rows: Path, encoder: Path, source_jobs: Sequence[Job] = ()
) -> list[Job]:
    """Return the jobs of a task on this machine, by this code."""
    return plan_jobs(
        task,
        config,
        rows=rows / task,
        model=encoder,
        runs=FINETUNING,
        device=device(),
        code=code_digest(CODE),
        source_jobs=source_jobs,
    )


def plan_glue(configs: Mapping[str, FinetuneConfig], rows: Path, encoder: Path) -> list[Job]:
    """Return the jobs of tasks. One that starts from another comes after it."""
    starts = {config.init_from_task for config in configs.values()}
    jobs: list[Job] = []
    for task, config in configs.items():
        source_jobs = [job for job in jobs if job.task.name == config.init_from_task]
        kept = replace(config, keep_models="all") if task in starts else config
        jobs += plan_task(task, kept, rows, encoder, source_jobs)
    return jobs


def write_leaderboard_files(
    jobs: Sequence[Job], folder: Path, ensembles: Sequence[str]
) -> dict[str, Any]:
    """Write the leaderboard's files of every arm and seed, and of the seeds of the tasks
    `ensembles` as one. Return the latter's dev scores.
    """
    scores: dict[str, Any] = {}
    for (task, arm), runs in group_by_arm(jobs):
        together = task.name in ensembles and len(runs) > 1 and not task.tagging
        for split in runs[0].splits:
            if split == "train":
                continue
            lines = {
                f"{arm}-seed{job.seed}": read_jsonl(job.folder / f"{split}.jsonl") for job in runs
            }
            if together:
                name = f"{arm}-ensemble"
                lines[name] = leaderboard.ensemble(task, list(lines.values()))
                write_jsonl(folder / task.name / f"{name}{SUFFIXES[f'{split}.jsonl']}", lines[name])
                if split == task.evaluation[0]:
                    figures: dict[str, Any] = {"seeds": [job.seed for job in runs]}
                    figures |= leaderboard.score_records(task, lines[name])
                    scores.setdefault(task.name, {})[arm] = figures
            file = leaderboard.FILES.get((task.name, split))
            if file is not None:
                for run_name, rows in lines.items():
                    path = folder / "leaderboard" / run_name / file
                    write_atomic(path, leaderboard.to_tsv(task, rows))
    return scores


def group_by_arm(jobs: Sequence[Job]) -> Iterator[tuple[tuple[Task, str], list[Job]]]:
    """Yield (task, arm) and the jobs of its seeds."""
    for key, group in groupby(jobs, key=lambda job: (job.task, job.arm)):
        yield key, list(group)


def run_jobs(jobs: Sequence[Job], count: int, title: str, tracker: Any) -> Records:
    """Run jobs with a progress line. Each task becomes a child run of the tracker when its last job
    has ended. Rows beyond the positions that pre-training has updated are a warning, once a task.
    """
    by_task: Records = {}
    starts: dict[str, float] = {}  # task -> time.time() when its first run started
    expected = Counter(job.task.name for job in jobs)
    with ProgressBar(title, len(jobs), "runs") as progress:
        progress.update(0)

        def on_done(job: Job, record: Record) -> None:
            start = time.time() - record.get("seconds", 0.0)
            start = starts[job.task.name] = min(start, starts.get(job.task.name, start))
            records = by_task.setdefault(job.task.name, [])
            beyond = record.get("beyond_pretraining")
            if beyond and not any("beyond_pretraining" in before for before in records):
                positions = beyond["positions"]
                print(
                    f"{job.task.name}: WARNING: {beyond['share']:.1%} of its "
                    f"{kind_of(job.task).example} are longer than the {positions} tokens that "
                    f"pre-training saw; a length of {positions}, or pre-training with longer rows "
                    "(init_from), fixes that",
                    file=sys.stderr,
                )
            records.append(record)
            score = record["metrics"][job.task.metrics[0]]
            progress.update(progress.done + 1, last=f"{job.name} {score:.1f}")
            if len(records) == expected[job.task.name]:
                track(tracker, [other for other in jobs if other.task == job.task], records, start)

        run_all(jobs, count, on_done)
    return {task: by_task[task] for task in expected}


def track(tracker: Any, jobs: Sequence[Job], records: Sequence[Record], started: float) -> None:
    """Record a task as one child run: its settings, the loss curves of its runs, its scores."""
    task = jobs[0].task
    tracker.dataset(f"tasks/{task.name}", jobs[0].data, "fine-tune")
    configs = {}
    for job in jobs:
        config = {
            key: value for key, value in to_jsonable(job.config).items() if key not in ABOVE_RUNS
        }
        configs[job.arm] = flatten(config)
    seeds = str(sorted({job.seed for job in jobs}))
    with tracker.child(task.name, set_side_by_side(configs) | {"seeds": seeds}, started) as child:
        for record in records:
            for step, loss in record["loss"]:
                child.metrics(step, {f"loss/{record['arm']}-seed{record['seed']}": loss})
        child.summary(task_numbers(summary.summarize_task(task, records)))


def settings(name: str, params: Params) -> dict[str, str]:
    """Return the settings in use, those of the tasks side by side."""
    configs = task_configs(name, params)
    values = set_side_by_side(
        {task: flatten(to_jsonable(config)) for task, config in configs.items()}
    )
    # a null below `scratch` means the same value in both arms
    return {key: value for key, value in values.items() if value != "null" or "scratch." not in key}


def set_side_by_side(settings: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Return settings that are equal for all under their key, the others as `<name>.<key>`."""
    result = {}
    for name, values in settings.items():
        for key, value in values.items():
            alike = all(other.get(key) == value for other in settings.values())
            result[key if alike else f"{name}.{key}"] = value
    return result


def copy_outputs(jobs: Sequence[Job], folder: Path, suffixes: dict[str, str]) -> None:
    """Put jobs' predictions into `folder` as <task>/<arm>-seed<k><suffix>, kept models as
    <task>/<arm>-seed<k>.
    """
    for job in jobs:
        target = folder / folder_name(job) / f"{job.arm}-seed{job.seed}"
        for name, suffix in suffixes.items():
            if (job.folder / name).is_file():
                content = (job.folder / name).read_bytes()
                write_atomic(target.with_name(f"{target.name}{suffix}"), content)
        if job.keep:
            target.mkdir(parents=True, exist_ok=True)
            for file in sorted((job.folder / MODEL).iterdir()):
                link_or_copy(file, target / file.name)


def folder_name(job: Job) -> str:
    """Return the folder of a job's predictions within a stage's: its task's name, or SQuAD's
    version.
    """
    return job.task.version if isinstance(job.task, SquadTask) else job.task.name


def count_workers(params: Params, model: str) -> int:
    """Return how many processes run side by side, one for each GPU where there are any. Results do
    not depend on it.
    """
    if params.finetune.workers:
        return params.finetune.workers
    if device() == "cuda":
        return torch.cuda.device_count()
    return params.models[model].pretrain.threads if model in params.models else worker_count()


def device() -> str:
    """Return where fine-tuning runs. Raise BadDevice for a GPU that cannot be used."""
    refuse_unusable_driver()
    return "cuda" if torch.cuda.is_available() else "cpu"


def label(params: Params, source: str) -> dict[str, str]:
    """Return a label for the data of the numbers. It is shown wherever they appear."""
    return {"source": source, "label": data_label(f"tasks@{source}", params)}


def provenance(jobs: Sequence[Job]) -> dict[str, Any]:
    """Return all facts needed to reproduce the numbers. No clock, host or path."""
    return {
        "config_digest": digest({job.name: to_jsonable(job.config) for job in jobs}),
        "rows_sha256": {job.task.name: job.data for job in jobs},
        "code": code_digest(CODE),
        "device": device(),
        "threads_per_run": 1,
        "torch": torch.__version__,
    }
