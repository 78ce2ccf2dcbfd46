"""Fine-tune a model on its classification, regression and tagging tasks (GLUE's nine or own),
pre-trained and scratch.

It leaves build/glue/M: predictions, leaderboard files, kept models, results.json.

Each (task, arm, seed) that is done is a folder in runs/finetune, which a second start does not
repeat.
"""

import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import torch

from electra.config import digest, plain
from electra.devices import refuse_unusable_driver
from electra.files import (
    atomic_folder,
    link_or_copy,
    lock_folder,
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
from pipelines.finetuning_runs.job import MODEL, Job, Record, splits_of
from pipelines.finetuning_runs.plan import Plan, run_all
from pipelines.runtime.progress_bar import ProgressBar
from pipelines.stages import FINETUNING as CODE
from pipelines.stages import RESULTS, baselines, data_label, verified_inputs
from pipelines.stages.summarize import task_numbers
from pipelines.tracking import flatten
from pipelines.versioning.code import digest_of

FINETUNING = RUNS / "finetune"
Records = dict[str, list[Record]]  # by task
NO_BEARING = ("arms", "seeds", "keep", "ensemble", "scratch")  # on a single run
SPLITS = ("dev", "dev_mismatched", "test", "test_mismatched", "test_diagnostic")
SUFFIXES = {
    f"{split}.jsonl": f"-{split}.jsonl".replace("_", "-").removeprefix("-dev") for split in SPLITS
}


def run(name: str, params: Params, tracker: Any) -> None:
    """The stage: every task, arm and seed; then predictions and scores in one go."""
    config, configs = params.finetunings[name], configs_of(name, params)
    encoder, rows = (
        verified_inputs.encoder(config.model, params),
        verified_inputs.task_rows(config.tasks),
    )
    jobs = plan_glue(configs, rows, encoder)
    together = [task for task, settings in configs.items() if settings.ensemble]
    with lock_folder(FINETUNING / f".glue-{name}"):
        records = run_jobs(jobs, workers(params, config.model), f"glue {name}", tracker)
        with atomic_folder(Path("build/glue") / name) as folder:
            gather(jobs, folder, SUFFIXES)
            ensembles = hand_in(jobs, folder, together)
            result = summarise(name, params, jobs, records, ensembles)
            write_json(folder / RESULTS, result)
            write_manifest(folder, kind="glue", name=name)


def summarise(
    name: str, params: Params, jobs: Sequence[Job], records: Records, ensembles: dict[str, Any]
) -> dict[str, Any]:
    """Return the scores of every task and arm, beside those of baselines and ensembles, and their
    means.
    """
    config = params.finetunings[name]
    last = {job.task.name: job for job in jobs}
    tasks = {task: summary.of_task(last[task].task, parts) for task, parts in records.items()}
    frozen = baselines.load_frozen(Path("build/models") / config.model)
    for task, job in last.items():
        tasks[task]["baselines"] = baselines.of_task(job.task, job.rows, job.config)
        if frozen and (
            auc := baselines.replaced_tokens(frozen, job.task, job.rows, job.config, job.model)
        ):
            tasks[task]["baselines"]["replaced_tokens"] = auc
    for task, figures in ensembles.items():
        tasks[task]["ensemble"] = figures
    average = summary.average(tasks, sample=params.tasks[config.tasks].kind == "sample")
    return {
        **label(params, config.tasks),
        "tasks": tasks,
        "average": average,
        "provenance": provenance(jobs),
    }


def configs_of(name: str, params: Params) -> dict[str, FinetuneConfig]:
    """The tasks of a fine-tuning, each with its settings."""
    config, changes = params.finetunings[name], params.changes(name)
    where, own = f"recipes.{config.recipe}", params.own_tasks(config.tasks)
    chosen = params.finetune.selected(changes, where, own)
    return {task: params.finetune.resolve(task, changes, where, own) for task in chosen}


def plan(task: str, config: FinetuneConfig, rows: Path, encoder: Path, **more: Any) -> list[Job]:
    """The jobs of a task on this machine, by this code."""
    here: dict[str, Any] = {"state": FINETUNING, "device": device(), "code": digest_of(CODE)}
    return Plan(task, config, rows=rows / task, model=encoder, **here, **more).jobs()


def plan_glue(configs: Mapping[str, FinetuneConfig], rows: Path, encoder: Path) -> list[Job]:
    """The jobs of tasks, in an order in which one that starts from another comes after it."""
    starts = {config.start for config in configs.values()}
    jobs: list[Job] = []
    for task, config in configs.items():
        before = [job for job in jobs if job.task.name == config.start]
        jobs += plan(
            task, config, rows, encoder, before=before, keep="all" if task in starts else None
        )
    return jobs


def hand_in(jobs: Sequence[Job], folder: Path, together: Sequence[str]) -> dict[str, Any]:
    """Leaderboard files of every arm and seed, and of the seeds of the tasks `together` as one;
    those's dev scores.
    """
    scores: dict[str, Any] = {}
    for (task, arm), runs in of_arms(jobs):
        scored, unlabelled = splits_of(task, runs[0].config)
        for split in (*unlabelled, *scored):
            if not (runs[0].folder / f"{split}.jsonl").is_file():
                continue
            lines = {
                f"{arm}-seed{job.seed}": read_jsonl(job.folder / f"{split}.jsonl") for job in runs
            }
            if task.name in together and len(runs) > 1 and not task.tagging:
                name = f"{arm}-ensemble"
                lines[name] = leaderboard.ensemble(task, list(lines.values()))
                write_jsonl(folder / task.name / f"{name}{SUFFIXES[f'{split}.jsonl']}", lines[name])
                if split == scored[0]:
                    figures = leaderboard.score_lines(task, lines[name])
                    scores.setdefault(task.name, {})[arm] = {
                        "seeds": [job.seed for job in runs],
                        **figures,
                    }
            if (file := leaderboard.FILES.get((task.name, split))) is not None:
                for run_name, rows in lines.items():
                    write_atomic(
                        folder / "leaderboard" / run_name / file, leaderboard.tsv(task, rows)
                    )
    return scores


def of_arms(jobs: Sequence[Job]) -> Iterator[tuple[tuple[Task, str], list[Job]]]:
    """(task, arm) and its seeds."""
    for which, group in groupby(jobs, key=lambda job: (job.task, job.arm)):
        yield which, list(group)


def run_jobs(jobs: Sequence[Job], count: int, title: str, tracker: Any) -> Records:
    """Run jobs with a progress line; each task becomes a child run of the tracker when its last job
    has ended.
    """
    done: Records = {}
    started: dict[str, float] = {}  # task -> time.time() of its first run's start
    expected = Counter(job.task.name for job in jobs)
    with ProgressBar(title, len(jobs), "runs") as progress:
        progress.update(0)

        def on_done(job: Job, record: Record) -> None:
            began = time.time() - record.get("seconds", 0.0)
            started[job.task.name] = min(began, started.get(job.task.name, began))
            records = done.setdefault(job.task.name, [])
            if "beyond_pretraining" in record and not any(
                "beyond_pretraining" in before for before in records
            ):
                warn_of_positions(job.task, **record["beyond_pretraining"])
            records.append(record)
            score = record["metrics"][job.task.metrics[0]]
            progress.update(sum(map(len, done.values())), last=f"{job.name} {score:.1f}")
            if len(records) == expected[job.task.name]:
                task_jobs = [each for each in jobs if each.task.name == job.task.name]
                track(tracker, task_jobs, records, started[job.task.name])

        run_all(jobs, count, on_done)
    return {task: sorted_by_seed(done[task]) for task in expected}


def warn_of_positions(task: Task, positions: int, share: float) -> None:
    """Warn, once a task, that some of its rows use positions whose vectors pre-training never
    updated.
    """
    longer = f"{share:.1%} of its {kind_of(task).example} are longer than the {positions} tokens that pre-training saw"
    advice = f"a length of {positions}, or pre-training that goes on with longer rows (init_from), fixes that"
    print(f"{task.name}: WARNING: {longer}; {advice}", file=sys.stderr, flush=True)


def track(tracker: Any, jobs: Sequence[Job], records: Sequence[Record], started: float) -> None:
    """Record a task as one child run: its settings, the loss curves of every run, and its scores."""
    task = jobs[0].task
    tracker.dataset(f"tasks/{task.name}", jobs[0].data, "fine-tune")
    with tracker.child(task.name, settings_of(jobs), started) as child:
        for record in records:
            for step, loss in record["loss"]:
                child.metrics(step, {f"loss/{record['arm']}-seed{record['seed']}": loss})
        child.summary(task_numbers(summary.of_task(task, sorted_by_seed(records))))


def sorted_by_seed(records: Sequence[Record]) -> list[Record]:
    """Return the records of a task in the order of a results file."""
    return sorted(records, key=lambda record: (record["arm"], record["seed"]))


def settings_of(jobs: Sequence[Job]) -> dict[str, str]:
    """Return the settings that bear on a task's runs, those of its arms side by side."""
    arms = {}
    for job in jobs:
        config = plain(job.config)
        arms[job.arm] = flatten({key: config[key] for key in config if key not in NO_BEARING})
    return side_by_side(arms) | {"seeds": str(sorted({job.seed for job in jobs}))}


def settings(name: str, params: Params) -> dict[str, str]:
    """Return the settings in use, those of the tasks side by side."""
    tasks = {task: flatten(plain(config)) for task, config in configs_of(name, params).items()}
    return side_by_side(tasks)


def side_by_side(settings: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Return the settings that all have alike under their key, the others as `<name>.<key>`."""
    first = next(iter(settings.values()))
    alike = {
        key: value
        for key, value in first.items()
        if all(values.get(key) == value for values in settings.values())
    }
    result = dict(alike)
    for name, values in settings.items():
        result |= {f"{name}.{key}": value for key, value in values.items() if key not in alike}
    return result


def gather(jobs: Sequence[Job], folder: Path, suffixes: dict[str, str]) -> None:
    """Put jobs' predictions into `folder` as <task>/<arm>-seed<k><suffix>, kept models as
    <task>/<arm>-seed<k>.
    """
    for job in jobs:
        for name, suffix in suffixes.items():
            if (found := job.folder / name).is_file():
                write_atomic(
                    folder / place(job) / f"{job.arm}-seed{job.seed}{suffix}", found.read_bytes()
                )
        if job.keep:
            kept = folder / place(job) / f"{job.arm}-seed{job.seed}"
            kept.mkdir(parents=True, exist_ok=True)
            for file in sorted((job.folder / MODEL).iterdir()):
                link_or_copy(file, kept / file.name)


def place(job: Job) -> str:
    """The folder of a job's predictions within a stage's: its task's name, or SQuAD's version."""
    return job.task.version if isinstance(job.task, SquadTask) else job.task.name


def workers(params: Params, model: str) -> int:
    """Processes to run side by side, one for each GPU where there are any; results do not depend on
    it.
    """
    if params.finetune.workers:
        return params.finetune.workers
    if device() == "cuda":
        return torch.cuda.device_count()
    return params.models[model].pretrain.threads if model in params.models else worker_count()


def device() -> str:
    """Where fine-tuning runs; a GPU that cannot be used is an error."""
    refuse_unusable_driver()
    return "cuda" if torch.cuda.is_available() else "cpu"


def label(params: Params, source: str) -> dict[str, str]:
    """Which data the numbers are of: shown wherever they appear."""
    return {"source": source, "label": data_label(f"tasks@{source}", params)}


def provenance(jobs: Sequence[Job]) -> dict[str, Any]:
    """What a reader needs to get the same numbers again; no clock, host or path."""
    settings, rows = (
        {job.name: plain(job.config) for job in jobs},
        {job.task.name: job.data for job in jobs},
    )
    here = {"device": device(), "threads_per_run": 1, "torch": torch.__version__}
    return {"config_digest": digest(settings), "rows_sha256": rows, "code": digest_of(CODE), **here}
