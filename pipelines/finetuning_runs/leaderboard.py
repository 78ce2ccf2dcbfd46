"""Combine the runs of a task: GLUE's submission files, and ensembles of several seeds."""

from collections.abc import Sequence

import numpy as np

from electra.finetuning.predictions import Records, decode, records, scores, softmax
from electra.finetuning.tasks import GLUE, Task

FILES = {  # (task, split) -> name in the archive that is handed in
    **{(name, "test"): f"{task.title}.tsv" for name, task in GLUE.items()},
    ("mnli", "test"): "MNLI-m.tsv",
    ("mnli", "test_mismatched"): "MNLI-mm.tsv",
    ("mnli", "test_diagnostic"): "AX.tsv",
}


def score_records(task: Task, lines: Records) -> dict[str, float]:
    """Return every metric of the task from the `records` of labelled rows."""
    logits_NC = np.array([line["logits"] for line in lines], dtype=np.float64)
    return scores(task, lines, decode(task, logits_NC))


def to_tsv(task: Task, lines: Records) -> str:
    """Return `index` and `prediction`: class names as in the training files, scores to three digits
    within their range.
    """
    rows = ["index\tprediction"]
    for line in lines:
        answer = line["prediction"]
        answer = f"{min(max(answer, 0.0), task.scale):.3f}" if task.regression else answer
        rows.append(f"{line['id']}\t{answer}")
    return "\n".join(rows) + "\n"


def ensemble(task: Task, runs: Sequence[Records]) -> Records:
    """Return one prediction for each row from those of several runs: mean probabilities, or for
    regression the mean score.
    """
    logits_RNC = np.array([[line["logits"] for line in run] for run in runs], dtype=np.float64)
    if not task.regression:
        logits_RNC = np.log(np.maximum(softmax(logits_RNC), 1e-30).mean(0, keepdims=True))
    rows = [{"id": line["id"], "label": line["label"]} for line in runs[0]]
    return records(task, rows, logits_RNC.mean(0))
