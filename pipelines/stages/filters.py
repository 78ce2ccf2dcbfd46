"""What drops whole documents for what they say: language, quality, benchmark texts, and the keys of
near-duplicates.

Each reason has its own count. They are looked for in this order, in clean text, before repeated
paragraphs are taken out of it. Which of several near-duplicates is the first is known when all
units are there (collecting.py).
"""

import functools
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pipelines.sources import language, quality
from pipelines.stages.benchmark import SIZE
from pipelines.text.cleaning import CleaningConfig
from pipelines.text.near_duplicates import band_keys
from pipelines.text.ngrams import Hashes, NgramSet, ngrams, words

REASONS = ("other_language", *(f"quality_{rule}" for rule in quality.RULES), "contaminated")
EXCERPT = 500  # characters
Forbidden = tuple[Path, str]  # a file of n-grams that no document may have, and its sha256


@functools.lru_cache(maxsize=1)
def _load(forbidden: Forbidden) -> NgramSet:
    """A worker keeps it from unit to unit."""
    return NgramSet(np.load(forbidden[0]))


class Judgement(NamedTuple):
    """Why a document goes ("" if it stays), the keys that its near-duplicates share, and whether it
    is contaminated.
    """

    reason: str
    bands: Hashes = np.empty(0, np.uint64)
    contaminated: bool = False


def judge(text: str, cleaning: CleaningConfig, forbidden: Forbidden | None) -> Judgement:
    """Judge a document by its clean text; keys are given where near-duplicates are dropped."""
    if cleaning.language and language.is_another(text, cleaning.language):
        return Judgement("other_language")
    if cleaning.quality == "none" and cleaning.near_duplicates != "drop" and not forbidden:
        return Judgement("")
    hashes, lengths = words(text)
    if cleaning.quality != "none" and (
        rule := quality.broken_rule(text, hashes, lengths, cleaning.language)
    ):
        return Judgement(f"quality_{rule}")
    contaminated = forbidden is not None and len(_load(forbidden).find(ngrams(hashes, SIZE))) > 0
    if contaminated and cleaning.decontaminate and cleaning.decontaminate.action == "drop":
        return Judgement("contaminated", contaminated=True)
    bands = band_keys(hashes) if cleaning.near_duplicates == "drop" else np.empty(0, np.uint64)
    return Judgement("", bands, contaminated)


class Samples:
    """The first documents that each reason dropped, to look at: at most `most` of each."""

    def __init__(self, most: int) -> None:
        self.rows: list[dict[str, str]] = []
        self._most, self._counts = most, Counter[str]()

    def add(self, reason: str, id: str, text: str) -> None:
        """Keep the beginning of a document, unless there are enough of its reason."""
        if self._counts[reason] < self._most:
            self._counts[reason] += 1
            self.rows.append({"reason": reason, "id": id, "text": text[:EXCERPT]})
