"""Rows of the memory map as batches: the right numbers, read ahead of the step."""

import numpy as np
import pytest
import torch

from electra.data import shards
from electra.data.order import row_indices
from electra.pretraining import dataloader as feed_module
from electra.pretraining.dataloader import BatchLoader
from tests.electra.helpers import MadeUpRows, config


@pytest.mark.parametrize("kind", [np.uint16, np.uint32])
def test_ids_of_any_size_keep_their_value(kind):
    rows = MadeUpRows(40)
    rows.ids = rows.ids.astype(kind)
    # beyond what the signed type of that width holds
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
    rows, settings = (
        MadeUpRows(5000, length=256),
        config(encoder__positions=256, pretrain__length=256),
    )
    mapped = MadeUpRows(5000, length=256)
    for name in ("ids", "bounds"):
        (tmp_path / name).write_bytes(getattr(rows, name).tobytes())
        setattr(
            mapped,
            name,
            np.memmap(tmp_path / name, np.uint16, "r", shape=getattr(rows, name).shape),
        )
    asked = []
    monkeypatch.setattr(feed_module, "read_at_random", lambda table: asked.append(len(table)))
    monkeypatch.setattr(
        feed_module,
        "prefetch",
        lambda table, indices: asked.append(indices.tolist()) or shards.prefetch(table, indices),
    )
    feed, plain = (BatchLoader(of, settings, torch.device("cpu"), "noise") for of in (mapped, rows))
    assert asked == [5000] * 4
    for number in range(3):
        asked.clear()
        assert torch.equal(feed.batch(number).ids_BT, plain.batch(number).ids_BT)
        assert asked == [row_indices(settings.pretrain.seed, number + 1, 8, 5000).tolist()] * 4
    # rows that begin and end within pages, the last one at the end of the file
    for step in (1, 997):
        shards.prefetch(mapped.ids, np.arange(0, 5000, step)[-50:])
        shards.prefetch(mapped.bounds, np.arange(5000))
    shards.read_at_random(mapped.ids)
    shards.read_at_random(rows.ids)
    shards.prefetch(rows.ids, np.arange(3))
