"""A bounded cache of the token ids of words, which makes tokenizing faster than the library alone.

The ids are the library's. White space separates words for BERT's rules and for byte-level BPE, and
a word's pieces depend on the word alone. So a chunk between two spaces always has the same ids, and
text is mostly chunks that occurred before. On English articles this is 1.3 times as fast as the
library alone (one thread of a busy machine: 0.97 against 0.74 million tokens/s).
"""

from typing import Any

import numpy as np

CONTINUATION = "##"
CACHED_CHUNKS = 500_000  # some 100 MB
LONGEST_CHUNK = 32  # characters; a longer chunk will hardly come again


class WordCache(dict[str, bytes]):
    """`cache[chunk]` is the ids of a chunk without spaces, as the bytes of an array of `dtype`. It
    is emptied when it is full.

    `before` is put before each chunk: the space that a byte-level word begins with.
    """

    def __init__(self, raw: Any, dtype: np.dtype[Any], before: str = "") -> None:
        self._raw = raw
        self._dtype = dtype
        self._before = before

    def __missing__(self, chunk: str) -> bytes:
        encoding = self._raw.encode(self._before + chunk, add_special_tokens=False)
        ids = np.array(encoding.ids, dtype=self._dtype).tobytes()
        if len(chunk) <= LONGEST_CHUNK:
            if len(self) >= CACHED_CHUNKS:
                self.clear()
            self[chunk] = ids
        return ids
