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


def test_a_row_says_what_the_generator_proposed_for_its_first_replaced_word():
    likely = {"pieces": ["<s>", "##er"], "probability": [0.375, 0.2]}
    unchanged = {"place": 1, "pieces": ["the"], "probability": [1.0]}
    more = ([unchanged, {"place": 3} | likely, {"place": 4} | likely], [unchanged])
    rows = sentences(SimpleNamespace(examples=[EXAMPLE, *(EXAMPLE | {"proposals": each} for each in more)]))
    none, found, nothing = (proposal for _, proposal in rows)
    assert found == {"original": "##er", "drawn": "##es", "likely": [("<s>", 0.375), ("##er", 0.2)]}
    assert none is nothing is None
    assert counts(rows) == {"words": 18, "caught": 3, "missed": 3, "alarm": 3}
