"""What models are scored on, as n-grams of words: the dev and test texts of a source of tasks.
Training rows are none.

A text that repeats 13 words in a row of them counts as contaminated, as for GPT-3 (Brown et al.
2020, appendix C). Shorter texts have no such n-gram.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from pipelines.text.ngrams import Hashes, ngrams, words

SIZE = 13
PARTS = ("a", "b", "question", "context", "words")  # of a row that models see
Row = dict[str, Any]


def texts(row: Row) -> Iterator[str]:
    """Yield all that a model sees of a row."""
    for part in PARTS:
        if text := row.get(part):
            yield text if isinstance(text, str) else " ".join(text)


def is_scored(split: str) -> bool:
    """Whether a split is one of dev or test: `dev_mismatched` and `test_diagnostic` are, too."""
    return split.startswith(("dev", "test"))


def of_rows(rows: Iterable[Row], size: int) -> Hashes:
    """Each n-gram of `size` words of some rows, once."""
    seen = {text for row in rows for text in texts(row)}
    return np.unique(
        np.concatenate([np.empty(0, np.uint64), *(ngrams(words(text)[0], size) for text in seen)])
    )
