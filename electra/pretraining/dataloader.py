"""Rows to batches on the device: gathered from the memory map, or from the GPU's memory where there is room for all.

Shapes: B rows of the global batch, T positions, N chosen slots a row.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from electra.data.order import row_indices
from electra.data.shards import prefetch, read_at_random
from electra.errors import BadInput
from electra.pretraining.config import ElectraConfig
from electra.pretraining.corruption import Noise, SpecialIds, chosen_per_row
from electra.pretraining.model import Batch
from electra.seeds import torch_generator

_AT_ONCE = 1 << 18  # rows: 256 MB of 512 positions


class RowSet(Protocol):
    """What the loop needs of `electra.data.shards.Rows`."""

    ids: NDArray[Any]  # (rows, T)
    bounds: NDArray[Any]  # (rows, 2): where segment B starts (the row's length if it has none), real tokens
    tokens: int  # in all rows, padding apart

    def __len__(self) -> int: ...


@dataclass(frozen=True)
class Data:
    """Rows and what must be known of their tokenizer; `others`: training rows of phases with another length."""

    train: RowSet
    valid: RowSet
    special: SpecialIds
    vocab_size: int
    unigram_V: Tensor | None = None
    others: Mapping[int, RowSet] = field(default_factory=dict)

    def rows(self, length: int, batch: int) -> RowSet:
        """Training rows of a length. Raises BadInput where they are fewer than a batch, or none is held out."""
        rows = self.others.get(length, self.train)
        assert rows.ids.shape[1] == length
        if len(rows) < batch or len(self.valid) == 0:
            found = f"{len(rows)} for training and {len(self.valid)} held out"
            expected, do = f"at least one batch of {batch} and one held out", "use more text, shorter rows or a smaller"
            raise BadInput("rows", found, expected, f"{do} pretrain.batch")
        return rows


class Feed:
    """Batches of one row set, each a pure function of its number; of `pretrain.batch` rows, or a phase's own size."""

    def __init__(
        self, rows: RowSet, config: ElectraConfig, device: torch.device, stream: str, batch: int | None = None
    ) -> None:
        self.rows, self.config, self.device, self.stream = rows, config, device, stream
        self.size = batch or config.pretrain.batch
        self.tokens = self.size * rows.tokens / len(rows)  # of a batch, padding apart
        self.resident: tuple[Tensor, Tensor] | None = None
        self.nbytes = rows.ids.nbytes + rows.bounds.nbytes
        self.streams = False  # whether rows have been read one by one

    def cache_on_gpu_if_room(self) -> None:
        """Put the whole set on the GPU if it takes at most half of what is free, once steps have what they need."""
        if self.device.type == "cuda" and self.nbytes <= torch.cuda.mem_get_info(self.device)[0] / 2:
            self.cache()

    def cache(self) -> None:
        """Put the whole set on the device."""
        self.resident = (self._whole(self.rows.ids), self._whole(self.rows.bounds))

    def _whole(self, table: NDArray[Any]) -> Tensor:
        """A table on the device, copied in parts: the host, where each GPU has its process, never holds all of it."""
        read_at_random(table, False)
        place = torch.empty(table.shape, dtype=_signed(table[:0]).dtype, device=self.device)
        for start in range(0, len(table), _AT_ONCE):
            place[start : start + _AT_ONCE] = _signed(table[start : start + _AT_ONCE])
        return place

    def batch(self, number: int) -> Batch:
        """The global batch of step `number`: rows, noise and denominators."""
        seed = self.config.pretrain.seed
        indices = row_indices(seed, number, self.size, len(self.rows))
        if self.resident:
            chosen = self._sent(torch.tensor(indices))
            ids_BT, bounds_B2 = (_unsigned(table.index_select(0, chosen)) for table in self.resident)
        else:
            ids_BT, bounds_B2 = (_unsigned(self._sent(_signed(table))) for table in self._stream(indices, number))
        # strided columns would be another layout than a copy of them
        second_B, lengths_B = bounds_B2.T.contiguous().unbind()
        position_T = torch.arange(ids_BT.shape[1], device=self.device)
        segments_BT = ((position_T >= second_B[:, None]) & (position_T < lengths_B[:, None])).long()
        generator = torch_generator(self.device, seed, self.stream, number)
        noise = Noise.draw(generator, len(ids_BT), ids_BT.shape[1], self.config.objective)
        count = chosen_per_row(lengths_B, self.config.objective.mask_rate, ids_BT.shape[1]).sum()
        return Batch(ids_BT, segments_BT, lengths_B, noise, count, lengths_B.sum())

    def _stream(self, indices: NDArray[np.int64], number: int) -> list[NDArray[Any]]:
        """Ids and bounds of a batch from the disk; those of the next batch are read while this one is worked on."""
        tables = (self.rows.ids, self.rows.bounds)
        if not self.streams:
            self.streams = True
            for table in tables:
                read_at_random(table)
        found = [table[indices] for table in tables]
        following = row_indices(self.config.pretrain.seed, number + 1, self.size, len(self.rows))
        for table in tables:
            prefetch(table, following)
        return found

    def _sent(self, tensor: Tensor) -> Tensor:
        """A tensor of the host on the device; to a GPU from pinned memory, so that the host need not wait for it."""
        if self.device.type != "cuda":
            return tensor.to(self.device)
        return tensor.pin_memory().to(self.device, non_blocking=True)


def _signed(table: NDArray[Any]) -> Tensor:
    """The same bytes under a signed type: on GPUs few kernels take unsigned numbers of more than 8 bits."""
    return torch.from_numpy(np.array(table).view(f"i{table.dtype.itemsize}"))


def _unsigned(rows: Tensor) -> Tensor:
    """What the bytes of `_signed` stand for."""
    return rows.long() & ((1 << 8 * rows.element_size()) - 1)


def part(batch: Batch, index: int, parts: int) -> Batch:
    """The `index`-th of `parts` equal slices of a global batch; the denominators stay those of the whole."""
    size = len(batch.ids_BT) // parts
    rows = slice(index * size, (index + 1) * size)
    return replace(
        batch,
        ids_BT=batch.ids_BT[rows],
        segments_BT=batch.segments_BT[rows],
        lengths_B=batch.lengths_B[rows],
        noise=batch.noise.rows(rows),
    )
