"""From the head's best positions to answers: candidates of all windows of a question pooled, n-best, null score.

A candidate begins where its piece has its max context, ends in the same context not before it begins, and is at most
`answer_length` pieces long. Its text is cut from the context by the pieces' places, so it needs no re-alignment.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from electra.finetuning.squad import Reading
from electra.finetuning.tasks import SquadConfig

Outputs = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Answers:
    """By question id: the best span ("" if there is none), the null score, and the n best spans with log-probabilities."""

    spans: dict[str, str]
    null: dict[str, float]
    n_best: dict[str, list[tuple[str, float]]]

    def given(self, threshold: float | None) -> dict[str, str]:
        """The answers as handed in: left empty where the null score is above the threshold (None: never)."""
        if threshold is None:
            return self.spans
        return {key: "" if self.null[key] > threshold else text for key, text in self.spans.items()}


def find(reading: Reading, outputs: Outputs, config: SquadConfig) -> Answers:
    """Answers of every question. Outputs are SpanFinder's, one row a window (W), K starts with K ends each.

    The null score is the least over a question's windows of the answerability logit; without that head it is
    log p([CLS], [CLS]) less the score of the best span, as BERT has it.
    """
    window_C, start_C, end_C, score_C = _candidates(reading, outputs, config)
    question_W = np.array([window.question for window in reading.windows])
    null_Q = np.full(len(reading.rows), np.inf)
    np.minimum.at(null_Q, question_W, outputs["null"].astype(np.float64))
    best: list[list[tuple[str, float]]] = [[] for _ in reading.rows]
    seen: list[set[str]] = [set() for _ in reading.rows]
    for index in np.lexsort((end_C, start_C, window_C, -score_C, question_W[window_C])):
        window = reading.windows[window_C[index]]
        found = best[window.question]
        if len(found) == config.n_best:
            continue
        places_P2 = reading.places[window.question]
        shift = window.first - window.offset
        begin, end = places_P2[start_C[index] + shift, 0], places_P2[end_C[index] + shift, 1]
        text = reading.rows[window.question]["context"][begin:end]
        if text not in seen[window.question]:
            seen[window.question].add(text)
            found.append((text, _rounded(score_C[index])))
    ids = [row["id"] for row in reading.rows]
    if not config.answerability:
        null_Q = null_Q - np.array([found[0][1] if found else -np.inf for found in best])
    return Answers(
        spans={key: found[0][0] if found else "" for key, found in zip(ids, best, strict=True)},
        null={key: _rounded(min(max(value, -1e9), 1e9)) for key, value in zip(ids, null_Q, strict=True)},
        n_best=dict(zip(ids, best, strict=True)),
    )


def _candidates(
    reading: Reading, outputs: Outputs, config: SquadConfig
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Window, start, end and score of each allowed candidate (C)."""
    longest = int(reading.examples.length_N.max())
    owned_WL = np.zeros((len(reading.windows), longest), dtype=bool)  # where an answer may begin
    inside_WL = np.zeros((len(reading.windows), longest), dtype=bool)  # where it may end
    for row, window in enumerate(reading.windows):
        owned_WL[row, window.offset : window.offset + window.count] = window.owned
        inside_WL[row, window.offset : window.offset + window.count] = True
    start_WK, end_WKK = outputs["start"], outputs["end"]
    score_WKK = outputs["start_score"].astype(np.float64)[:, :, None] + outputs["end_score"].astype(np.float64)
    row_W = np.arange(len(reading.windows))
    length_WKK = end_WKK - start_WK[:, :, None] + 1
    allowed_WKK = (
        owned_WL[row_W[:, None], start_WK][:, :, None]
        & inside_WL[row_W[:, None, None], end_WKK]
        & (length_WKK >= 1)
        & (length_WKK <= config.answer_length)
        & np.isfinite(score_WKK)
    )
    window_C, k_C, j_C = np.nonzero(allowed_WKK)
    return window_C, start_WK[window_C, k_C], end_WKK[window_C, k_C, j_C], score_WKK[window_C, k_C, j_C]


def _rounded(value: float) -> float:
    """Six significant digits: all that a 32-bit number means."""
    return float(f"{value:.6g}")
