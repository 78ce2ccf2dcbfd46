"""Predictions of test sets: several seeds answering together, and the TSVs that GLUE's leaderboard takes."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from electra.errors import BadInput
from electra.finetuning import predictions
from electra.finetuning.tasks import Task

Lines = list[dict[str, Any]]

FILES = {  # (task, split) -> name in the archive that is handed in
    ("cola", "test"): "CoLA.tsv",
    ("sst2", "test"): "SST-2.tsv",
    ("mrpc", "test"): "MRPC.tsv",
    ("stsb", "test"): "STS-B.tsv",
    ("qqp", "test"): "QQP.tsv",
    ("mnli", "test"): "MNLI-m.tsv",
    ("mnli", "test_mismatched"): "MNLI-mm.tsv",
    ("mnli", "test_diagnostic"): "AX.tsv",
    ("qnli", "test"): "QNLI.tsv",
    ("rte", "test"): "RTE.tsv",
    ("wnli", "test"): "WNLI.tsv",
}


def tsv(task: Task, lines: Lines) -> str:
    """`index` and `prediction`: class names as in the training files, scores to three digits within their range."""
    rows = ["index\tprediction"]
    for line in lines:
        answer = line["prediction"]
        rows.append(
            f"{line['id']}\t{min(max(answer, 0.0), task.scale):.3f}" if task.regression else f"{line['id']}\t{answer}"
        )
    return "\n".join(rows) + "\n"


def ensemble(task: Task, runs: Sequence[Lines]) -> Lines:
    """One prediction for each row from those of several runs: mean probabilities, or for regression the mean score."""
    first = runs[0]
    for number, run in enumerate(runs[1:], 2):
        for row, (one, other) in enumerate(zip(first, run, strict=True), 1):
            if one["id"] != other["id"]:
                raise BadInput(f"run {number}, row {row}", f"predicts {other['id']}", f"{one['id']}, as the first run")
    logits_RNC = np.array([[line["logits"] for line in run] for run in runs], dtype=np.float64)
    if not task.regression:
        logits_RNC = np.log(np.maximum(predictions.softmax(logits_RNC), 1e-30).mean(0, keepdims=True))
    rows = [{"id": line["id"], "label": line["label"]} for line in first]
    return predictions.lines(task, rows, logits_RNC.mean(0))
