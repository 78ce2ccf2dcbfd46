"""Which rows a step sees: a pure function of (seed, step), so no sampler has a state to save.

Every epoch is a keyed permutation of all rows. Steps run through the epochs without a seam: a batch may end one epoch
and begin the next. Ranks and workers take slices of the answer and so cannot change it.
"""

import numpy as np
from numpy.typing import NDArray

from electra.seeds import derive, permute


def row_indices(seed: int, step: int, batch: int, rows: int) -> NDArray[np.int64]:
    """The `batch` row numbers, in range(rows), of step `step` (counted from 0)."""
    assert batch > 0 and rows > 0 and step >= 0
    positions = np.arange(step * batch, (step + 1) * batch, dtype=np.int64)
    epochs, within = positions // rows, positions % rows
    indices = np.empty_like(positions)
    for epoch in range(int(epochs[0]), int(epochs[-1]) + 1):
        here = epochs == epoch
        indices[here] = permute(within[here], rows, derive(seed, "order", epoch))
    return indices
