"""Words and n-grams of words as 64-bit hashes, by numpy alone: what near-duplicates, repetition and
overlap count.

A word is a run of letters, digits and _, its case and form (NFKC) aside; an ideograph or kana is a
word of its own. Hashes are the same in every process and on every machine.
"""

import functools
import unicodedata
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]
BLOCK = 1 << 18  # characters that are looked at together: some 60 bytes of memory each
LIKELY = 24  # bits of a table that sieves what is looked up: 16 MB
BASE, STEP = 0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93  # odd numbers without a pattern
_WORDLESS, _LETTER, _WORD = 0, 1, 2  # what a character is: between words, of a word, a word


def mix(values: Hashes) -> Hashes:
    """Scatter all bits of 64-bit values over the whole range (the finalizer of SplitMix64)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: Hashes = values ^ (values >> np.uint64(31))
    return mixed


def words(text: str) -> tuple[Hashes, NDArray[np.int64]]:
    """(the hash of each word of a text, in order; its length in characters)."""
    hashes, lengths = zip(*map(_words, _blocks(text)), strict=True)
    return np.concatenate(hashes), np.concatenate(lengths)


def ngrams(hashes: Hashes, n: int) -> Hashes:
    """The hash of the n words from each on: as many as there are words, less n - 1."""
    count = max(0, len(hashes) - n + 1)
    found = np.full(count, n, np.uint64)
    for offset in range(n):
        found = found * np.uint64(STEP) + hashes[offset : offset + count]
    return mix(found)


class NgramSet:
    """A set of hashes, sorted, of which others can be looked up many at a time."""

    def __init__(self, hashes: Hashes) -> None:
        self.hashes: Hashes = np.unique(hashes)
        # most others have leading bits that none of these have
        self._likely = np.zeros(1 << LIKELY, np.bool_)
        self._likely[self.hashes >> np.uint64(64 - LIKELY)] = True

    def find(self, others: Hashes) -> NDArray[np.int64]:
        """The places in `hashes` of those of the others that are there."""
        others = others[self._likely[others >> np.uint64(64 - LIKELY)]]
        places = np.searchsorted(self.hashes, others)
        inside = places < len(self.hashes)
        found: NDArray[np.int64] = places[inside][self.hashes[places[inside]] == others[inside]]
        return found


def _blocks(text: str) -> Iterator[str]:
    """A text in pieces of at most BLOCK characters, cut before a space or line; where there is
    none, anywhere.
    """
    start = 0
    while len(text) - start > BLOCK:
        end = start + BLOCK
        cut = max(text.rfind(" ", start + 1, end), text.rfind("\n", start + 1, end))
        yield text[start : (end := cut if cut > start else end)]
        start = end
    yield text[start:]


def _words(text: str) -> tuple[Hashes, NDArray[np.int64]]:
    """A word's hash is a sum over its characters times powers of BASE: a difference of two running
    sums.
    """
    points = np.frombuffer(
        unicodedata.normalize("NFKC", text).lower().encode("utf-32-le", "surrogatepass"), "<u4"
    )
    kinds = np.zeros(len(points) + 2, np.int8)
    kinds[1:-1] = _kinds()[points]
    # of words, and of what is between
    starts = np.flatnonzero((kinds[1:] != kinds[:-1]) | (kinds[1:] == _WORD))
    kind, edges = kinds[1:][starts], np.append(starts, len(points))
    starts, ends = (each[kind != _WORDLESS] for each in (starts, edges[1:]))
    sums = np.zeros(len(points) + 1, np.uint64)
    powers, inverse = _powers(1 << len(points).bit_length())
    np.cumsum(points * powers[: len(points)], out=sums[1:])
    return mix((sums[ends] - sums[starts]) * inverse[starts]), ends - starts


@functools.cache
def _kinds() -> NDArray[np.int8]:
    """What each code point is."""
    kinds = np.fromiter((chr(point).isalnum() for point in range(0x110000)), np.int8, 0x110000)
    kinds[ord("_")] = _LETTER
    for first, last in (
        (0x3040, 0x30FF),
        (0x3400, 0x4DBF),
        (0x4E00, 0x9FFF),
        (0xF900, 0xFAFF),
        (0x20000, 0x323AF),
    ):
        kinds[first : last + 1] *= _WORD
    return kinds


@functools.cache
def _powers(count: int) -> tuple[Hashes, Hashes]:
    """BASE^i and BASE^-i, modulo 2^64, for i below `count`."""
    found = []
    for factor in (BASE, pow(BASE, -1, 1 << 64)):
        powers = np.full(count, factor, np.uint64)
        powers[:1] = 1
        found.append(np.cumprod(powers, dtype=np.uint64))
    return found[0], found[1]
