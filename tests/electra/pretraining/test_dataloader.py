"""Rows that lie on the device give the batches that the memory map gives."""

import numpy as np
import pytest
import torch

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
    feeds[1].cache()
    for number in range(3):
        plain, resident = (feed.batch(number) for feed in feeds)
        assert torch.equal(plain.ids_BT, resident.ids_BT) and plain.ids_BT.max() > np.iinfo(kind).max // 2
        assert torch.equal(plain.lengths_B, resident.lengths_B)
        assert torch.equal(plain.segments_BT, resident.segments_BT)


def test_rows_go_to_a_gpu_a_part_at_a_time(monkeypatch):
    """All of them as a copy on the host, once for each GPU's process, may be more than it has."""
    rows, read = MadeUpRows(40), []
    monkeypatch.setattr(feed_module, "_AT_ONCE", 7)
    signed = feed_module._signed
    monkeypatch.setattr(feed_module, "_signed", lambda table: read.append(len(table)) or signed(table))
    Feed(rows, config(), torch.device("cpu"), "noise").cache()
    assert max(read) == 7 and sum(read) == 2 * 40


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
