"""Labels as files have them: classes and numbers, and tags as seqeval 1.2.2 reads them, there
and back.
"""

import math

import pytest

from electra.finetuning.labels import bioes, iob2, read_label, spans, split_words, tag_scores


def test_a_label_that_can_be_meant_is_read():
    for value, labels, expected in (
        ("good", ("bad", "good"), "good"),
        (1, ("0", "1"), "1"),
        (1.0, ("0", "1"), "1"),
        (True, ("false", "true"), "true"),
        ("TRUE", ("false", "true"), "true"),
        (True, ("False", "True"), "True"),
        ("3.5", (), 3.5),
    ):
        assert read_label(value, labels) == (expected, "")


def test_any_other_label_is_named():
    for value, labels, sentence in (
        ("Good", ("bad", "good"), "unknown label 'Good', not one of bad, good"),
        (None, ("bad", "good"), "unknown label"),
        (1.5, ("0", "1"), "unknown label"),
        ("much", (), "'much' is not a number"),
        ("1_000", (), "'1_000' is not a number"),
        (True, (), "is not a number"),
        (math.inf, (), "is not a finite number"),
        (10**400, (), "is not a number"),
    ):
        label, fault = read_label(value, labels)
        assert label is None and sentence in fault


@pytest.mark.parametrize(
    "text, places",
    [
        ("S-NP O E-NP I-VP S-VP I-NP B-NP S-VP", [0, 2, 3, 4, 5, 6, 7]),
        ("S-NP E-NP O E-VP B-NP I-NP E-NP B-NP", [0, 1, 3, (4, 6), 7]),
        ("B-NP B-VP S-VP E-VP E-VP S-VP I-NP I-NP", [0, 1, 2, 3, 4, 5, (6, 7)]),
    ],
)
def test_spans_are_seqevals(text, places):
    tags = text.split()
    ends = [place if isinstance(place, tuple) else (place, place) for place in places]
    assert spans(tags) == [(tags[first][2:], first, last) for first, last in ends]


def test_a_no_break_space_is_part_of_a_word():
    assert split_words("a\u00a0b  c\n") == ["a\u00a0b", "c"]


def test_tags_go_to_bioes_and_back():
    tags = ["B-NP", "I-NP", "I-NP", "O", "B-VP", "B-NP", "B-NP", "I-NP"]
    marked = spans(tags)
    assert bioes(marked, 8) == ["B-NP", "I-NP", "E-NP", "O", "S-VP", "S-NP", "B-NP", "E-NP"]
    assert spans(bioes(marked, 8)) == marked and iob2(marked, 8) == tags


def test_f1_counts_whole_spans_and_accuracy_words():
    predicted = [["B-NP", "I-NP", "O"], ["B-NP"]]
    gold = [["B-NP", "E-NP", "B-VP"], ["B-VP"]]
    assert tag_scores(predicted, gold) == {"entity_f1": 40.0, "accuracy": 50.0}
    assert tag_scores([["O"]], [["O"]]) == {"entity_f1": 0.0, "accuracy": 100.0}
