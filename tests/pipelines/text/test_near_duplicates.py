"""MinHash against exact Jaccard similarity."""

import random

import numpy as np
import pytest

from pipelines.text.near_duplicates import BANDS, NGRAM, ROWS, band_keys
from pipelines.text.ngrams import words


def keys(text):
    return band_keys(words(text)[0])


def jaccard(one, other):
    first, second = (
        {tuple(text[i : i + NGRAM]) for i in range(len(text) - NGRAM + 1)} for text in (one, other)
    )
    return len(first & second) / len(first | second)


@pytest.mark.parametrize("target", [0.5, 0.75, 0.9])
def test_pairs_are_found_as_often_as_their_similarity_says(target):
    chance = random.Random(target)
    vocabulary = [f"w{i}" for i in range(3000)]
    shared = round(2 * 196 * target / (1 + target)) + 4
    pairs = 300
    found = 0
    expected = 0.0
    for _ in range(pairs):
        one = chance.choices(vocabulary, k=200)
        other = one[:shared] + chance.choices(vocabulary, k=200 - shared)
        expected += 1 - (1 - jaccard(one, other) ** ROWS) ** BANDS
        found += bool(np.intersect1d(keys(" ".join(one)), keys(" ".join(other))).size)
    spread = (expected * (1 - expected / pairs)) ** 0.5
    assert abs(found - expected) < 4 * spread + 1


def test_small_texts():
    assert keys("").tolist() == keys("?!").tolist() and len(set(keys("").tolist())) == BANDS
    assert keys("One, two.").tolist() == keys("one two").tolist() != keys("two one").tolist()
    assert not np.intersect1d(keys("one two"), keys("one two three")).size
    assert keys("same " * 5).tolist() == keys("same " * 500).tolist(), (
        "sets of n-grams are compared"
    )
    long = " ".join(f"w{i}" for i in range(5000))
    assert len(np.intersect1d(keys(long), keys(long + " end"))) > BANDS // 2
    last = " ".join(long.split()[-904:])  # 900 of 4,996 n-grams, all of the last block
    assert not np.intersect1d(keys(long), keys(last)).size
