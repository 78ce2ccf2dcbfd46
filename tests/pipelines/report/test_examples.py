from types import SimpleNamespace

import pytest

from pipelines.report import load_results
from pipelines.report.examples import CONTEXT, answers, counts, mistakes, sentences, words
from tests.support import made_up_results

EXAMPLE = {
    "tokens": ["[CLS]", "the", "bak", "##es", "ate", "##n", "[SEP]", "##x", "[SEP]"],
    "original": ["[CLS]", "the", "bak", "##er", "cook", "ed", "[SEP]", "##x", "[SEP]"],
    "replaced": [False, False, False, True, True, True, False, False, False],
    "probability": [0.0, 0.7, 0.1, 0.9, 0.2, 0.4, 0.0, 0.1, 0.0],
}


def test_wordpieces_are_joined_and_judged_as_words():
    found = words(EXAMPLE)
    assert [word.text for word in found] == ["the", "bakes", "aten", "[SEP]", "##x", "[SEP]"]
    assert [word.original for word in found] == ["the", "baker", "cooked", "[SEP]", "##x", "[SEP]"]
    assert [word.kind for word in found] == ["alarm", "caught", "missed", "plain", "plain", "plain"]
    assert found[1].probability == 0.9


def test_rows_with_most_caught_words_come_first():
    unseen = EXAMPLE | {"probability": [0.1] * 9}
    rows = sentences(SimpleNamespace(examples=[unseen, EXAMPLE]))
    assert [[word.kind for word in row].count("caught") for row in rows] == [1, 0]
    assert counts(rows) == {"plain": 7, "caught": 1, "missed": 3, "alarm": 1}


def test_answers_and_mistakes_are_chosen_by_rule():
    made_up_results.write()
    (model,) = load_results.load(made_up_results.params("tiny")).models
    shown = [(answer.heading, answer.share) for answer in answers(model)]
    kinds = ("Right", "Right to give no answer", "Wrong", "Wrong to answer")
    assert shown == [(kind, "1 of 4 questions") for kind in kinds], "by exact match"
    right, nothing, _, _ = answers(model)
    assert right.context and nothing.context
    before, answer, after = right.context
    assert answer == "two grey goats" and after == " behind the mill, and more."
    assert len(before) == CONTEXT + 2 and before.endswith("Once. Maren the miller ")
    assert nothing.context[:2] == ("", None)
    cola, _, _, stsb, *_, wnli = mistakes(model)
    assert stsb.share == "2 of 3 rows off by more than 1 (of 0 to 5)"
    text = "The weaver of <Marlow> 2."
    assert cola.share == "2 of 3 rows wrong"
    assert (cola.predicted, cola.correct) == ("acceptable", "unacceptable")
    assert (cola.texts, wnli.texts) == ((text,), (text, "A baker & a goat."))
    assert cola.sure == pytest.approx(1 / (1 + 2.718281828**-3)), "the surest"
