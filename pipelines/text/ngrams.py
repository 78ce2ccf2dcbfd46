"""Words and n-grams of words as 64-bit hashes, by numpy alone, for near-duplicates, repetition and
overlap.

A word is a run of letters, digits and _ with their marks. Case, form (NFKC), soft hyphens and
tatweel are ignored. In scripts without spaces between words (ideographs, kana, Thai, Lao, Khmer,
Myanmar, ...) each letter is a word, with the marks on it. Hashes are the same in every process and
on every machine.
"""

import functools
import unicodedata
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]
BLOCK = 1 << 18  # characters that are looked at together: some 60 bytes of memory each
LIKELY = 24  # bits of a table that sieves lookups: 16 MB
WITHIN_WORDS = "\u00ad\u0640"  # soft hyphens and Arabic tatweel: the same word is set wider
BASE = 0x9E3779B97F4A7C15  # odd numbers without a pattern
STEP = 0xD6E8FEB86659FD93
# kinds of characters: between words, of a word, a word by itself, or part of the one before
_WORDLESS, _LETTER, _WORD, _MARK = range(4)
# Code points of Thai, Lao, Myanmar, Khmer, Tai, Buginese, Balinese, kana, ideographs, Javanese and
# Cham; ideographs of compatibility, more kana, more ideographs.
WITHOUT_SPACES = """
    0E00-0EFF 1000-109F 1780-17FF 1950-1AAF 1B00-1B7F 3040-30FF 31F0-31FF 3400-4DBF 4E00-9FFF
    A980-A9FF AA00-AADF F900-FAFF 1B000-1B16F 20000-323AF
"""


def mix(values: Hashes) -> Hashes:
    """Scatter all bits of 64-bit values over the whole range (the finalizer of SplitMix64)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: Hashes = values ^ (values >> np.uint64(31))
    return mixed


def words(text: str) -> tuple[Hashes, NDArray[np.int64]]:
    """Return the hash of each word of a text, in order, and its length in characters."""
    hashes, lengths = zip(*map(_words, _blocks(text)), strict=True)
    return np.concatenate(hashes), np.concatenate(lengths)


def ngrams(hashes: Hashes, n: int) -> Hashes:
    """Return the hash of the n words from each on: as many as there are words, less n - 1."""
    count = max(0, len(hashes) - n + 1)
    grams = np.full(count, n, np.uint64)
    for offset in range(n):
        grams = grams * np.uint64(STEP) + hashes[offset : offset + count]
    return mix(grams)


class NgramSet:
    """A set of hashes, sorted, of which others can be looked up many at a time."""

    def __init__(self, hashes: Hashes) -> None:
        self.hashes: Hashes = np.unique(hashes)
        # most others have leading bits that none of these have
        self._likely = np.zeros(1 << LIKELY, np.bool_)
        self._likely[self.hashes >> np.uint64(64 - LIKELY)] = True

    def find(self, others: Hashes) -> NDArray[np.int64]:
        """Return the places in `hashes` of the others that it holds."""
        others = others[self._likely[others >> np.uint64(64 - LIKELY)]]
        places = np.searchsorted(self.hashes, others)
        inside = places < len(self.hashes)
        known: NDArray[np.int64] = places[inside][self.hashes[places[inside]] == others[inside]]
        return known


def _blocks(text: str) -> Iterator[str]:
    """Yield a text in pieces of at most BLOCK characters, cut before a space or line. Where there
    is none, anywhere.
    """
    start = 0
    while len(text) - start > BLOCK:
        end = start + BLOCK
        cut = max(text.rfind(" ", start + 1, end), text.rfind("\n", start + 1, end))
        end = cut if cut > start else end
        yield text[start:end]
        start = end
    yield text[start:]


def _words(text: str) -> tuple[Hashes, NDArray[np.int64]]:
    """Return the hash of each word, and its length. A hash is a sum over its characters times
    powers of BASE: a difference of two running sums.
    """
    plain = unicodedata.normalize("NFKC", text).casefold()
    for sign in WITHIN_WORDS:
        plain = plain.replace(sign, "")
    points = np.frombuffer(plain.encode("utf-32-le", "surrogatepass"), "<u4")
    kinds = np.zeros(len(points) + 2, np.int8)
    kinds[1:-1] = _kinds()[points]
    marks = kinds == _MARK
    kinds = kinds[np.maximum.accumulate(np.where(marks, 0, np.arange(len(kinds))))]
    # of words, and of the gaps between them
    new = (kinds[1:] != kinds[:-1]) | (kinds[1:] == _WORD)
    starts = np.flatnonzero(new & ~marks[1:])
    ends = np.append(starts, len(points))[1:]
    within = kinds[1:][starts] != _WORDLESS
    starts = starts[within]
    ends = ends[within]
    sums = np.zeros(len(points) + 1, np.uint64)
    powers, inverse = _powers(1 << len(points).bit_length())
    np.cumsum(points * powers[: len(points)], out=sums[1:])
    return mix((sums[ends] - sums[starts]) * inverse[starts]), ends - starts


@functools.cache
def _kinds() -> NDArray[np.int8]:
    """Return the kind of each code point."""
    kinds = np.fromiter(map(_kind, map(chr, range(0x110000))), np.int8, 0x110000)
    for span in WITHOUT_SPACES.split():
        first, last = span.split("-")
        letters = kinds[int(first, 16) : int(last, 16) + 1]
        letters[letters == _LETTER] = _WORD
    return kinds


def _kind(char: str) -> int:
    if char.isalnum() or char == "_":
        return _LETTER
    joins = char in "\u200c\u200d" or unicodedata.category(char)[0] == "M"
    return _MARK if joins else _WORDLESS


@functools.cache
def _powers(count: int) -> tuple[Hashes, Hashes]:
    """Return BASE^i and BASE^-i, modulo 2^64, for i below `count`."""
    both = []
    for factor in (BASE, pow(BASE, -1, 1 << 64)):
        powers = np.full(count, factor, np.uint64)
        powers[:1] = 1
        both.append(np.cumprod(powers, dtype=np.uint64))
    return both[0], both[1]
