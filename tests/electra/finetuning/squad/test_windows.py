"""Windows, their owners and the gold span; bad rows by line, id and value."""

import numpy as np
import pytest

from electra.errors import BadInput
from electra.files import write_jsonl
from electra.finetuning.reading import read_rows
from electra.finetuning.squad.windows import _cuts, encode
from electra.finetuning.tasks import SQUAD_2, SquadConfig

CONTEXT = "the red cat sleeps in the old house. the blue dog runs far."


def row(**values):
    start = CONTEXT.index("old house")
    answers = [{"text": "old house", "start": start}]
    base = {"id": "q", "title": "t", "question": "the cat?", "context": CONTEXT, "answers": answers}
    return base | {"impossible": False} | values


@pytest.mark.parametrize(
    "rows, sentence",
    [
        (
            [row(answers=[{"text": "old house", "start": 3}])],
            r":1 \(id q\): has the answer 'old house' at 3, where the context reads ' red cat '",
        ),
        ([row(answers=[{"text": "old house", "start": -9}])], r"at -9"),
        ([row(answers=[{"text": "", "start": 0}])], r"has the answer ''"),
        ([row(answers=[{"text": "old house", "start": "25"}])], r"at '25'"),
        ([row(impossible=True)], "has answers though it is impossible"),
        ([row(answers=[])], "has no answer"),
        ([row(context=None)], "expected an object with text"),
        ([row(impossible=None)], "lacks its answers"),
    ],
)
def test_a_bad_row_is_named(rows, sentence, tmp_path):
    write_jsonl(tmp_path / "train.jsonl", rows)
    with pytest.raises(BadInput, match=sentence):
        read_rows(tmp_path / "train.jsonl", SQUAD_2)


def text_of(reading, number, start, end):
    window = reading.windows[number]
    places = reading.places[window.question]
    shift = window.first - window.offset
    return reading.rows[window.question]["context"][
        places[start + shift, 0] : places[end + shift, 1]
    ]


@pytest.mark.parametrize("length, stride", [(64, 32), (14, 4), (12, 3), (11, 7)])
def test_every_window_that_holds_the_answer_points_at_it(tokenizer, length, stride):
    reading = encode(
        [row()], tokenizer, SquadConfig(length=length, stride=stride, question_length=8)
    )
    holding = 0
    for number, _window in enumerate(reading.windows):
        start, end = (int(reading.examples.targets[key][number]) for key in ("start", "end"))
        assert reading.examples.length_N[number] <= length
        if start:
            holding += 1
            assert text_of(reading, number, start, end) == "old house"
        else:
            held = reading.windows[number]
            # pieces 6 and 7: old, house
            assert end == 0 and not (held.first <= 6 and held.first + held.count > 7)
    assert holding >= 1


def test_a_window_reads_cls_question_sep_part_sep(tokenizer):
    reading = encode([row()], tokenizer, SquadConfig(length=14, stride=4, question_length=2))
    ids = reading.examples.ids_S[: reading.examples.length_N[0]]
    the = tokenizer.raw.token_to_id("the")
    cat = tokenizer.raw.token_to_id("cat")
    # the question is cut to two pieces
    assert ids[:4].tolist() == [tokenizer.cls_id, the, cat, tokenizer.sep_id]
    assert ids[reading.examples.length_N[0] - 1] == tokenizer.sep_id
    assert reading.examples.second_N[0] == reading.windows[0].offset == 4


@pytest.mark.parametrize(
    "context, answer, touched",
    [
        (CONTEXT, "leeps in", "sleeps in"),
        ("The Café: RED cat.", "Café", "Café"),
        ("the zebra", "bra", "bra"),  # pieces of one letter
    ],
)
def test_a_partly_covered_word_piece_counts_as_touched(tokenizer, context, answer, touched):
    """Accents and capitals, which the tokenizer drops, keep their place in the text."""
    answers = [{"text": answer, "start": context.index(answer)}]
    reading = encode(
        [row(context=context, answers=answers)],
        tokenizer,
        SquadConfig(length=64, stride=32, question_length=8),
    )
    assert (
        text_of(reading, 0, *(int(reading.examples.targets[key][0]) for key in ("start", "end")))
        == touched
    )


def test_an_impossible_question_points_at_cls(tokenizer):
    reading = encode(
        [row(impossible=True, answers=[])],
        tokenizer,
        SquadConfig(length=64, stride=32, question_length=8),
    )
    assert [reading.examples.targets[key][0] for key in ("start", "end", "impossible")] == [0, 0, 1]


def test_windows_cover_all_and_each_piece_has_one_owner():
    for pieces, room, stride in (
        (0, 10, 4),
        (1, 10, 4),
        (10, 10, 4),
        (11, 10, 4),
        (97, 20, 8),
        (40, 9, 9),
    ):
        cuts = _cuts(pieces, room, stride)
        covered = np.zeros(pieces, dtype=int)
        owners = np.zeros(pieces, dtype=int)
        for first, count, owned in cuts:
            assert count <= room and len(owned) == count
            covered[first : first + count] += 1
            owners[first : first + count] += owned
        assert (covered >= 1).all() and (owners == 1).all()
        assert cuts[-1][0] + cuts[-1][1] == pieces


def test_the_owner_has_most_context_on_its_poorer_side():
    cuts = _cuts(30, 20, 10)  # windows 0..19 and 10..29
    (_, _, first), (_, _, second) = cuts
    # 14: 5 to its right in the first, 4 to its left in the second
    assert first.tolist() == [True] * 15 + [False] * 5
    assert second.tolist() == [False] * 5 + [True] * 15
    # 642: 41 to its right in 384 pieces, 42 to its left in 100, which counts 2.84 less
    *_, (start, count, last) = _cuts(700, 384, 300)
    assert (start, count, last.tolist()) == (600, 100, [False] * 43 + [True] * 57)
