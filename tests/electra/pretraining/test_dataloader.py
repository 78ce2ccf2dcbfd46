"""Rows of files as batches: the right numbers, read ahead of the step."""

import os

import numpy as np
import pytest

from electra.data.order import row_indices
from electra.data.shards import Table
from electra.pretraining import dataloader
from tests.support.pretraining import MadeUpRows, config
from tests.support.steps import CPU


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
        setattr(rows, name, Table(tmp_path / name, table.dtype, table.shape[1]))
    advice = []
    monkeypatch.setattr(os, "posix_fadvise", lambda _, *advised: advice.append(advised))
    batch = dataloader.BatchLoader(rows, config(), CPU, "noise").batch(3)
    chosen, following = (row_indices(1, step, 8, 5000).tolist() for step in (3, 4))
    assert batch.ids_BT.tolist() == rows.ids[np.array(chosen)].tolist()
    second, length = rows.bounds[np.array(chosen)].T
    at = np.arange(256)
    segments = (at >= second[:, None]) & (at < length[:, None])
    assert batch.segments_BT.tolist() == segments.tolist()
    sizes = [rows.ids.dtype.itemsize * 256, 4]
    read = [(number * size, size, os.POSIX_FADV_WILLNEED) for size in sizes for number in following]
    assert advice == read
