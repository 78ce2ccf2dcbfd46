"""Summarize the records of many runs for a results file: each arm's scores over seeds, and averages
by name.

A failed run keeps its score among the others and is named under `failed`. The paper's protocol is
the median over seeds from one checkpoint; mean, standard deviation (of a sample) and best are
also given.
"""

import statistics
from collections.abc import Sequence
from typing import Any

from electra.finetuning.tasks import GLUE, PAPER_AVERAGE, Task

Summary = dict[str, Any]
Record = dict[str, Any]  # of a run
ARMS = {"pretrained": "pre-trained", "scratch": "from scratch"}
NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


def sd(scores: Sequence[float]) -> float | None:
    """Return the sample standard deviation (n - 1); None with fewer than two scores."""
    return statistics.stdev(scores) if len(scores) > 1 else None


def spread(scores: Sequence[float]) -> Summary:
    """Return scores, one per seed, with mean, standard deviation, median and best."""
    return {
        "scores": [_points(score) for score in scores],
        "mean": _points(statistics.fmean(scores)),
        "std": _points(sd(scores) or 0.0),
        "median": _points(statistics.median(scores)),
        "best": _points(max(scores)),
    }


def summarize_task(task: Task, records: Sequence[Record]) -> Summary:
    """Return each arm's spread of the metric that counts. `all`: of every metric. `train`: on
    training rows.
    """
    metric = task.metrics[0]
    summary: Summary = {"metric": metric}
    for record in records:
        for key in ("train_rows", "dev_rows", "beyond_pretraining"):
            if key in record:
                summary.setdefault(key, record[key])
    for arm in ARMS:
        runs = [record for record in records if record["arm"] == arm]
        runs.sort(key=lambda record: record["seed"])
        if not runs:
            continue
        summary[arm] = {
            **spread([run["metrics"][metric] for run in runs]),
            "all": {
                name: [_points(run["metrics"][name]) for run in runs] for name in runs[0]["metrics"]
            },
            "seeds": [run["seed"] for run in runs],
            "steps": runs[0]["steps"],
            "failed": [f"seed {run['seed']}: {run['failed']}" for run in runs if run["failed"]],
        }
        if all("train_metrics" in run for run in runs):
            summary[arm]["train"] = [_points(run["train_metrics"][metric]) for run in runs]
    return summary


def average_tasks(tasks: dict[str, Summary], *, sample: bool) -> Summary:
    """Return the mean over tasks, seed by seed, for each arm, with the exact name of that mean.

    It is the paper's GLUE average only if it has its eight tasks with all their official training
    rows. Then WNLI is left out, as in the paper. Arms and seeds missing in any task are left out.
    """
    counted = [task for task in GLUE if task in tasks]
    counted += sorted(task for task in tasks if task not in GLUE)
    # a custom task has no official split
    complete = {
        task
        for task in counted
        if task not in GLUE or tasks[task]["train_rows"] == GLUE[task].train_rows
    }
    if not sample and complete.issuperset(PAPER_AVERAGE):
        counted = list(PAPER_AVERAGE)
        name = "GLUE average (mean of eight tasks, without WNLI)"
    elif sample:
        count = NUMBERS[len(counted)] if len(counted) < len(NUMBERS) else str(len(counted))
        name = f"mean over {count} tasks (sample world)"
    else:
        titles = []
        for task in counted:
            title = GLUE[task].title if task in GLUE else task
            if task not in complete:
                title += f" (subset of {tasks[task]['train_rows']:,} rows)"
            titles.append(title)
        name = f"mean over {', '.join(titles)}"
    result: Summary = {"name": name, "tasks": counted}
    for arm in ARMS:
        if not all(arm in tasks[task] for task in counted):
            continue
        columns = []  # of each task, its scores by seed
        for task in counted:
            run = tasks[task][arm]
            columns.append(dict(zip(run["seeds"], run["scores"], strict=True)))
        seeds = [seed for seed in columns[0] if all(seed in column for column in columns)]
        if seeds:
            means = [statistics.fmean(column[seed] for column in columns) for seed in seeds]
            result[arm] = spread(means) | {"seeds": seeds}
    return result


def _points(score: float) -> float:
    return round(score, 4)
