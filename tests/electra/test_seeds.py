"""Random numbers: the same on every platform and version, never shared by two streams, and orders
that lose no row.
"""

import numpy as np
import pytest

from electra.seeds import derive, permute


def test_a_number_depends_on_seed_stream_and_every_index():
    asked = [(1, "mask", 2), (2, "mask", 2), (1, "order", 2), (1, "mask", 3), (1, "mask")]
    asked += [(1, "mask", 2, 0), (12, "mask")]
    numbers = {derive(*each) for each in asked}
    assert len(numbers) == len(asked) and min(numbers) >= 0 and max(numbers) < 1 << 63
    assert derive(1, "mask", 2) == 5505831364532173694  # blake2b, so the same on every machine


@pytest.mark.parametrize("size", [1, 2, 3, 16, 17, 1000])
def test_a_permutation_has_every_place_once(size):
    images = permute(np.arange(size), size, key=7)
    assert sorted(images) == list(range(size))
    # a place's image is its own affair
    assert (permute(np.arange(size)[::-1], size, key=7) == images[::-1]).all()
    assert size < 16 or list(images) != list(permute(np.arange(size), size, key=8))
