"""Rows of the memory map as batches: the right numbers, read ahead of the step."""

import numpy as np
import pytest
import torch

from electra.data import shards
from electra.data.order import row_indices
from electra.pretraining import dataloader
from electra.pretraining.dataloader import BatchLoader
from tests.electra.helpers import MadeUpRows, config


@pytest.mark.parametrize("kind", [np.uint16, np.uint32])
def test_ids_of_any_size_keep_their_value(kind):
    rows = MadeUpRows(40)
    rows.ids = rows.ids.astype(kind)
    # beyond the range of the signed type of that width
    rows.ids[:, 5] = np.iinfo(kind).max - np.arange(40)
    batch = BatchLoader(rows, config(), torch.device("cpu"), "noise").batch(3)
    chosen = row_indices(config().pretrain.seed, 3, 8, 40)
    assert batch.ids_BT.tolist() == rows.ids[chosen].tolist()
    assert batch.lengths_B.tolist() == rows.bounds[chosen, 1].tolist()
    second = [
        [int(first <= at < last) for at in range(24)]
        for first, last in rows.bounds[chosen].tolist()
    ]
    assert batch.segments_BT.tolist() == second


def test_rows_are_asked_for_one_batch_ahead(tmp_path, monkeypatch):
    """Without advice the system reads the pages around each row, thousands of times a batch's
    bytes.
    """
    rows = MadeUpRows(5000, length=256)
    for name in ("ids", "bounds"):
        table = getattr(rows, name)
        table.tofile(tmp_path / name)
        setattr(rows, name, np.memmap(tmp_path / name, np.uint16, "r", shape=table.shape))
    advice = []

    def prefetch(table, indices):
        advice.append(indices.tolist())
        shards.prefetch(table, indices)

    monkeypatch.setattr(dataloader, "prefetch", prefetch)
    settings = config(encoder__positions=256, pretrain__length=256)
    loader = BatchLoader(rows, settings, torch.device("cpu"), "noise")
    now, following = (row_indices(settings.pretrain.seed, step, 8, 5000) for step in (3, 4))
    assert loader.batch(3).ids_BT.tolist() == rows.ids[now].tolist()
    assert advice == [following.tolist()] * 2
    # rows that begin and end within pages, the last one at the end of the file
    shards.prefetch(rows.bounds, np.arange(5000))
