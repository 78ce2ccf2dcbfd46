"""SQuAD rows as windows of tokens.

1. check the rows: text present, each answer where it says it stands
2. question and context -> word pieces, the context's with their places in the text
3. long contexts -> windows `[CLS] question [SEP] part [SEP]` of bounded length, each starting
  `stride` pieces on
4. the gold answer -> its first and last piece; a window that does not hold it whole points at [CLS]

Every word piece of a context belongs to the window where it has most context on its poorer side
("max context"): only there may an answer begin.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from electra.data.tokenizer import Tokenizer
from electra.errors import BadInput
from electra.finetuning.batches import stack
from electra.finetuning.task_kind import Encoded, Row
from electra.finetuning.tasks import SquadConfig


@dataclass(frozen=True)
class Window:
    """The part of a context that a row of tokens covers."""

    question: int  # index of the question's row
    first: int  # index in the context of its first piece
    count: int  # context pieces it holds
    offset: int  # position of the first context piece in the row
    owned: NDArray[np.bool_]  # (count,) whether the piece has its max context here


@dataclass(frozen=True)
class EncodedQuestions(Encoded):
    """Questions with their windows: `examples` has a row for each."""

    windows: list[Window]
    places: list[NDArray[np.int64]]  # of each question's context, (pieces, 2)


def check_row(row: Row, where: str) -> None:
    """Raise BadInput for a row without text, or with an answer that is not where it says."""
    context = row.get("context")
    if not isinstance(context, str) or not isinstance(row.get("question"), str):
        raise BadInput(
            f'{where}: is {row!r:.80}; expected an object with text under "id", "question" and '
            '"context"'
        )
    if not isinstance(row.get("answers"), list) or not isinstance(row.get("impossible"), bool):
        raise BadInput(
            f'{where}: lacks its answers; expected a list under "answers" and true or false under '
            '"impossible"'
        )
    for answer in row["answers"]:
        text = answer.get("text")
        start = answer.get("start")
        typed = isinstance(text, str) and type(start) is int
        there = context[start : start + len(text)] if typed else None
        if not text or there != text or start < 0:
            raise BadInput(
                f"{where}: has the answer {text!r} at {start!r}, where the context reads {there!r}"
            )
    if row["impossible"] == bool(row["answers"]):
        fault = "answers though it is impossible" if row["impossible"] else "no answer"
        raise BadInput(f"{where}: has {fault}; expected answers, or impossible: true")


def encode(rows: list[Row], tokenizer: Tokenizer, config: SquadConfig) -> EncodedQuestions:
    """Cut rows into windows. Targets: `start` and `end` (positions in the row), `impossible` (of
    the question).
    """
    texts = sorted({row["context"] for row in rows})
    contexts = {text: tokenizer.encode(text) for text in texts}
    questions = tokenizer.encode_lines([row["question"] for row in rows])
    windows: list[Window] = []
    sequences: list[list[int]] = []
    span_N2: list[tuple[int, int]] = []
    for number, (row, question) in enumerate(zip(rows, questions, strict=True)):
        ids, places = contexts[row["context"]]
        prefix = [tokenizer.cls_id, *question[: config.question_length], tokenizer.sep_id]
        gold = _gold(row, places)
        for first, count, owned in _cuts(len(ids), config.length - len(prefix) - 1, config.stride):
            windows.append(Window(number, first, count, len(prefix), owned))
            sequences.append([*prefix, *ids[first : first + count], tokenizer.sep_id])
            shift = len(prefix) - first
            inside = first <= gold[0] and gold[1] < first + count
            span_N2.append((gold[0] + shift, gold[1] + shift) if inside else (0, 0))
    start_N, end_N = np.array(span_N2, dtype=np.int64).T
    window_rows = [rows[window.question] for window in windows]
    targets: dict[str, NDArray[Any]] = {
        "start": start_N,
        "end": end_N,
        "impossible": np.array([row["impossible"] for row in window_rows], dtype=np.float32),
    }
    starts = [window.offset for window in windows]
    examples = stack(sequences, starts, targets, [row["id"] for row in window_rows])
    return EncodedQuestions(rows, examples, windows, [contexts[row["context"]][1] for row in rows])


def _gold(row: dict[str, Any], places_P2: NDArray[np.int64]) -> tuple[int, int]:
    """Return the first and last piece that the first gold answer touches, or -1, which no window
    holds.
    """
    if row["impossible"]:
        return -1, -1
    begin = row["answers"][0]["start"]
    end = begin + len(row["answers"][0]["text"])
    touched = np.flatnonzero((places_P2[:, 1] > begin) & (places_P2[:, 0] < end))
    return (int(touched[0]), int(touched[-1])) if len(touched) else (-1, -1)


def _cuts(pieces: int, room: int, stride: int) -> list[tuple[int, int, NDArray[np.bool_]]]:
    """Return (first, count, owned) of each window over a context of so many pieces. Windows overlap
    by room - stride.
    """
    firsts = range(0, max(0, pieces - room) + stride, stride)
    parts = [slice(first, min(first + room, pieces)) for first in firsts]
    best_P = np.full(pieces, -1.0)
    owner_P = np.zeros(pieces, dtype=np.int64)
    for number, part in enumerate(parts):
        count = part.stop - part.start
        at = np.arange(count)
        context = np.minimum(at, count - 1 - at) + 0.01 * count
        better = context > best_P[part]
        best_P[part][better] = context[better]
        owner_P[part][better] = number
    return [
        (part.start, part.stop - part.start, owner_P[part] == number)
        for number, part in enumerate(parts)
    ]
