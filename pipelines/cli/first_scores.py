"""Scores of a task without a network, and the time that a published small would take: for
`electra new --task`, before anything is trained.
"""

import dataclasses
import statistics
from pathlib import Path
from typing import Any

import numpy as np

from electra.errors import UserError
from electra.finetuning.metrics import score
from electra.finetuning.predictions import label_values
from electra.finetuning.reading import subset
from electra.finetuning.tasks import Task
from pipelines.cli import cost
from pipelines.cli.estimate import BYTES_A_TOKEN, finetuning_flops
from pipelines.config.params import Params
from pipelines.sources import CustomTasks, custom_tasks
from pipelines.stages.baselines import FIT_ROWS, Numbers, predict_simply
from pipelines.stages.tasks import open_splits, read_split

SMALL = "small"  # of `encoders`: google/electra-small
CHARACTERS = 4_000_000  # of text that are fitted within half a minute
RESAMPLES = 500
SHORTEST = 8  # `length` of a fine-tuning
Rows = list[dict[str, Any]]


def first_scores(name: str, params: Params) -> list[str]:
    """Return a line of scores and a line of time for the task of an entry, or one that says why
    there are none.
    """
    source = params.tasks[name]
    assert isinstance(source, CustomTasks)
    ((task_name, config),) = source.tasks.items()
    task = custom_tasks.facts(task_name, config)
    splits: dict[str, Rows] = {}
    try:
        for _, split, rows in open_splits(source, f"tasks.{name}", Path()):
            if split != "test":
                kept = read_split(task_name, split, rows, f"tasks.{name}", source.quarantine)
                splits[split] = kept[0]
    except UserError as error:
        return [f"warning: no scores yet: {error}"]
    lengths = [len(row_text(row)) for row in splits["train"]]
    mean = statistics.fmean(lengths)
    lines = []
    if not task.tagging:
        count = max(1, min(FIT_ROWS, int(CHARACTERS / mean)))
        train = subset(splits["train"], count, seed=0)
        dev = subset(splits["dev"], count, seed=0)
        scores = ", ".join(score_simply(task, train, dev))
        rows_read = f"{len(train):,} training and {len(dev):,} dev rows"
        lines.append(f"without a network ({task.metrics[0]}, {rows_read}): {scores}")
    if SMALL not in params.encoders:
        return lines
    settings = params.task_config(name, task_name)
    length = min(settings.length, SHORTEST + round(mean / BYTES_A_TOKEN))
    small = params.encoders[SMALL]
    shorter = dataclasses.replace(settings, length=length)
    flops = finetuning_flops(task_name, name, shorter, small, cost.PUBLISHED_VOCABULARY, params)
    machine = cost.this_machine()
    time = cost.span(flops * len(settings.seeds), machine, small.hidden)
    runs = f"{len(settings.seeds)} fine-tunings of electra-small (docs/published.md)"
    lines.append(f"{runs}: {time} on {machine.name}, estimated")
    return lines


def row_text(row: dict[str, Any]) -> str:
    """Return all text of a row."""
    return " ".join(row.get("words") or [row["a"], row["b"] or ""])


def score_simply(task: Task, train: Rows, dev: Rows) -> list[str]:
    """Return a score with its 95 % interval over dev rows for each method, the best first."""
    metric = task.metrics[0]
    label = label_values(task, dev)
    scores = []
    for method, predicted in predict_simply(task, train, dev).items():
        points = score(metric, predicted, label)
        low, high = interval(metric, predicted, label)
        name = method.replace("_", " ")
        scores.append((points, f"{name} {points:.1f} ({low:.1f} to {high:.1f})"))
    return [text for _, text in sorted(scores, reverse=True)]


def interval(metric: str, predicted: Numbers, label: Numbers) -> tuple[float, float]:
    """Return the 95 % interval of a score over other dev rows: exact for accuracy, else by
    resampling the rows.
    """
    if metric == "accuracy":
        from scipy.stats import binomtest

        share = binomtest(int((predicted == label).sum()), len(label)).proportion_ci()
        return 100 * float(share.low), 100 * float(share.high)
    draw = np.random.default_rng(0)
    scores = []
    for _ in range(RESAMPLES):
        rows = draw.integers(len(label), size=len(label))
        scores.append(score(metric, predicted[rows], label[rows]))
    low, high = np.percentile(scores, [2.5, 97.5])
    return float(low), float(high)
