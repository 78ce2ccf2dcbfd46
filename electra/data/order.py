"""Which rows a step sees: a pure function of (seed, step), so no sampler has a state to save.

Every epoch is a keyed permutation of all rows. Steps run through the epochs without a seam: a batch
may end one epoch and begin the next. Ranks and workers take slices of the answer and so cannot
change it.
"""

import functools

import numpy as np
from numpy.typing import NDArray

from electra.seeds import derive, permute

BLOCK = 1 << 14  # row numbers worked out at once: small batches would spend their time on calls


def row_indices(seed: int, step: int, batch: int, rows: int) -> NDArray[np.int64]:
    """The `batch` row numbers, in range(rows), of step `step` (counted from 0); read-only."""
    assert batch > 0 and rows > 0 and step >= 0
    steps = max(1, BLOCK // batch)
    place = step % steps * batch
    return _block(seed, step // steps * steps * batch, steps * batch, rows)[place : place + batch]


@functools.lru_cache(maxsize=4)
def _block(seed: int, start: int, count: int, rows: int) -> NDArray[np.int64]:
    positions = np.arange(start, start + count, dtype=np.int64)
    epochs, within = positions // rows, positions % rows
    indices = np.empty_like(positions)
    for epoch in range(int(epochs[0]), int(epochs[-1]) + 1):
        here = epochs == epoch
        indices[here] = permute(within[here], rows, derive(seed, "order", epoch))
    indices.flags.writeable = False
    return indices
