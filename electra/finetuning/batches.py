"""Choose the rows of each step, and pad them.

1. an epoch is one global shuffle of the rows, cut into batches of B rows, as published; the last
  may be short
2. a batch is processed in parts of rows of similar length, shortest first; their gradients add up
3. the rows of a part are padded to its longest row

Shapes: N rows of a split, S tokens of all of them, B rows of a batch, T positions of its longest
row.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from electra.nn.encoder import real_tokens
from electra.seeds import derive, permute

NO_WORD = -100  # tagging's label of a token that stands for no word, and of padding


@dataclass(frozen=True)
class PaddedBatch:
    """Input of the network: ids and segments of B rows, padded at the end, and named targets."""

    ids_BT: Tensor
    segments_BT: Tensor
    lengths_B: Tensor
    # one value for each row (B,), or (tagging) one for each token (B, T)
    targets: dict[str, Tensor]

    def real_tokens(self) -> Tensor:
        """Return which tokens are not padding (B, T)."""
        return real_tokens(self.lengths_B, self.ids_BT.shape[1])


@dataclass(frozen=True)
class Examples:
    """A split as arrays: ids of all rows end to end, each row's length and start of segment B,
    named targets.
    """

    ids_S: NDArray[np.int32]
    length_N: NDArray[np.int64]
    second_N: NDArray[np.int64]  # first position of segment B; the row's length if there is none
    targets: dict[str, NDArray[Any]]  # one value for each row, or (tagging) one for each token
    row_ids: list[str]

    def __len__(self) -> int:
        return len(self.length_N)

    @cached_property
    def start_N(self) -> NDArray[np.int64]:
        """The index in `ids_S` at which each row begins."""
        return np.cumsum(self.length_N) - self.length_N

    def batch(self, rows_B: NDArray[np.int64], device: torch.device | str = "cpu") -> PaddedBatch:
        """Return the rows with these numbers, padded to the longest of them."""
        length_B = self.length_N[rows_B]
        position_T = np.arange(length_B.max())
        real_BT = position_T < length_B[:, None]
        source_BT = np.where(real_BT, self.start_N[rows_B][:, None] + position_T, 0)
        ids_BT = np.where(real_BT, self.ids_S[source_BT], 0).astype(np.int64)
        in_second_BT = real_BT & (position_T >= self.second_N[rows_B][:, None])
        segments_BT = in_second_BT.astype(np.int64)
        targets = {}
        for name, values in self.targets.items():
            by_row = len(values) == len(self)
            targets[name] = (
                values[rows_B] if by_row else np.where(real_BT, values[source_BT], NO_WORD)
            )
        return PaddedBatch(
            torch.from_numpy(ids_BT).to(device),
            torch.from_numpy(segments_BT).to(device),
            torch.from_numpy(length_B).to(device),
            {name: torch.from_numpy(values).to(device) for name, values in targets.items()},
        )


def stack(
    sequences: list[list[int]],
    starts: list[int],
    targets: dict[str, NDArray[Any]],
    row_ids: list[str],
) -> Examples:
    """Return sequences of any lengths as one array."""
    length_N = np.array([len(sequence) for sequence in sequences], dtype=np.int64)
    ids = itertools.chain.from_iterable(sequences)
    ids_S = np.fromiter(ids, np.int32)
    return Examples(ids_S, length_N, np.array(starts, dtype=np.int64), targets, row_ids)


def training_order(rows: int, batch: int, seed: int, stream: str) -> Iterator[NDArray[np.int64]]:
    """Yield endless batches of row numbers. Every epoch is one shuffle of all rows, by the
    arguments alone.

    The last batch of an epoch may be short, as in the published code (which fills it with rows of
    no weight).
    """
    epoch = 0
    while True:
        order_N = shuffled(rows, derive(seed, f"{stream}/order", epoch))
        for start in range(0, rows, batch):
            yield order_N[start : start + batch]
        epoch += 1


def shuffled(count: int, key: int) -> NDArray[np.int64]:
    """Return a permutation of range(count)."""
    return permute(np.arange(count, dtype=np.int64), count, key)


def parts(
    rows_B: NDArray[np.int64], length_N: NDArray[np.int64], tokens: int, padding: int
) -> Iterator[NDArray[np.int64]]:
    """Yield each row once, shortest first, in parts of at most `tokens` tokens (or one longer row),
    padding included.

    A part also ends before a row that would leave it with more than `padding` tokens of padding.
    """
    rows_B = rows_B[np.argsort(length_N[rows_B], kind="stable")]
    start = 0
    real = 0
    for end, row in enumerate(rows_B):
        longest = int(length_N[row])
        cells = (end + 1 - start) * longest
        if end > start and (cells > tokens or cells - real - longest > padding):
            yield rows_B[start:end]
            start = end
            real = 0
        real += longest
    yield rows_B[start:]
