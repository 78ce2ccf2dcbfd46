"""Rows of the memory map as batches: the right numbers, read ahead of the step."""

import numpy as np
import pytest

from electra.data import shards
from electra.data.order import row_indices
from electra.pretraining import dataloader
from tests.electra.helpers import MadeUpRows, config
from tests.electra.pretraining.step_helpers import CPU


@pytest.mark.parametrize("kind", [np.uint16, np.uint32])
def test_a_batch_has_its_rows_and_asks_for_those_of_the_next(kind, tmp_path, monkeypatch):
    """Without advice the system reads the pages around each row, thousands of times a batch's
    bytes.
    """
    rows = MadeUpRows(5000, length=256)
    rows.ids = rows.ids.astype(kind)
    # beyond the range of the signed type of that width
    rows.ids[:, 5] = np.iinfo(kind).max - np.arange(5000)
    for name in ("ids", "bounds"):
        table = getattr(rows, name)
        table.tofile(tmp_path / name)
        setattr(rows, name, np.memmap(tmp_path / name, table.dtype, "r", shape=table.shape))
    advice = []

    def prefetch(table, indices):
        advice.append(indices.tolist())
        shards.prefetch(table, indices)

    monkeypatch.setattr(dataloader, "prefetch", prefetch)
    batch = dataloader.BatchLoader(rows, config(), CPU, "noise").batch(3)
    chosen, following = (row_indices(1, step, 8, 5000).tolist() for step in (3, 4))
    assert batch.ids_BT.tolist() == rows.ids[chosen].tolist()
    second, length = rows.bounds[chosen].T
    at = np.arange(256)
    segments = (at >= second[:, None]) & (at < length[:, None])
    assert batch.segments_BT.tolist() == segments.tolist()
    assert advice == [following] * 2
    # rows that begin and end within pages, the last one at the end of the file
    shards.prefetch(rows.bounds, np.arange(5000))
