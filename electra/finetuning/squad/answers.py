"""From the head's best positions to answers: candidates of all windows of a question pooled,
n-best, null score.

A candidate begins where its piece has its max context, ends in the same context not before it
begins, and is at most `answer_length` pieces long. Its text is cut from the context by the pieces'
places, so it needs no re-alignment.

Several runs answer together by the mean of their probabilities, span by span and window by window.

Shapes: W windows, C candidates of all of them, Q questions, K beam, L longest row.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from electra.finetuning.heads import OutputArrays
from electra.finetuning.predictions import finite, rounded, softmax
from electra.finetuning.squad.windows import EncodedQuestions
from electra.finetuning.tasks import SquadConfig


@dataclass(frozen=True)
class Span:
    """A candidate as text."""

    text: str
    score: float  # log-probability
    begin: int  # place in the context
    candidate: int


@dataclass(frozen=True)
class Answer:
    """What is said of a question: its null score and its n best spans, the best first."""

    null: float
    spans: list[Span]

    @property
    def best(self) -> str:
        """The best span's text, "" if there is none."""
        return self.spans[0].text if self.spans else ""


@dataclass(frozen=True)
class Candidates:
    """Spans that may be answers, with the log-probability of each in its window, and the null score
    of each window.
    """

    window_C: NDArray[np.int64]
    start_C: NDArray[np.int64]
    end_C: NDArray[np.int64]
    score_C: NDArray[np.float64]
    null_W: NDArray[np.float64]

    def tensors(self) -> dict[str, Tensor]:
        """For a file."""
        return {name: torch.from_numpy(values) for name, values in vars(self).items()}

    @classmethod
    def of_tensors(cls, tensors: dict[str, Tensor]) -> "Candidates":
        """From a file."""
        return cls(**{name: values.numpy() for name, values in tensors.items()})


def official(answer: Answer, candidates: Candidates, outputs: OutputArrays) -> list[dict[str, Any]]:
    """The n best spans in the official form; a span's logits are its log-probabilities, which add
    up to its score.
    """
    result: list[dict[str, Any]] = []
    shares_S = softmax(np.array([span.score for span in answer.spans]))
    for span, share in zip(answer.spans, shares_S, strict=True):
        window = candidates.window_C[span.candidate]
        beam = int((outputs["start"][window] == candidates.start_C[span.candidate]).argmax())
        start = float(outputs["start_score"][window, beam])
        end = float(candidates.score_C[span.candidate]) - start
        numbers = {"probability": share, "start_logit": start, "end_logit": end}
        result.append(
            {"text": span.text, **{name: rounded(value) for name, value in numbers.items()}}
        )
    return result


def mean(runs: Sequence[Candidates], config: SquadConfig) -> Candidates:
    """The candidates of several runs with their mean probabilities; one that a run's beam left out
    has none there.

    Null scores: the mean probability that there is no answer, as a logit again (without the
    answerability head: the mean probability of the span [CLS], as its logarithm).
    """
    window_C, start_C, end_C = (
        np.concatenate([getattr(run, name) for run in runs])
        for name in ("window_C", "start_C", "end_C")
    )
    spans_C3, place_C = np.unique(
        np.stack([window_C, start_C, end_C], 1), axis=0, return_inverse=True
    )
    score_C = np.full(len(spans_C3), -np.inf)
    np.logaddexp.at(score_C, place_C.reshape(-1), np.concatenate([run.score_C for run in runs]))
    null_RW = np.stack([run.null_W for run in runs])
    if config.answerability:  # log mean sigmoid(x) - log mean sigmoid(-x)
        null_W = np.logaddexp.reduce(-np.logaddexp(0, -null_RW)) - np.logaddexp.reduce(
            -np.logaddexp(0, null_RW)
        )
    else:
        null_W = np.logaddexp.reduce(null_RW) - np.log(len(runs))
    window_C, start_C, end_C = np.ascontiguousarray(spans_C3.T)
    return Candidates(window_C, start_C, end_C, score_C - np.log(len(runs)), null_W)


def choose(reading: EncodedQuestions, found: Candidates, config: SquadConfig) -> list[Answer]:
    """Return the answer to every question.

    The null score is the least over a question's windows of the answerability logit; without that
    head it is log p([CLS], [CLS]) less the score of the best span, as BERT has it.
    """
    window_C, start_C, end_C, score_C = found.window_C, found.start_C, found.end_C, found.score_C
    question_W = np.array([window.question for window in reading.windows])
    null_Q = np.full(len(reading.rows), np.inf)
    np.minimum.at(null_Q, question_W, found.null_W)
    best: list[list[Span]] = [[] for _ in reading.rows]
    for index in np.lexsort((end_C, start_C, window_C, -score_C, question_W[window_C])):
        window = reading.windows[window_C[index]]
        spans = best[window.question]
        if len(spans) == config.n_best:
            continue
        places_P2 = reading.places[window.question]
        shift = window.first - window.offset
        begin, end = (
            int(places_P2[start_C[index] + shift, 0]),
            int(places_P2[end_C[index] + shift, 1]),
        )
        text = reading.rows[window.question]["context"][begin:end]
        if text not in {span.text for span in spans}:
            spans.append(Span(text, rounded(score_C[index]), begin, int(index)))
    if not config.answerability:
        null_Q = null_Q - np.array([spans[0].score if spans else -np.inf for spans in best])
    return [
        Answer(rounded(null), spans)
        for null, spans in zip(np.clip(null_Q, -1e9, 1e9), best, strict=True)
    ]


def candidates(reading: EncodedQuestions, outputs: OutputArrays, config: SquadConfig) -> Candidates:
    """Return every allowed candidate in the beams of all windows: SpanFinder's outputs, K starts
    with K ends each.

    A span whose score is not finite is none: -inf stands where a beam has more places than its row,
    NaN where training has failed.
    """
    longest = int(reading.examples.length_N.max())
    owned_WL = np.zeros((len(reading.windows), longest), dtype=bool)  # where an answer may begin
    inside_WL = np.zeros((len(reading.windows), longest), dtype=bool)  # where it may end
    for row, window in enumerate(reading.windows):
        owned_WL[row, window.offset : window.offset + window.count] = window.owned
        inside_WL[row, window.offset : window.offset + window.count] = True
    start_WK, end_WKK = outputs["start"], outputs["end"]
    score_WKK = outputs["start_score"].astype(np.float64)[:, :, None] + outputs["end_score"].astype(
        np.float64
    )
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
    return Candidates(
        window_C,
        start_WK[window_C, k_C],
        end_WKK[window_C, k_C, j_C],
        score_WKK[window_C, k_C, j_C],
        finite(outputs["null"]).astype(np.float64),
    )
