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
from electra.finetuning.predictions import replace_nonfinite, rounded, softmax
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
    """The answer to a question: its null score and its n best spans, the best first."""

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
        """Return the arrays as a file has them."""
        return {name: torch.from_numpy(values) for name, values in vars(self).items()}

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor]) -> "Candidates":
        """Return the arrays of a file."""
        return cls(**{name: values.numpy() for name, values in tensors.items()})


def official(answer: Answer, candidates: Candidates, outputs: OutputArrays) -> list[dict[str, Any]]:
    """Return the n best spans in the official form. A span's logits are its log-probabilities,
    which add up to its score.
    """
    result: list[dict[str, Any]] = []
    share_S = softmax(np.array([span.score for span in answer.spans]))
    for span, share in zip(answer.spans, share_S, strict=True):
        window = candidates.window_C[span.candidate]
        beam = int((outputs["start"][window] == candidates.start_C[span.candidate]).argmax())
        start = float(outputs["start_score"][window, beam])
        result.append(
            {
                "text": span.text,
                "probability": rounded(share),
                "start_logit": rounded(start),
                "end_logit": rounded(float(candidates.score_C[span.candidate]) - start),
            }
        )
    return result


def mean(runs: Sequence[Candidates], config: SquadConfig) -> Candidates:
    """Return the candidates of several runs with their mean probabilities. A candidate outside of a
    run's beam has probability 0 in that run.

    Null scores: the mean probability that there is no answer, as a logit again (without the
    answerability head: the mean probability of the span [CLS], as its logarithm).
    """
    places_C3 = np.concatenate(
        [np.stack([run.window_C, run.start_C, run.end_C], 1) for run in runs]
    )
    spans_C3, span_C = np.unique(places_C3, axis=0, return_inverse=True)
    score_C = np.full(len(spans_C3), -np.inf)
    np.logaddexp.at(score_C, span_C.reshape(-1), np.concatenate([run.score_C for run in runs]))
    null_RW = np.stack([run.null_W for run in runs])
    if config.answerability:  # log mean sigmoid(x) - log mean sigmoid(-x)
        no_W = np.logaddexp.reduce(-np.logaddexp(0, -null_RW))
        null_W = no_W - np.logaddexp.reduce(-np.logaddexp(0, null_RW))
    else:
        null_W = np.logaddexp.reduce(null_RW) - np.log(len(runs))
    window_C, start_C, end_C = np.ascontiguousarray(spans_C3.T)
    return Candidates(window_C, start_C, end_C, score_C - np.log(len(runs)), null_W)


def choose(questions: EncodedQuestions, pooled: Candidates, config: SquadConfig) -> list[Answer]:
    """Return the answer to every question.

    The null score is the least over a question's windows of the answerability logit. Without that
    head it is log p([CLS], [CLS]) minus the score of the best span, as in BERT.
    """
    question_W = np.array([window.question for window in questions.windows])
    null_Q = np.full(len(questions.rows), np.inf)
    np.minimum.at(null_Q, question_W, pooled.null_W)
    best: list[list[Span]] = [[] for _ in questions.rows]
    # by question, the highest score first; equal ones in the order of the text
    keys = (pooled.end_C, pooled.start_C, pooled.window_C, -pooled.score_C)
    for index in np.lexsort((*keys, question_W[pooled.window_C])):
        window = questions.windows[pooled.window_C[index]]
        spans = best[window.question]
        if len(spans) == config.n_best:
            continue
        places_P2 = questions.places[window.question]
        shift = window.first - window.offset
        begin = int(places_P2[pooled.start_C[index] + shift, 0])
        end = int(places_P2[pooled.end_C[index] + shift, 1])
        text = questions.rows[window.question]["context"][begin:end]
        if text not in {span.text for span in spans}:
            spans.append(Span(text, rounded(pooled.score_C[index]), begin, int(index)))
    if not config.answerability:
        null_Q = null_Q - np.array([spans[0].score if spans else -np.inf for spans in best])
    null_Q = np.clip(null_Q, -1e9, 1e9)
    return [Answer(rounded(null), spans) for null, spans in zip(null_Q, best, strict=True)]


def candidates(
    questions: EncodedQuestions, outputs: OutputArrays, config: SquadConfig
) -> Candidates:
    """Return every allowed candidate in the beams of all windows: SpanFinder's outputs, K starts
    with K ends each.

    A span without a finite score does not count: a beam is filled with -inf where it is longer than
    its row, NaN where training has failed.
    """
    shape = (len(questions.windows), int(questions.examples.length_N.max()))
    may_begin_WL = np.zeros(shape, dtype=bool)
    may_end_WL = np.zeros(shape, dtype=bool)
    for row, window in enumerate(questions.windows):
        context = slice(window.offset, window.offset + window.count)
        may_begin_WL[row, context] = window.owned
        may_end_WL[row, context] = True
    start_WK1 = outputs["start"][:, :, None]
    end_WKK = outputs["end"]
    start_score_WK1 = outputs["start_score"].astype(np.float64)[:, :, None]
    score_WKK = start_score_WK1 + outputs["end_score"].astype(np.float64)
    row_W11 = np.arange(len(questions.windows))[:, None, None]
    length_WKK = end_WKK - start_WK1 + 1
    allowed_WKK = (
        may_begin_WL[row_W11, start_WK1]
        & may_end_WL[row_W11, end_WKK]
        & (length_WKK >= 1)
        & (length_WKK <= config.answer_length)
        & np.isfinite(score_WKK)
    )
    chosen = np.nonzero(allowed_WKK)
    return Candidates(
        chosen[0],
        outputs["start"][chosen[:2]],
        end_WKK[chosen],
        score_WKK[chosen],
        replace_nonfinite(outputs["null"]).astype(np.float64),
    )
