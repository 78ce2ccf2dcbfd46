"""Windows, their owners and the gold span."""

import numpy as np
import pytest

from electra.finetuning.squad.windows import encode
from electra.finetuning.tasks import SquadConfig

CONTEXT = "the red cat sleeps in the old house. the blue dog runs far."


def row(**values):
    answers = [{"text": "old house", "start": CONTEXT.index("old house")}]
    answers += [{"text": "red", "start": 4}]  # training takes the first
    base = {"id": "q", "question": "the cat?", "context": CONTEXT, "answers": answers}
    return base | {"impossible": False} | values


@pytest.fixture
def read(tokenizer):
    """A function that encodes one row."""

    def read(length=64, stride=32, question_length=8, **values):
        config = SquadConfig(length=length, stride=stride, question_length=question_length)
        return encode([row(**values)], tokenizer, config)

    return read


def gold_text(reading, number):
    """Return the text that a window's targets stand for."""
    start, end = (reading.examples.targets[key][number] for key in ("start", "end"))
    window = reading.windows[number]
    shift = window.first - window.offset
    (places,) = reading.places
    return reading.rows[0]["context"][places[start + shift, 0] : places[end + shift, 1]]


@pytest.mark.parametrize("length, stride", [(64, 32), (14, 4), (12, 3), (11, 4), (12, 1)])
def test_every_window_that_holds_the_answer_points_at_it(read, length, stride):
    reading = read(length, stride)
    targets = reading.examples.targets
    assert targets["start"].any()
    assert reading.examples.length_N.max() <= length
    for number, window in enumerate(reading.windows):
        # pieces 6 and 7: old, house
        if window.first <= 6 and window.first + window.count > 7:
            assert gold_text(reading, number) == "old house"
        else:
            assert targets["start"][number] == targets["end"][number] == 0


def test_a_window_reads_cls_question_sep_part_sep(read, tokenizer):
    reading = read(14, 4, question_length=2)
    ids = reading.examples.ids_S[: reading.examples.length_N[0]].tolist()
    the = tokenizer.raw.token_to_id("the")
    cat = tokenizer.raw.token_to_id("cat")
    # the question is cut to two pieces
    assert ids[:4] == [tokenizer.cls_id, the, cat, tokenizer.sep_id]
    assert ids[-1] == tokenizer.sep_id
    assert reading.examples.second_N[0] == reading.windows[0].offset == 4


@pytest.mark.parametrize(
    "context, answer, touched",
    [
        (CONTEXT, "leeps in", "sleeps in"),
        ("The Café: RED cat.", "Café", "Café"),
        ("the zebra", "ebr", "ebr"),  # pieces of one letter
    ],
)
def test_a_partly_covered_word_piece_counts_as_touched(read, context, answer, touched):
    """Accents and capitals, which the tokenizer drops, keep their place in the text."""
    answers = [{"text": answer, "start": context.index(answer)}]
    assert gold_text(read(context=context, answers=answers), 0) == touched


def test_an_impossible_question_points_at_cls(read):
    targets = read(impossible=True, answers=[]).examples.targets
    assert [targets[key].tolist() for key in ("start", "end", "impossible")] == [[0], [0], [1]]


def read_windows(read, pieces, room, stride):
    """Return the windows of a question without an answer over a context of so many pieces."""
    values = {"question": "the", "context": "cat " * pieces, "answers": [], "impossible": True}
    return read(room + 4, stride, question_length=1, **values).windows


@pytest.mark.parametrize(
    "pieces, room, stride",
    [(0, 10, 4), (1, 10, 4), (10, 10, 4), (11, 10, 4), (97, 20, 8), (40, 9, 9)],
)
def test_windows_cover_all_and_each_piece_has_one_owner(read, pieces, room, stride):
    windows = read_windows(read, pieces, room, stride)
    owners_P = np.zeros(pieces)
    for number, window in enumerate(windows):
        assert window.first == number * stride and len(window.owned) == window.count <= room
        owners_P[window.first : window.first + window.count] += window.owned
    assert (owners_P == 1).all()
    assert windows[-1].first + windows[-1].count == pieces
    assert len(windows) == 1 or windows[-2].first + windows[-2].count < pieces


def test_the_owner_has_most_context_on_its_poorer_side(read):
    first, second = read_windows(read, 30, 20, 10)  # 0..19 and 10..29
    # 14: 5 to its right in the first, 4 to its left in the second
    assert first.owned.tolist() == [True] * 15 + [False] * 5
    assert second.owned.tolist() == [False] * 5 + [True] * 15
    # 14 of 29: 4 to its right in the first, 4 to its left in the second
    assert read_windows(read, 29, 19, 10)[0].owned.tolist() == [True] * 15 + [False] * 4
    # 642: 41 to its right in 384 pieces, 42 to its left in 100, which counts 2.84 less
    *_, last = read_windows(read, 700, 384, 300)
    assert last.first == 600 and last.owned.tolist() == [False] * 43 + [True] * 57
