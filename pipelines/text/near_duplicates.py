"""Near-duplicates by MinHash and locality-sensitive hashing: texts that share most of their 5-grams
of words.

Of each of PERMUTATIONS hash functions a text keeps the least value over its n-grams; two texts
agree on one with the probability s of their Jaccard similarity (n-grams in common / n-grams in
all). ROWS values make a band, and texts that agree on a whole band of BANDS are taken for
near-duplicates, with the probability 1 - (1 - s^ROWS)^BANDS:

    s            0.5    0.6    0.7    0.75   0.8    0.85   0.9    0.95
    taken for    0.05   0.21   0.57   0.77   0.92   0.99   0.9996 1.0

A text of fewer than 5 words is one n-gram, like the same words alone; those without a word are all
alike.
"""

import numpy as np

from pipelines.text.ngrams import Hashes, mix, ngrams

NGRAM = 5
BANDS = 14
ROWS = 8
BLOCK = 1 << 10  # n-grams at once: their values under all hash functions fit a processor's cache
_RANDOM = mix(np.arange(1, 2 * BANDS * ROWS + 1, dtype=np.uint64)) >> np.uint64(32)
_FACTORS, _OFFSETS = _RANDOM.astype(np.uint32).reshape(2, BANDS * ROWS, 1)
_FACTORS |= np.uint32(1)


def band_keys(words: Hashes) -> Hashes:
    """Return [BANDS] keys of a text's words. Texts that share one are near-duplicates."""
    grams = ngrams(words, min(NGRAM, max(1, len(words))))
    values = (grams >> np.uint64(32)).astype(np.uint32)
    least = np.full(BANDS * ROWS, 0xFFFFFFFF, np.uint32)
    for start in range(0, len(values), BLOCK):
        np.minimum(least, (values[start : start + BLOCK] * _FACTORS + _OFFSETS).min(1), out=least)
    keys = np.arange(BANDS, dtype=np.uint64)  # so that two bands of one text never agree
    for value in least.reshape(BANDS, ROWS).T:
        keys = mix(keys) ^ value
    return mix(keys)
