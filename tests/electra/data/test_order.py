"""Which rows a step sees."""

import numpy as np

from electra.data.order import row_indices


def test_every_epoch_visits_every_row_once_and_in_another_order():
    rows_read = np.concatenate([row_indices(3, step, 10, 97) for step in range(30)])
    epochs = rows_read[: 3 * 97].reshape(3, 97)
    for epoch in epochs:
        assert sorted(epoch) == list(range(97))
    assert (epochs[0] != epochs[1]).any() and (epochs[1] != epochs[2]).any()


def test_a_step_is_a_function_of_seed_and_step():
    assert (row_indices(1, 5, 32, 1000) != row_indices(2, 5, 32, 1000)).any()
    # golden: a library's change must not reorder anybody's resumed run
    assert row_indices(1, 0, 5, 1000).tolist() == [698, 769, 917, 321, 313]
