"""Which rows make a step, and how they are packed: end to end, without padding.

1. an epoch is one global shuffle of the rows, cut into batches of B rows, as published; the last may be short
2. a batch with more tokens than fit at once is processed in parts of rows of similar length; their gradients add up
3. the rows of a part stand end to end; only attention lays them out as a grid, one row a line

Shapes: N rows of a split, S tokens of all of them, B rows of a batch, P tokens of a batch, T columns of its grid (the
longest row, at least), C = B × T cells.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from electra.seeds import derive, permute

NO_WORD = -100  # tagging's label of a token that stands for no word


@dataclass(frozen=True)
class PackedBatch:
    """What the network sees: tokens of B rows end to end, and where each stands in the B × T grid of attention."""

    ids_P: Tensor
    segments_P: Tensor
    positions_P: Tensor  # place in its row
    row_P: Tensor
    first_B: Tensor  # place of each row's first token in P
    ends: Tensor  # (B + 1,), int32: 0, then where each row ends
    longest: int  # T
    cell_P: Tensor  # place in the grid
    token_C: Tensor  # the token of each cell; an empty cell repeats its row's first
    real_BT: Tensor | None  # which cells hold a token; None if all do
    targets: dict[str, Tensor]

    def __len__(self) -> int:
        return len(self.first_B)

    def grid(self, values_P: Tensor, fill: float) -> Tensor:
        """One number for each token as (B, T), `fill` where a row has ended."""
        cells_BT = values_P[self.token_C].view(len(self), -1)
        return cells_BT if self.real_BT is None else cells_BT.masked_fill(~self.real_BT, fill)


@dataclass(frozen=True)
class Examples:
    """A split, ready: the ids of all rows end to end, where each row and its segment B begin, and named targets."""

    ids_S: NDArray[np.int32]
    length_N: NDArray[np.int64]
    second_N: NDArray[np.int64]  # first position of segment B; the row's length if there is none
    targets: dict[str, NDArray[Any]]  # one value for each row, or (tagging) one for each token
    row_ids: list[str]

    def __len__(self) -> int:
        return len(self.length_N)

    @cached_property
    def start_N(self) -> NDArray[np.int64]:
        """Where each row begins in `ids_S`."""
        return np.cumsum(self.length_N) - self.length_N

    def batch(
        self,
        rows_B: NDArray[np.int64],
        device: torch.device | str = "cpu",
        *,
        longest: int = 0,
        places: dict[Any, Tensor] | None = None,
    ) -> PackedBatch:
        """The rows with these numbers, by one gather, in a grid of at least `longest` columns.

        With `places` batches of equal shapes have the same memory, which recorded work reads: each overwrites the one
        before it.
        """
        length_B = self.length_N[rows_B]
        first_B = np.cumsum(length_B) - length_B
        row_P = np.repeat(np.arange(len(rows_B)), length_B)
        positions_P = np.arange(len(row_P)) - first_B[row_P]
        source_P = self.start_N[rows_B][row_P] + positions_P
        longest = max(longest, int(length_B.max()))
        cell_P = row_P * longest + positions_P
        token_C = np.repeat(first_B, longest)
        token_C[cell_P] = np.arange(len(cell_P))
        arrays: dict[str, NDArray[Any]] = {
            "ids_P": self.ids_S[source_P].astype(np.int64),
            "segments_P": (positions_P >= self.second_N[rows_B][row_P]).astype(np.int64),
            "positions_P": positions_P,
            "row_P": row_P,
            "first_B": first_B,
            "ends": np.append(first_B, len(row_P)).astype(np.int32),
            "cell_P": cell_P,
            "token_C": token_C,
        }
        if len(cell_P) < len(token_C) or places is not None:
            arrays["real_BT"] = np.arange(longest) < length_B[:, None]
        targets = {
            name: values[rows_B] if len(values) == len(self) else values[source_P]
            for name, values in self.targets.items()
        }
        tensors = _to_device([*arrays.values(), *targets.values()], torch.device(device), places)
        own = dict(zip(arrays, tensors, strict=False))
        asked = dict(zip(targets, tensors[len(arrays) :], strict=True))
        return PackedBatch(**{"real_BT": None} | own, longest=longest, targets=asked)  # type: ignore[arg-type]


def _to_device(
    arrays: list[NDArray[Any]], device: torch.device, places: dict[Any, Tensor] | None = None
) -> list[Tensor]:
    """Arrays as tensors; to a GPU all go by one copy from pinned memory, for which the host does not wait."""
    if device.type != "cuda" and places is None:
        return [torch.from_numpy(array).to(device) for array in arrays]
    aligned = [-(-array.nbytes // 8) * 8 for array in arrays]
    packed = torch.empty(sum(aligned), dtype=torch.uint8, pin_memory=device.type == "cuda")
    for array, place in zip(arrays, torch.split(packed, aligned), strict=True):
        place[: array.nbytes].copy_(torch.from_numpy(np.ascontiguousarray(array)).flatten().view(torch.uint8))
    if places is None:
        packed = packed.to(device, non_blocking=True)
    else:
        key = tuple(array.shape for array in arrays)
        if key not in places:
            places[key] = torch.empty_like(packed, device=device, pin_memory=False)
        packed = places[key].copy_(packed, non_blocking=True)
    return [
        place[: array.nbytes].view(torch.from_numpy(array[:0]).dtype).view(array.shape)
        for array, place in zip(arrays, torch.split(packed, aligned), strict=True)
    ]


def stack(
    sequences: list[list[int]], starts: list[int], targets: dict[str, NDArray[Any]], row_ids: list[str]
) -> Examples:
    """Sequences of any lengths as one array."""
    length_N = np.array([len(sequence) for sequence in sequences], dtype=np.int64)
    ids_S = np.fromiter((piece for sequence in sequences for piece in sequence), np.int32, int(length_N.sum()))
    return Examples(ids_S, length_N, np.array(starts, dtype=np.int64), targets, row_ids)


def training_order(rows: int, batch: int, seed: int, stream: str) -> Iterator[NDArray[np.int64]]:
    """Endless batches of row numbers; every epoch is one shuffle of all rows. A function of its arguments alone.

    The last batch of an epoch may be short, as in the published code (which fills it with rows of no weight).
    """
    epoch = 0
    while True:
        order_N = shuffled(rows, derive(seed, f"{stream}/order", epoch))
        for start in range(0, rows, batch):
            yield order_N[start : start + batch]
        epoch += 1


def shuffled(count: int, key: int) -> NDArray[np.int64]:
    """A permutation of range(count)."""
    return permute(np.arange(count, dtype=np.int64), count, key)


def parts(rows_B: NDArray[np.int64], length_N: NDArray[np.int64], tokens: int) -> Iterator[NDArray[np.int64]]:
    """Each row once, shortest first, as many at a time as have `tokens` tokens (or one longer row).

    Rows of like length leave few empty cells in the grid of attention; a part that would be a fifth empty, and has
    cells enough to be worth a pass of its own, ends sooner.
    """
    rows_B = rows_B[np.argsort(length_N[rows_B], kind="stable")]
    start, real = 0, 0
    for end, row in enumerate(rows_B):
        longest = int(length_N[row])
        cells = (end + 1 - start) * longest
        if end > start and (real + longest > tokens or (cells > tokens and cells > 1.25 * (real + longest))):
            yield rows_B[start:end]
            start, real = end, 0
        real += longest
    yield rows_B[start:]
