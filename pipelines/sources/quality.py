"""Gopher's rules for text that is hardly prose: Rae et al. 2021, "Scaling Language Models", A.1.1
and Table A1.

A line is a paragraph here, so their rules for both are one. Repeated n-grams are of normalised
words (pipelines/text/ngrams.py), and shares of characters are shares of those of words. Where no
spaces separate words, all rules count those words, and none limits their length.
"""

from collections import Counter
from collections.abc import Collection, Iterator

import numpy as np
from numpy.typing import NDArray

from pipelines.text.ngrams import Hashes, ngrams

STOP_WORDS = {"the", "be", "to", "of", "and", "that", "have", "with"}
BULLETS = ("•", "‣", "⁃", "◦", "●", "▪", "-", "*", "–")
ELLIPSES = ("...", "…")
TOP = {2: 0.20, 3: 0.18, 4: 0.16}
REPEATED = {5: 0.15, 6: 0.14, 7: 0.13, 8: 0.12, 9: 0.11, 10: 0.10}
RULES: dict[str, tuple[float, float]] = {  # the least and the most that a document may have
    "words": (50, 100_000),
    "mean_word_length": (3, 10),
    "hash_signs": (0, 0.1),  # for each word
    "ellipses": (0, 0.1),
    "bullet_lines": (0, 0.9),  # share of the lines
    "ellipsis_lines": (0, 0.3),
    "alphabetic_words": (0.8, 1),  # share of the words that have a letter
    "stop_words": (2, 8),  # how many of STOP_WORDS: of English alone
    "repeated_lines": (0, 0.3),
    "repeated_line_characters": (0, 0.2),
    # share of the characters, of the commonest
    **{f"top_{n}_gram": (0, most) for n, most in TOP.items()},
    # of all that occurred before
    **{f"repeated_{n}_grams": (0, most) for n, most in REPEATED.items()},
}
SPACED = 4  # with more words than this between two spaces, words are not parted by spaces


def broken_rule(
    text: str, hashes: Hashes, lengths: NDArray[np.int64], languages: Collection[str] = ()
) -> str:
    """Return the first rule that a text breaks, or "". `hashes` and `lengths` are its words."""
    english = not languages or "en" in languages
    for rule, value in _measured(text, hashes, lengths):
        least, most = RULES[rule]
        if not least <= value <= most and (english or rule != "stop_words"):
            return rule
    return ""


def _measured(text: str, hashes: Hashes, lengths: NDArray[np.int64]) -> Iterator[tuple[str, float]]:
    """Yield the value that each rule limits, cheap ones first."""
    words = text.split()
    spaced = len(hashes) <= SPACED * len(words)
    count = len(words) if spaced else len(hashes)
    yield "words", count
    if spaced:
        yield "mean_word_length", sum(map(len, words)) / count
    yield "hash_signs", text.count("#") / count
    yield "ellipses", sum(map(text.count, ELLIPSES)) / count
    lines = text.split("\n")
    yield "bullet_lines", sum(line.startswith(BULLETS) for line in lines) / len(lines)
    yield "ellipsis_lines", sum(line.endswith(ELLIPSES) for line in lines) / len(lines)
    wordless = sum(not any(map(str.isalpha, word)) for word in words if not word.isalpha())
    yield "alphabetic_words", 1 - wordless / count
    yield "stop_words", len(STOP_WORDS.intersection(text.lower().split()))
    again = {line: count - 1 for line, count in Counter(lines).items() if count > 1}
    yield "repeated_lines", sum(again.values()) / len(lines)
    characters = sum(len(line) * count for line, count in again.items())
    yield "repeated_line_characters", characters / len(text)
    ends = np.concatenate([[0], np.cumsum(lengths)])
    total = max(1, ends[-1])
    for n in TOP:
        yield f"top_{n}_gram", _commonest(ngrams(hashes, n), ends[n:] - ends[:-n]) / total
    for n in REPEATED:
        share = lengths[_repeated(ngrams(hashes, n), n)].sum() / total
        yield f"repeated_{n}_grams", share
        if share <= min(REPEATED.values()):  # longer n-grams repeat no more than shorter ones
            return


def _commonest(grams: Hashes, lengths: NDArray[np.int64]) -> int:
    """Return the characters of the n-gram that occurs most (of several the longest), in all its
    places; 0 if none recurs.
    """
    values, counts = np.unique(grams, return_counts=True)
    most = counts.max(initial=1)
    if most == 1:
        return 0
    return int(most * lengths[np.isin(grams, values[counts == most])].max())


def _repeated(grams: Hashes, n: int) -> NDArray[np.bool_]:
    """Return which words lie in an n-gram that occurred before in the text."""
    again = np.ones(len(grams), np.int64)
    again[np.unique(grams, return_index=True)[1]] = 0
    edges = np.zeros(len(grams) + n, np.int64)
    edges[: len(grams)] += again
    edges[n:] -= again
    covered: NDArray[np.bool_] = np.cumsum(edges)[: len(grams) + n - 1] > 0
    return covered
