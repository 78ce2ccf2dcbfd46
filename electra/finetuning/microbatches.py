"""The rows of several seeds in parts of like size, evened out by rows of filler whose losses count for nothing.

Shapes: S seeds, B rows of a batch, R rows of a part, D rows of filler.
"""

import dataclasses
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from electra.finetuning.batches import NO_WORD, Examples

_FILLERS = 8  # rows of filler come in multiples of this where shapes are to be few


def with_filler(examples: Examples) -> Examples:
    """The rows, and after them one row of filler of each length from 1 up to the longest row's."""
    longest = int(examples.length_N.max())
    length_L = np.arange(1, longest + 1)
    targets = {
        name: np.concatenate([values, np.zeros(longest, values.dtype)])
        if len(values) == len(examples)
        else np.concatenate([values, np.full(length_L.sum(), NO_WORD, values.dtype)])  # one for each token
        for name, values in examples.targets.items()
    }
    return dataclasses.replace(
        examples,
        ids_S=np.concatenate([examples.ids_S, np.zeros(length_L.sum(), examples.ids_S.dtype)]),
        length_N=np.concatenate([examples.length_N, length_L]),
        second_N=np.concatenate([examples.second_N, length_L]),
        targets=targets,
        row_ids=[*examples.row_ids, *[""] * longest],
    )


def even_parts(
    rows_SB: NDArray[np.int64], length_N: NDArray[np.int64], tokens: int, grain: int = 1, columns: int = 1
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], int]]:
    """Each seed's rows once, shortest first, in parts of at most `tokens` tokens of all seeds (or one row of each).

    With every part come rows of `with_filler` (S, D) that lift all seeds' token counts to the same multiple of `grain`,
    and the columns of its grid: its longest row's tokens, rounded up to a multiple of `columns`.
    """
    rows_SB = np.take_along_axis(rows_SB, np.argsort(length_N[rows_SB], axis=1, kind="stable"), 1)
    length_SB = length_N[rows_SB]
    seeds, batch = rows_SB.shape
    start = 0
    while start < batch:
        real_R = length_SB[:, start:].sum(0).cumsum()
        cells_R = seeds * np.arange(1, batch - start + 1) * length_SB[:, start:].max(0)
        fits_R = (real_R <= tokens) & ((cells_R <= tokens) | (cells_R <= 1.25 * real_R))  # as `parts` has it
        end = start + max(1, int(np.logical_and.accumulate(fits_R).sum()))
        part_SR = length_SB[:, start:end]
        longest = -(-int(part_SR.max()) // columns) * columns
        filler_SD = _filler(part_SR.sum(1), min(longest, int(length_N.max())), grain)
        yield rows_SB[:, start:end], len(length_N) + filler_SD, longest
        start = end


def _filler(tokens_S: NDArray[np.int64], longest: int, grain: int) -> NDArray[np.int64]:
    """Lengths less one (S, D) of rows that lift every count to the same number, none longer than `longest`."""
    count, most = 0, longest - 1
    while True:  # each row has one token more than it need, so that none is empty
        target = -(-(int(tokens_S.max()) + count) // grain) * grain - count
        missing_S1 = (target - tokens_S)[:, None]
        if missing_S1.max() <= count * most:
            break
        count += _FILLERS if grain > 1 else 1
    less_one_SD: NDArray[np.int64] = np.clip(missing_S1 - np.arange(count) * most, 0, most)
    return less_one_SD
