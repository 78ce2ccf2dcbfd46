"""The order of training, parts of a batch, and padding."""

import itertools

import numpy as np

from electra.finetuning.batches import NO_WORD, parts, stack, training_order


def test_an_epoch_is_one_shuffle_of_all_rows():
    one, again, other = (
        list(itertools.islice(training_order(1000, 32, seed, "x"), 64)) for seed in (5, 5, 6)
    )
    assert [len(batch) for batch in one] == ([32] * 31 + [8]) * 2
    first, second = np.concatenate(one).reshape(2, 1000).tolist()
    assert sorted(first) == sorted(second) == list(range(1000)) and first != second
    assert np.concatenate(again).tolist() == first + second != np.concatenate(other).tolist()


def test_a_batch_is_padded_at_the_end_of_its_rows():
    targets = {"label": np.array([5, 6, 7]), "tags": np.arange(9)}
    examples = stack([[2, 7, 3], [2, 3], [2, 8, 9, 3]], [2, 2, 1], targets, ["a", "b", "c"])
    batch = examples.batch(np.array([2, 1]))
    assert batch.ids_BT.tolist() == [[2, 8, 9, 3], [2, 3, 0, 0]]
    assert batch.segments_BT.tolist() == [[0, 1, 1, 1], [0, 0, 0, 0]]
    assert batch.lengths_B.tolist() == [4, 2] and batch.targets["label"].tolist() == [7, 6]
    assert batch.targets["tags"].tolist() == [[5, 6, 7, 8], [3, 4, NO_WORD, NO_WORD]]


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
        assert [part.tolist() for part in cut] == expected
