"""The rows of each step: a pure function of (seed, step), so no sampler has a state to save.

Every epoch is a keyed permutation of all rows. Steps run through the epochs without a seam: a batch
may end one epoch and begin the next. Ranks and workers take slices of the result, so they cannot
change it.
"""

import numpy as np
from numpy.typing import NDArray

from electra.seeds import derive, permute


def row_indices(seed: int, step: int, batch: int, rows: int) -> NDArray[np.int64]:
    """Return the `batch` row numbers, in range(rows), of step `step` (counted from 0)."""
    positions = np.arange(step * batch, (step + 1) * batch, dtype=np.int64)
    epochs = positions // rows
    indices = positions % rows
    for epoch in range(int(epochs[0]), int(epochs[-1]) + 1):
        of_epoch = epochs == epoch
        indices[of_epoch] = permute(indices[of_epoch], rows, derive(seed, "order", epoch))
    return indices
