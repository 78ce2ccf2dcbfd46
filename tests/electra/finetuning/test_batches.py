"""Rows end to end: the order of training, and parts of a batch."""

import itertools

import numpy as np

from electra.finetuning.batches import stack, training_order


def test_an_epoch_is_one_shuffle_of_all_rows():
    epochs = list(itertools.islice(training_order(1000, 32, 5, "x"), 64))
    for epoch in (epochs[:32], epochs[32:]):
        assert sorted(np.concatenate(epoch).tolist()) == list(range(1000))
        assert [len(batch) for batch in epoch] == [32] * 31 + [8]
    again = list(itertools.islice(training_order(1000, 32, 5, "x"), 64))
    assert all((one == two).all() for one, two in zip(epochs, again, strict=True))
    assert epochs[0].tolist() != next(training_order(1000, 32, 6, "x")).tolist()
    assert {tuple(sorted(batch)) for batch in epochs[:32]} != {tuple(sorted(batch)) for batch in epochs[32:]}


def test_a_batch_tells_where_every_token_stands():
    examples = stack([[2, 7, 3], [2, 3], [2, 8, 9, 3]], [2, 2, 1], {"label": np.array([5, 6, 7])}, ["a", "b", "c"])
    batch = examples.batch(np.array([2, 1]))
    assert batch.ids_P.tolist() == [2, 8, 9, 3, 2, 3] and batch.segments_P.tolist() == [0, 1, 1, 1, 0, 0]
    assert batch.positions_P.tolist() == [0, 1, 2, 3, 0, 1] and batch.row_P.tolist() == [0, 0, 0, 0, 1, 1]
    assert batch.grid(batch.ids_P, 0).tolist() == [[2, 8, 9, 3], [2, 3, 0, 0]]
    assert batch.first_B.tolist() == [0, 4] and batch.targets["label"].tolist() == [7, 6]
    assert examples.batch(np.array([0])).real_BT is None
