"""Turn rows into batches on the device: gathered from their files, with their noise and their
denominators.

Shapes: B rows of the global batch, T positions, N chosen slots a row.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from electra.data.order import row_indices
from electra.data.shards import Table
from electra.errors import BadInput
from electra.nn.encoder import real_tokens
from electra.pretraining.config import ElectraConfig
from electra.pretraining.corruption import Noise, SpecialIds, chosen_per_row
from electra.pretraining.model import Batch
from electra.seeds import torch_generator


class RowSet(Protocol):
    """The part of `electra.data.shards.Rows` that the loop needs."""

    tokens: int  # in all rows, padding apart

    @property
    def ids(self) -> NDArray[Any] | Table:
        """Return the token ids (rows, T)."""

    @property
    def bounds(self) -> NDArray[Any] | Table:
        """Return where segment B starts (the row's length if it has none) and the number of real
        tokens (rows, 2).
        """

    def __len__(self) -> int: ...


@dataclass(frozen=True)
class PretrainData:
    """Rows and the facts about their tokenizer that training needs. `others` are the training rows
    of phases with another length.
    """

    train: RowSet
    valid: RowSet
    special: SpecialIds
    vocab_size: int
    unigram_V: Tensor | None = None
    others: Mapping[int, RowSet] = field(default_factory=dict)

    def rows(self, length: int, batch: int) -> RowSet:
        """Return the training rows of a length. Raises BadInput for fewer than a batch."""
        rows = self.others.get(length, self.train)
        assert rows.ids.shape[1] == length
        if len(rows) < batch:
            raise BadInput(
                f"there are {len(rows)} rows for training, and a batch takes {batch}: use more "
                "text, shorter rows or a smaller pretrain.batch"
            )
        return rows


class BatchLoader:
    """Batches of one row set, each a pure function of its number; of `pretrain.batch` rows, or a
    phase's own size.
    """

    def __init__(
        self,
        rows: RowSet,
        config: ElectraConfig,
        device: torch.device,
        stream: str,
        batch: int | None = None,
    ) -> None:
        self.rows = rows
        self.config = config
        self.device = device
        self.stream = stream
        self.size = batch or config.pretrain.batch

    def batch(self, number: int) -> Batch:
        """Return the global batch of step `number`: rows, noise and denominators."""
        seed = self.config.pretrain.seed
        objective = self.config.objective
        indices = row_indices(seed, number, self.size, len(self.rows))
        ids_BT = self._send(self.rows.ids[indices])
        bounds_B2 = self._send(self.rows.bounds[indices])
        following = row_indices(seed, number + 1, self.size, len(self.rows))
        for table in (self.rows.ids, self.rows.bounds):
            if isinstance(table, Table):
                table.prefetch(following)
        # strided columns would be another layout than a copy of them
        second_B, lengths_B = bounds_B2.T.contiguous().unbind()
        rows, length = ids_BT.shape
        first_BT = real_tokens(second_B, length)
        segments_BT = (real_tokens(lengths_B, length) & ~first_BT).long()
        generator = torch_generator(self.device, seed, self.stream, number)
        noise = Noise.draw(generator, rows, length, objective)
        chosen = chosen_per_row(lengths_B, objective.mask_rate, length).sum()
        return Batch(ids_BT, segments_BT, lengths_B, noise, chosen, lengths_B.sum())

    def _send(self, rows: NDArray[Any]) -> Tensor:
        """Return rows on the device; a GPU's come from pinned memory, so that the host need not
        wait for the copy.
        """
        tensor = torch.from_numpy(rows.astype(np.int64))
        if self.device.type != "cuda":
            return tensor.to(self.device)
        return tensor.pin_memory().to(self.device, non_blocking=True)


def slice_batch(batch: Batch, index: int, parts: int) -> Batch:
    """Return the `index`-th of `parts` equal slices of a global batch; the denominators stay those
    of the whole.
    """
    size = len(batch.ids_BT) // parts
    rows = slice(index * size, (index + 1) * size)
    return batch._replace(
        ids_BT=batch.ids_BT[rows],
        segments_BT=batch.segments_BT[rows],
        lengths_B=batch.lengths_B[rows],
        noise=Noise(*(numbers[rows] for numbers in batch.noise)),
    )
