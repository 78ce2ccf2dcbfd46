"""The order of training, parts of a batch, and padding."""

import itertools

import numpy as np

from electra.finetuning.batches import NO_WORD, parts, stack, training_order


def test_an_epoch_is_one_shuffle_of_all_rows():
    epochs = list(itertools.islice(training_order(1000, 32, 5, "x"), 64))
    for epoch in (epochs[:32], epochs[32:]):
        assert sorted(np.concatenate(epoch).tolist()) == list(range(1000))
        assert [len(batch) for batch in epoch] == [32] * 31 + [8]
    again = list(itertools.islice(training_order(1000, 32, 5, "x"), 64))
    assert all((one == two).all() for one, two in zip(epochs, again, strict=True))
    assert epochs[0].tolist() != next(training_order(1000, 32, 6, "x")).tolist()
    assert {tuple(sorted(batch)) for batch in epochs[:32]} != {
        tuple(sorted(batch)) for batch in epochs[32:]
    }


def test_a_batch_is_padded_at_the_end_of_its_rows():
    targets = {"label": np.array([5, 6, 7]), "tags": np.arange(9)}
    examples = stack([[2, 7, 3], [2, 3], [2, 8, 9, 3]], [2, 2, 1], targets, ["a", "b", "c"])
    batch = examples.batch(np.array([2, 1]))
    assert batch.ids_BT.tolist() == [[2, 8, 9, 3], [2, 3, 0, 0]]
    assert batch.segments_BT.tolist() == [[0, 1, 1, 1], [0, 0, 0, 0]]
    assert batch.lengths_B.tolist() == [4, 2] and batch.targets["label"].tolist() == [7, 6]
    assert batch.targets["tags"].tolist() == [[5, 6, 7, 8], [3, 4, NO_WORD, NO_WORD]]
    assert batch.real_tokens().tolist() == [[True] * 4, [True, True, False, False]]


def test_parts_hold_rows_of_like_length_with_little_padding():
    lengths = np.array([9, 4, 5, 3, 8])
    for tokens, padding, expected in (
        (1, 40, [[3], [1], [2], [4], [0]]),
        (18, 1, [[3, 1], [2], [4, 0]]),
        (45, 15, [[3, 1, 2, 4], [0]]),
        (44, 16, [[3, 1, 2, 4], [0]]),
        (45, 16, [[3, 1, 2, 4, 0]]),
    ):
        cut = parts(np.arange(5), lengths, tokens, padding)
        assert [part.tolist() for part in cut] == expected, "as many rows as both allow"
