"""The metrics of GLUE, in points from 0 to 100 (correlations from -100), equal to scikit-learn's
and scipy's.

Degenerate input has a defined value: what would be 0 / 0 (one class everywhere, a constant, nothing
predicted positive) counts as 0. Empty or non-finite input is a programmer's error: rows are checked
and outputs are made finite before they come here.
"""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]


def accuracy(predicted_N: Numbers, label_N: Numbers) -> float:
    """Return the share of predictions that equal their labels."""
    return 100 * float((predicted_N == label_N).mean())


def f1(predicted_N: Numbers, label_N: Numbers) -> float:
    """Return F1 of class 1: 2 tp / (2 tp + fp + fn)."""
    hits = float(((predicted_N == 1) & (label_N == 1)).sum())
    errors = float(((predicted_N == 1) != (label_N == 1)).sum())
    return 100 * _ratio(2 * hits, 2 * hits + errors)


def macro_f1(predicted_N: Numbers, label_N: Numbers) -> float:
    """Return the plain mean over the classes that occur in either of each one's F1."""
    classes = np.unique(np.concatenate([predicted_N, label_N]))
    return float(
        np.mean([f1((predicted_N == each) * 1.0, (label_N == each) * 1.0) for each in classes])
    )


def matthews(predicted_N: Numbers, label_N: Numbers) -> float:
    """Matthews correlation of any number of classes (Gorodkin's R_K): normalised covariance of the
    confusion matrix.
    """
    classes = np.unique(np.concatenate([predicted_N, label_N]))
    predicted_NC = (predicted_N[:, None] == classes).astype(np.float64)
    label_NC = (label_N[:, None] == classes).astype(np.float64)
    count = len(label_N)
    predicted_C, label_C = predicted_NC.sum(0), label_NC.sum(0)
    joint = count * float((predicted_NC * label_NC).sum()) - float(predicted_C @ label_C)
    spread = (count**2 - float(predicted_C @ predicted_C)) * (count**2 - float(label_C @ label_C))
    return 100 * _ratio(joint, math.sqrt(spread))


def pearson(predicted_N: Numbers, label_N: Numbers) -> float:
    """Return the linear correlation; 0 if either side is constant."""
    if np.ptp(predicted_N) == 0 or np.ptp(label_N) == 0:
        return 0.0
    x_N, y_N = predicted_N - predicted_N.mean(), label_N - label_N.mean()
    x_N, y_N = x_N / np.linalg.norm(x_N), y_N / np.linalg.norm(y_N)
    return 100 * max(-1.0, min(1.0, float(x_N @ y_N)))


def spearman(predicted_N: Numbers, label_N: Numbers) -> float:
    """Return the correlation of ranks; ties share their mean rank."""
    return pearson(ranks(predicted_N), ranks(label_N))


def ranks(values_N: Numbers) -> Numbers:
    """Return ranks from 1; equal values get the mean of theirs."""
    _, group_N, size_G = np.unique(values_N, return_inverse=True, return_counts=True)
    last_G = np.cumsum(size_G)
    mean_G = last_G - (size_G - 1) / 2
    return np.asarray(mean_G[group_N.reshape(-1)], dtype=np.float64)


def _ratio(above: float, below: float) -> float:
    return above / below if below else 0.0


METRICS: dict[str, Callable[[Numbers, Numbers], float]] = {
    "accuracy": accuracy,
    "f1": f1,
    "macro_f1": macro_f1,
    "matthews": matthews,
    "pearson": pearson,
    "spearman": spearman,
}


def score(name: str, predicted_N: Numbers, label_N: Numbers) -> float:
    """Return one metric by name, in points, rounded to what is meaningful to store."""
    assert len(predicted_N) == len(label_N) > 0, (
        "predictions and labels of the same, non-empty rows"
    )
    assert np.isfinite(predicted_N).all() and np.isfinite(label_N).all()
    return round(METRICS[name](predicted_N.astype(np.float64), label_N.astype(np.float64)), 6)
