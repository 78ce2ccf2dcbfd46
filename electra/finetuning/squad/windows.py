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
    """Where a row of tokens comes from."""

    question: int  # index of the question's row
    first: int  # index in the context of its first piece
    count: int  # context pieces it holds
    offset: int  # position of the first context piece in the row
    owned: NDArray[np.bool_]  # (count,) whether the piece has its max context here


@dataclass(frozen=True)
class Reading(Encoded):
    """Questions: `examples` has a row for each window; `places` has the pieces' (begin, end) in
    each context.
    """

    windows: list[Window]
    places: list[NDArray[np.int64]]  # of each question's context, (pieces, 2)


def check_row(row: Row, where: str) -> None:
    """Raise BadInput for a row without text, or with an answer that does not stand where it says."""
    if not all(isinstance(row.get(key), str) for key in ("question", "context")):
        raise BadInput(
            f'{where}: is {row!r:.80}; expected an object with text under "id", "question" and "context"'
        )
    if not isinstance(row.get("answers"), list) or not isinstance(row.get("impossible"), bool):
        raise BadInput(
            f'{where}: lacks its answers; expected a list under "answers" and true or false under "impossible"'
        )
    for answer in row["answers"]:
        text, start = answer.get("text"), answer.get("start")
        found = (
            row["context"][start : start + len(text)]
            if isinstance(text, str) and type(start) is int
            else None
        )
        if found is None or start < 0 or found != text or not text:
            raise BadInput(
                f"{where}: has the answer {text!r} at {start!r}, where the context reads {found!r}"
            )
    if row["impossible"] == bool(row["answers"]):
        found = "no answer" if row["impossible"] is False else "answers though it is impossible"
        raise BadInput(f"{where}: has {found}; expected answers, or impossible: true")


def encode(rows: list[Row], tokenizer: Tokenizer, config: SquadConfig) -> Reading:
    """Cut rows into windows. Targets: `start` and `end` (positions in the row), `impossible` (of
    the question).
    """
    texts = sorted({row["context"] for row in rows})
    contexts = {text: tokenizer.encode(text) for text in texts}
    questions = tokenizer.encode_lines([row["question"] for row in rows])
    windows: list[Window] = []
    sequences: list[list[int]] = []
    starts: list[int] = []
    spans: list[tuple[int, int]] = []
    for number, (row, question) in enumerate(zip(rows, questions, strict=True)):
        ids, places = contexts[row["context"]]
        prefix = [tokenizer.cls_id, *question[: config.question_length], tokenizer.sep_id]
        gold = _gold(row, places)
        for first, count, owned in _cuts(len(ids), config.length - len(prefix) - 1, config.stride):
            windows.append(Window(number, first, count, len(prefix), owned))
            sequences.append([*prefix, *ids[first : first + count], tokenizer.sep_id])
            starts.append(len(prefix))
            inside = gold is not None and first <= gold[0] and gold[1] < first + count
            spans.append(
                (gold[0] - first + len(prefix), gold[1] - first + len(prefix))
                if inside and gold
                else (0, 0)
            )
    span_N2 = np.array(spans, dtype=np.int64)
    impossible_N = np.array(
        [rows[window.question]["impossible"] for window in windows], dtype=np.float32
    )
    targets: dict[str, NDArray[Any]] = {
        "start": span_N2[:, 0],
        "end": span_N2[:, 1],
        "impossible": impossible_N,
    }
    names = [rows[window.question]["id"] for window in windows]
    examples = stack(sequences, starts, targets, names)
    return Reading(rows, examples, windows, [contexts[row["context"]][1] for row in rows])


def _gold(row: dict[str, Any], places_P2: NDArray[np.int64]) -> tuple[int, int] | None:
    """Return the first and last piece that the first gold answer touches; None if it has none."""
    if row["impossible"]:
        return None
    begin = row["answers"][0]["start"]
    end = begin + len(row["answers"][0]["text"])
    touched = np.flatnonzero((places_P2[:, 1] > begin) & (places_P2[:, 0] < end))
    return (int(touched[0]), int(touched[-1])) if len(touched) else None


def _cuts(pieces: int, room: int, stride: int) -> list[tuple[int, int, NDArray[np.bool_]]]:
    """(first, count, owned) of each window over a context of so many pieces; windows overlap by
    room - stride.
    """
    firsts = [0]
    while firsts[-1] + room < pieces:
        firsts.append(firsts[-1] + min(room, stride))
    counts = [min(room, pieces - first) for first in firsts]
    best_P = np.full(pieces, -1.0)
    owner_P = np.zeros(pieces, dtype=np.int64)
    for number, (first, count) in enumerate(zip(firsts, counts, strict=True)):
        at = np.arange(count)
        context = np.minimum(at, count - 1 - at) + 0.01 * count
        better = context > best_P[first : first + count]
        best_P[first : first + count][better] = context[better]
        owner_P[first : first + count][better] = number
    return [
        (first, count, owner_P[first : first + count] == number)
        for number, (first, count) in enumerate(zip(firsts, counts, strict=True))
    ]
