"""Rows that lie on the device give the batches that the memory map gives."""

import numpy as np
import pytest
import torch

from electra.data import shards
from electra.data.order import row_indices
from electra.pretraining import dataloader as feed_module
from electra.pretraining.dataloader import Feed
from tests.electra.helpers import MadeUpRows, config


@pytest.mark.parametrize("kind", [np.uint16, np.uint32])
def test_resident_rows_give_the_same_batches(kind, monkeypatch):
    monkeypatch.setattr(feed_module, "_AT_ONCE", 7)
    rows = MadeUpRows(40)
    rows.ids = rows.ids.astype(kind)
    rows.ids[:, 5] = np.iinfo(kind).max - np.arange(40)  # beyond what the signed type of that width holds
    feeds = [Feed(rows, config(), torch.device("cpu"), "noise") for _ in range(2)]
    read, signed = [], feed_module._signed
    monkeypatch.setattr(feed_module, "_signed", lambda table: read.append(len(table)) or signed(table))
    feeds[1].cache()
    assert max(read) == 7 and sum(read) == 2 * 40, "all at once may be more than the host has"
    for number in range(3):
        plain, resident = (feed.batch(number) for feed in feeds)
        assert torch.equal(plain.ids_BT, resident.ids_BT) and plain.ids_BT.max() > np.iinfo(kind).max // 2
        assert torch.equal(plain.lengths_B, resident.lengths_B)
        assert torch.equal(plain.segments_BT, resident.segments_BT)


def test_streamed_rows_are_asked_for_one_batch_ahead(tmp_path, monkeypatch):
    """Without advice the system reads the pages around each row, thousands of times a batch's bytes."""
    rows, settings = MadeUpRows(5000, length=256), config(encoder__positions=256, pretrain__length=256)
    mapped = MadeUpRows(5000, length=256)
    for name in ("ids", "bounds"):
        (tmp_path / name).write_bytes(getattr(rows, name).tobytes())
        setattr(mapped, name, np.memmap(tmp_path / name, np.uint16, "r", shape=getattr(rows, name).shape))
    asked = []
    monkeypatch.setattr(feed_module, "read_at_random", lambda table, yes=True: asked.append((len(table), yes)))
    monkeypatch.setattr(
        feed_module,
        "prefetch",
        lambda table, indices: asked.append(indices.tolist()) or shards.prefetch(table, indices),
    )
    feed, plain = (Feed(of, settings, torch.device("cpu"), "noise") for of in (mapped, rows))
    for number in range(3):
        assert torch.equal(feed.batch(number).ids_BT, plain.batch(number).ids_BT)
    ahead = [row_indices(settings.pretrain.seed, number, 8, 5000).tolist() for number in (1, 2, 3)]
    assert asked[:2] == [(5000, True)] * 2 and [each for each in ahead for _ in range(4)] == [
        each for each in asked if isinstance(each, list)
    ]
    asked.clear()
    feed.cache()
    assert asked == [(5000, False)] * 2
    for step in (1, 997):  # rows that begin and end within pages, the last one at the end of the file
        shards.prefetch(mapped.ids, np.arange(0, 5000, step)[-50:])
        shards.prefetch(mapped.bounds, np.arange(5000))
    shards.read_at_random(mapped.ids)
    shards.read_at_random(rows.ids)
    shards.prefetch(rows.ids, np.arange(3))


@pytest.mark.parametrize(("free", "held"), [(2, True), (1.9, False)])
def test_rows_lie_on_a_gpu_only_where_a_step_has_left_twice_the_room(free, held, monkeypatch):
    rows, found = MadeUpRows(40), []
    feed = Feed(rows, config(), torch.device("cuda"), "noise")
    assert feed.resident is None
    size = rows.ids.nbytes + rows.bounds.nbytes
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (free * size, 100 * size))
    monkeypatch.setattr(feed, "cache", lambda: found.append(True))
    feed.cache_on_gpu_if_room()
    assert bool(found) == held
