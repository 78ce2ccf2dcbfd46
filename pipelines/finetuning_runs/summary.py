"""From the records of many runs to what a results file says: each arm's scores over seeds, and
averages by their name.

A failed run keeps its score among the others and is named under `failed`. The paper's protocol is
the median over seeds from one checkpoint; mean, standard deviation (of a sample) and best are
given, too.
"""

import statistics
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

from electra.finetuning.tasks import GLUE, PAPER_AVERAGE, Task
from pipelines.finetuning_runs.job import Record

Summary = dict[str, Any]


def sd(scores: Sequence[float]) -> float | None:
    """Return the sample standard deviation (n - 1); None with fewer than two scores."""
    return statistics.stdev(scores) if len(scores) > 1 else None


def spread(scores: Sequence[float]) -> Summary:
    """Return scores, one a seed, with mean, standard deviation, median and best."""
    return {
        "scores": [_points(score) for score in scores],
        "mean": _points(statistics.fmean(scores)),
        "std": _points(sd(scores) or 0.0),
        "median": _points(statistics.median(scores)),
        "best": _points(max(scores)),
    }


def of_task(task: Task, records: Sequence[Record]) -> Summary:
    """One task: each arm's spread of the metric that counts; `all`: of every metric; `train`: on
    training rows.
    """
    metric = task.metrics[0]
    summary: Summary = {"metric": metric, **_rows(records)}
    for arm, runs in _by_arm(records).items():
        every = {
            name: [_points(run["metrics"][name]) for run in runs] for name in runs[0]["metrics"]
        }
        summary[arm] = {
            **spread([run["metrics"][metric] for run in runs]),
            "all": every,
            **_of_runs(runs),
        }
        if all("train_metrics" in run for run in runs):
            summary[arm]["train"] = [_points(run["train_metrics"][metric]) for run in runs]
    return summary


def average(tasks: dict[str, Summary], *, sample: bool) -> Summary:
    """Return the mean over tasks, seed by seed, for each arm, called by its exact name.

    It is the paper's GLUE average only if its eight tasks are there with all their official
    training rows; then WNLI is left out, as in the paper. Arms and seeds that not every task has do
    not count.
    """
    official = not sample and all(
        task in tasks and complete(task, tasks[task]) for task in PAPER_AVERAGE
    )
    own = sorted(task for task in tasks if task not in GLUE)
    counted = list(PAPER_AVERAGE) if official else [*(task for task in GLUE if task in tasks), *own]
    if official:
        name = "GLUE average (mean of eight tasks, without WNLI)"
    elif sample:
        name = f"mean over {_count(len(counted))} tasks (sample world)"
    else:
        name = f"mean over {', '.join(_called(task, tasks[task]) for task in counted)}"
    result: Summary = {"name": name, "tasks": counted}
    for arm in ("pretrained", "scratch"):
        if all(arm in tasks[task] for task in counted):
            runs = [tasks[task][arm] for task in counted]
            columns = [dict(zip(run["seeds"], run["scores"], strict=True)) for run in runs]
            seeds = [seed for seed in columns[0] if all(seed in column for column in columns)]
            if seeds:
                result[arm] = {
                    **spread([statistics.fmean(c[seed] for c in columns) for seed in seeds]),
                    "seeds": seeds,
                }
    return result


def complete(task: str, summary: Summary) -> bool:
    """Return whether a task was trained on as many rows as its official split has; a task of one's
    own has no such.
    """
    return task not in GLUE or bool(summary["train_rows"] == GLUE[task].train_rows)


def _called(task: str, summary: Summary) -> str:
    title = GLUE[task].title if task in GLUE else task
    return (
        title if complete(task, summary) else f"{title} (subset of {summary['train_rows']:,} rows)"
    )


def _count(number: int) -> str:
    words = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
    return words[number] if number < len(words) else str(number)


def _by_arm(records: Iterable[Record]) -> dict[str, list[Record]]:
    ordered = sorted(records, key=lambda record: (record["arm"], record["seed"]))
    return {
        arm: list(runs) for arm, runs in groupby(ordered, key=lambda record: str(record["arm"]))
    }


def _rows(records: Sequence[Record]) -> Summary:
    keys = ("train_rows", "dev_rows", "beyond_pretraining")  # of the first record that has them
    return {key: run[key] for key in keys for run in reversed(records) if key in run}


def _of_runs(runs: Sequence[Record]) -> Summary:
    return {
        "seeds": [run["seed"] for run in runs],
        "steps": runs[0]["steps"],
        "failed": [f"seed {run['seed']}: {run['failed']}" for run in runs if run["failed"]],
    }


def _points(score: float) -> float:
    return round(score, 4)
