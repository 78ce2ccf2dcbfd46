"""The metrics of GLUE, in points from 0 to 100 (correlations from -100), equal to scikit-learn's
and scipy's.

Degenerate input has a defined value: a quotient 0 / 0 (one class everywhere, a constant, nothing
predicted positive) counts as 0. Empty or non-finite input is a programmer's error: rows are checked
and outputs are made finite before they come here.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]


def accuracy(predicted_N: Numbers, label_N: Numbers) -> float:
    """Return the share of predictions that equal their labels."""
    return 100 * float((predicted_N == label_N).mean())


def f1(predicted_N: Numbers, label_N: Numbers) -> float:
    """Return F1 of class 1: 2 tp / (2 tp + fp + fn)."""
    hits = float(((predicted_N == 1) & (label_N == 1)).sum())
    marked = float((predicted_N == 1).sum() + (label_N == 1).sum())
    return 200 * hits / marked if marked else 0.0


def macro_f1(predicted_N: Numbers, label_N: Numbers) -> float:
    """Return the unweighted mean of the F1 of each class that occurs in either."""
    classes = np.unique(np.concatenate([predicted_N, label_N]))
    scores = [f1(predicted_N == number, label_N == number) for number in classes]
    return float(np.mean(scores))


def matthews(predicted_N: Numbers, label_N: Numbers) -> float:
    """Return the Matthews correlation of any number of classes (Gorodkin's R_K): the correlation of
    their indicators.
    """
    classes = np.unique(np.concatenate([predicted_N, label_N]))
    return correlation(predicted_N[:, None] == classes, label_N[:, None] == classes)


def pearson(predicted_N: Numbers, label_N: Numbers) -> float:
    """Return the linear correlation, or 0 if either side is constant."""
    return correlation(predicted_N[:, None], label_N[:, None])


def correlation(x_NC: NDArray[Any], y_NC: NDArray[Any]) -> float:
    """Return Σ x y / √(Σ x² Σ y²), with the columns' means subtracted from x and y, or 0 if one is
    constant.
    """
    centred = []
    for values_NC in (x_NC, y_NC):
        if (values_NC == values_NC[0]).all():
            return 0.0
        scaled_NC = values_NC / np.abs(values_NC).max()  # squares of large numbers overflow
        deviations_NC = scaled_NC - scaled_NC.mean(0)
        centred.append(deviations_NC / np.linalg.norm(deviations_NC))
    return 100 * float((centred[0] * centred[1]).sum())


def spearman(predicted_N: Numbers, label_N: Numbers) -> float:
    """Return the correlation of ranks. Ties share their mean rank."""
    return pearson(ranks(predicted_N), ranks(label_N))


def ranks(values_N: Numbers) -> Numbers:
    """Return ranks from 1. Equal values get the mean of theirs."""
    _, group_N, size_G = np.unique(values_N, return_inverse=True, return_counts=True)
    last_G = np.cumsum(size_G)
    mean_G = last_G - (size_G - 1) / 2
    return np.asarray(mean_G[group_N.reshape(-1)], dtype=np.float64)


METRICS: dict[str, Callable[[Numbers, Numbers], float]] = {
    "accuracy": accuracy,
    "f1": f1,
    "macro_f1": macro_f1,
    "matthews": matthews,
    "pearson": pearson,
    "spearman": spearman,
}


def score(name: str, predicted_N: Numbers, label_N: Numbers) -> float:
    """Return one metric by name, in points, rounded to its meaningful digits."""
    assert len(predicted_N) == len(label_N) > 0, (
        "predictions and labels of the same, non-empty rows"
    )
    assert np.isfinite(predicted_N).all() and np.isfinite(label_N).all()
    return round(METRICS[name](predicted_N, label_N), 6)
