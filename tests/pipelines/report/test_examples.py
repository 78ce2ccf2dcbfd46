from types import SimpleNamespace

from pipelines.report.examples import counts, sentences, words

EXAMPLE = {
    "tokens": ["[CLS]", "the", "bak", "##es", "ate", "##n", "[SEP]", "##x", "[SEP]"],
    "original": ["[CLS]", "the", "bak", "##er", "cook", "##ed", "[SEP]", "##x", "[SEP]"],
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
