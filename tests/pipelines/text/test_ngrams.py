"""Hashes of words and n-grams: one for each that differs, the same however a text is cut, next to
plain Python.
"""

import random
import re
import unicodedata

import numpy as np
import pytest

from pipelines.text import ngrams as module
from pipelines.text.ngrams import NgramSet, ngrams, words

WORD = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]|(?:(?![\u3040-\u30ff\u4e00-\u9fff])\w)+")
TEXTS = (
    "", " \n", "!?… —", "a", "The cat's 3 mats, the CAT_S mats.\nÉtude ﬁnal — naïve", "日本語のテスト, tests in 日本 2",
    "привет Привет мир", "same same same same", "a-b a b ab", "x" * 700, "\U0001f600 smile \ud800 lone",
)  # fmt: skip


def plain(text):
    return WORD.findall(unicodedata.normalize("NFKC", text).casefold())


def test_a_word_has_one_hash_whatever_its_case_and_form(monkeypatch):
    known = {}
    for text in TEXTS:
        hashes, lengths = words(text)
        expected = plain(text)
        assert lengths.tolist() == list(map(len, expected)), text
        for word, value in zip(expected, hashes.tolist(), strict=True):
            assert known.setdefault(word, value) == value
    assert len(set(known.values())) == len(known) > 25
    monkeypatch.setattr(module, "BLOCK", 12)
    for text in TEXTS:
        if "x" * 12 not in text:  # a word longer than a block is cut
            assert [known[word] for word in plain(text)] == words(text)[0].tolist()


@pytest.mark.parametrize("text, lengths", [
    ("किताब पढ़ना", [5, 5]), ("বাংলা ভাষা", [5, 4]), ("مُحَمَّدٌ رسول", [9, 4]), ("שָׁלוֹם", [7]), ("e\u0301a q\u0303", [2, 2]),
    ("می\u200cرود", [6]), ("co\u00adop", [4]), ("\u0301 a", [1]), ("ฉันไป", [2, 1, 1, 1]), ("ខ្ញុំ", [2, 3]), ("བོད་ཡིག", [3, 3]),
    ("가나 다라", [2, 2]), ("𞤀𞤣 𞤢", [2, 1]), ("山水", [1, 1]), ("𠀀𠀁", [1, 1]), ("ກຂ", [1, 1]), ("ကခ", [1, 1]),
])  # fmt: skip
def test_marks_and_joiners_belong_to_their_word(text, lengths):
    assert words(text)[1].tolist() == lengths


def test_words_differ_by_vowel_signs_and_not_by_form_or_width():
    assert words("दिन")[0] != words("दीन")[0]
    for text, same in (
        ("cafe\u0301", "café"),
        ("STRASSE", "Stra\u00adße"),
        ("محـمد", "محمد"),
        ("ﬁｎ", "fin"),
    ):
        assert words(text)[0] == words(same)[0]
    assert len(words("می\u200cخواهم")[0]) == 1


def test_ngrams_are_equal_where_their_words_are():
    rng = random.Random(1)
    text = [rng.choice("abc") for _ in range(400)]
    hashes, _ = words(" ".join(text))
    for n in (1, 2, 5, 13):
        expected = [tuple(text[i : i + n]) for i in range(len(text) - n + 1)]
        grams = ngrams(hashes, n).tolist()
        pairs = set(zip(expected, grams, strict=True))
        assert len(pairs) == len(set(expected)) == len(set(grams))
    assert not len(ngrams(hashes[:4], 5)) and not len(ngrams(hashes[:0], 1))
    assert ngrams(hashes[:1], 1) != hashes[:1], "a single word is not its own 1-gram by chance"


def test_a_set_finds_what_it_has():
    rng = np.random.default_rng(1)
    inside, outside = rng.integers(0, 2**64, (2, 1000), dtype=np.uint64)
    several = NgramSet(np.concatenate([inside, inside[:9]]))
    assert len(several.hashes) == 1000
    mixed = np.concatenate([outside, inside[::-1], outside])
    assert several.hashes[several.find(mixed)].tolist() == inside[::-1].tolist()
    # with the same leading bits
    near = np.array([*(inside + np.uint64(1)), 0, 2**64 - 1], np.uint64)
    assert not len(several.find(near)) and not len(NgramSet(inside[:0]).find(inside))
