"""From a classifier's logits to predictions and scores, and what shows that a run has failed.

A failed run (outputs that are not finite, or one answer to every row) keeps its place and its score in every table and
is named beside it. Logits that are not finite count as 0, so such a run still has predictions: the first label.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from electra.finetuning.metrics import score
from electra.finetuning.tasks import Task

Logits = NDArray[Any]


def answers(task: Task, logits_NC: Logits) -> NDArray[np.float64]:
    """Class indices, or for regression the output on the label's own scale."""
    logits_NC = finite(logits_NC)
    if task.regression:
        return np.array([rounded(value * task.scale) for value in logits_NC[:, 0]], dtype=np.float64)
    return np.asarray(logits_NC.argmax(-1), dtype=np.float64)


def finite(values: Logits) -> Logits:
    """0 in place of every NaN and infinity."""
    return np.where(np.isfinite(values), values, 0).astype(values.dtype)


def probabilities(logits_C: Logits) -> list[float]:
    """The softmax of one row's logits."""
    return [rounded(value) for value in softmax(logits_C.astype(np.float64))]


def softmax(logits_XC: Logits) -> Logits:
    """Shares that add up to 1 along the last axis, which may be empty."""
    shifted = np.exp(logits_XC - logits_XC.max(-1, keepdims=True, initial=-np.inf))
    return np.asarray(shifted / shifted.sum(-1, keepdims=True))


def lines(task: Task, rows: list[dict[str, Any]], logits_NC: Logits) -> list[dict[str, Any]]:
    """One record for each row: id, prediction (label name or number), gold label (null if there is none), logits."""
    predicted_N = answers(task, logits_NC)
    return [
        {
            "id": row["id"],
            "prediction": float(predicted) if task.regression else task.labels[int(predicted)],
            "label": row.get("label"),
            "logits": [rounded(value) for value in logits_C],
        }
        for row, predicted, logits_C in zip(rows, predicted_N, finite(logits_NC), strict=True)
    ]


def scores(task: Task, rows: list[dict[str, Any]], logits_NC: Logits) -> dict[str, float]:
    """Every metric of the task against the rows' labels, in points."""
    predicted_N, label_N = answers(task, logits_NC), numbers(task, rows)
    return {name: score(name, predicted_N, label_N) for name in task.metrics}


def numbers(task: Task, rows: Sequence[Mapping[str, Any]]) -> NDArray[np.float64]:
    """The labels of rows: class indices, or scores as they are."""
    index: dict[Any, int] = {name: number for number, name in enumerate(task.labels)}
    return np.array([row["label"] if task.regression else index[row["label"]] for row in rows], dtype=np.float64)


def score_lines(task: Task, records: list[dict[str, Any]]) -> dict[str, float]:
    """Every metric of the task from what `lines` made of labelled rows."""
    return scores(task, records, np.array([record["logits"] for record in records], dtype=np.float64))


def fault(task: Task, rows: list[dict[str, Any]], logits_NC: Logits) -> str | None:
    """Why a run counts as failed though its outputs are finite, in words; None if it does not."""
    predicted_N = answers(task, logits_NC)
    if len({row["label"] for row in rows}) > 1 and np.ptp(predicted_N) == 0:
        answer = f"{predicted_N[0]:g}" if task.regression else task.labels[int(predicted_N[0])]
        return f"{answer} was predicted for every row"
    return None


def rounded(value: float) -> float:
    """Six significant digits: all that a 32-bit number means."""
    return float(f"{value:.6g}")
