"""From a classifier's logits to predictions and scores, and signs that a run has failed.

A failed run (outputs that are not finite, or one answer to every row) keeps its place and its score
in every table and is marked there. Logits that are not finite count as 0, so such a run still has
predictions: the first label.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from electra.finetuning.metrics import score
from electra.finetuning.tasks import Task

Logits = NDArray[Any]
Records = list[dict[str, Any]]


def decode(task: Task, logits_NC: Logits) -> NDArray[np.float64]:
    """Return class indices, or for regression the output on the label's own scale."""
    logits_NC = replace_nonfinite(logits_NC)
    if task.regression:
        return np.array(
            [rounded(value * task.scale) for value in logits_NC[:, 0]], dtype=np.float64
        )
    return np.asarray(logits_NC.argmax(-1), dtype=np.float64)


def replace_nonfinite(values: Logits) -> Logits:
    """Put 0 in place of every NaN and infinity."""
    return np.where(np.isfinite(values), values, 0).astype(values.dtype)


def softmax(logits_XC: Logits) -> Logits:
    """Return shares that add up to 1 along the last axis, which may be empty."""
    shifted = np.exp(logits_XC - logits_XC.max(-1, keepdims=True, initial=-np.inf))
    return np.asarray(shifted / shifted.sum(-1, keepdims=True))


def records(task: Task, rows: Records, logits_NC: Logits) -> Records:
    """Return a record for each row: id, prediction (label name or number), gold label (or null),
    logits.
    """
    predicted_N = decode(task, logits_NC)
    return [
        {
            "id": row["id"],
            "prediction": float(predicted) if task.regression else task.labels[int(predicted)],
            "label": row.get("label"),
            "logits": [rounded(value) for value in logits_C],
        }
        for row, predicted, logits_C in zip(
            rows, predicted_N, replace_nonfinite(logits_NC), strict=True
        )
    ]


def scores(task: Task, rows: Sequence[Mapping[str, Any]], predicted_N: Logits) -> dict[str, float]:
    """Return every metric of the task against the rows' labels, in points. Predictions as `decode`
    gives them.
    """
    label_N = label_values(task, rows)
    return {name: score(name, predicted_N, label_N) for name in task.metrics}


def label_values(task: Task, rows: Sequence[Mapping[str, Any]]) -> NDArray[np.float64]:
    """Return the labels of rows: class indices, or scores as they are."""
    index: dict[Any, int] = {name: number for number, name in enumerate(task.labels)}
    return np.array(
        [row["label"] if task.regression else index[row["label"]] for row in rows], dtype=np.float64
    )


def fault(task: Task, rows: Records, predicted_N: Logits) -> str | None:
    """Return why a run counts as failed though its outputs are finite, in words, or None if it does
    not.
    """
    if len({row["label"] for row in rows}) > 1 and np.ptp(predicted_N) == 0:
        answer = f"{predicted_N[0]:g}" if task.regression else task.labels[int(predicted_N[0])]
        return f"{answer} was predicted for every row"
    return None


def rounded(value: float) -> float:
    """Round to six significant digits: all that a 32-bit number means."""
    return float(f"{value:.6g}")
