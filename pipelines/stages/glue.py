"""Fine-tune a model on the GLUE tasks, pre-trained and from scratch: build/glue/M (predictions) and results/M/glue.json.

State is in runs/glue-M: one whole folder for each (task, arm, seed) that is done, which a second start does not repeat.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from electra.config import digest, plain
from electra.files import atomic_folder, lock_folder, verify_manifest, write_atomic, write_json, write_manifest
from electra.finetuning import summary
from electra.finetuning.jobs import Job, Record, code, plan
from electra.finetuning.pool import run_all
from electra.finetuning.tasks import GLUE
from electra.progress import Progress
from pipelines.params import ModelConfig, Params

Records = dict[str, list[Record]]  # by task


def run(name: str, params: Params, tracker: Any) -> None:
    """The stage: every task, arm and seed; then predictions and scores in one go."""
    model = params.models[name]
    state = Path("runs") / f"glue-{name}"
    jobs = plan_glue(
        params, model, f"models.{name}.finetune", encoder=Path("build/models") / name / "encoder", state=state
    )
    with lock_folder(state):
        records = run_jobs(jobs, workers(params, model), f"glue {name}", tracker, score_of)
        gather(jobs, Path("build/glue") / name, {"dev.jsonl": ".jsonl", "dev_mismatched.jsonl": "-mismatched.jsonl"})
    tasks = {task: summary.of_task(task, parts) for task, parts in records.items()}
    result = {
        **label(params, model),
        "tasks": tasks,
        "average": summary.average(tasks, sample=is_sample(params, model)),
        "provenance": provenance(jobs),
    }
    write_json(Path("results") / name / "glue.json", result)
    average = result["average"]
    tracker.summary({f"average/{arm}": average[arm]["mean"] for arm in ("pretrained", "scratch") if arm in average})


def plan_glue(
    params: Params, model: ModelConfig, where: str, *, encoder: Path, state: Path, tasks: Sequence[str] = ()
) -> list[Job]:
    """The jobs of a model's GLUE tasks (those that its settings select, or `tasks`); `where` names its settings in errors."""
    rows = Path("build/tasks") / model.tasks
    verify_manifest(rows)
    jobs = []
    for task in tasks or params.finetune.selected(model.finetune, where):
        config = params.finetune.resolve(task, model.finetune, where)
        jobs += plan(task, config, rows=rows / task, model=encoder, state=state, device=device())
    return jobs


def run_jobs(jobs: Sequence[Job], count: int, title: str, tracker: Any, score: Callable[[Record], float]) -> Records:
    """Run jobs with a progress line; each task becomes a child run of the tracker when its last job has ended."""
    done: Records = {}
    expected = {task: sum(job.task == task for job in jobs) for task in dict.fromkeys(job.task for job in jobs)}
    with Progress(title, len(jobs), "runs") as progress:
        progress.update(0)

        def on_done(job: Job, record: Record) -> None:
            done.setdefault(job.task, []).append(record)
            progress.update(sum(map(len, done.values())), last=f"{job.name} {score(record):.1f}")
            if len(done[job.task]) == expected[job.task]:
                track(tracker, job, done[job.task])

        run_all(jobs, count, on_done)
    return {task: sorted(done[task], key=lambda record: (record["arm"], record["seed"])) for task in expected}


def track(tracker: Any, job: Job, records: Sequence[Record]) -> None:
    """One child run for a task: its settings, the loss curves and figures of every arm and seed."""
    tracker.dataset(f"tasks/{job.task}", job.data, "fine-tune")
    with tracker.child(job.task, plain(job.config)) as child:
        for record in records:
            name = f"{record['arm']}-seed{record['seed']}"
            for step, loss in record["loss"]:
                child.metrics(step, {f"loss/{name}": loss})
            child.summary({f"{metric}/{name}": value for metric, value in record["metrics"].items()})


def gather(jobs: Sequence[Job], folder: Path, suffixes: dict[str, str]) -> None:
    """Copy the predictions of finished jobs to `folder/<task>/<arm>-seed<k><suffix>`, all or none."""
    with atomic_folder(folder) as temporary:
        for job in jobs:
            for name, suffix in suffixes.items():
                if (found := job.folder / name).is_file():
                    write_atomic(temporary / job.place / f"{job.arm}-seed{job.seed}{suffix}", found.read_bytes())
        write_manifest(temporary)


def score_of(record: Record) -> float:
    """The figure that counts for a GLUE task."""
    return float(record["metrics"][GLUE[record["task"]].metrics[0]])


def workers(params: Params, model: ModelConfig) -> int:
    """Processes to run side by side; results do not depend on it."""
    return params.finetune.workers or model.pretrain.threads


def device() -> str:
    """Where fine-tuning runs."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def is_sample(params: Params, model: ModelConfig) -> bool:
    """Whether a model's tasks are the sample world's."""
    return params.tasks[model.tasks].kind == "sample"


def label(params: Params, model: ModelConfig) -> dict[str, str]:
    """What data the numbers stand for: wherever they appear, this label does."""
    return {"source": model.tasks, "label": "sample world" if is_sample(params, model) else model.tasks}


def provenance(jobs: Sequence[Job]) -> dict[str, Any]:
    """What a reader needs to get the same numbers again; no clock, host or path."""
    return {
        "config_digest": digest({job.name: plain(job.config) for job in jobs}),
        "rows_sha256": {job.task: job.data for job in jobs},
        "code_digest": code(),
        "device": jobs[0].device,
        "threads_per_run": 1,
        "torch": torch.__version__,
    }
