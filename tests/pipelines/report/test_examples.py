from types import SimpleNamespace

from pipelines.report.examples import sentences, words

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
    def shown(**more):
        return sentences(SimpleNamespace(examples=[EXAMPLE | more]))

    likely = {"pieces": ["<s>", "##er"], "probability": [0.375, 0.2]}
    unchanged = {"place": 1, "pieces": ["the"], "probability": [1.0]}
    said = shown(proposals=[unchanged, {"place": 3} | likely, {"place": 4} | likely])
    assert said.count("class=proposed") == 1
    assert "For <i>##er</i> the generator proposed &lt;s&gt; 38 %, ##er 20 %; it drew <i>##es</i>." in said
    assert "class=proposed" not in shown() + shown(proposals=[unchanged])
