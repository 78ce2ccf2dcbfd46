"""Derive a number for every (seed, stream, step): order, masking, sampling and dropout never share
one, and none is ever saved.

Whatever is random at a step is a function of these three, so a resumed run needs no stored
generator state and any step can be replayed alone.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:  # stages that only handle data should not wait two seconds for torch
    import torch


def derive(seed: int, stream: str, *indices: int) -> int:
    """Return a 63-bit number for a seed, a named stream and any indices (step, epoch, rank, ...).

    It is the same on every platform.
    """
    text = "/".join([str(seed), stream, *map(str, indices)])
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little") >> 1


def torch_generator(
    device: torch.device | str, seed: int, stream: str, *indices: int
) -> torch.Generator:
    """Return a torch generator on `device` at the beginning of its stream."""
    import torch

    return torch.Generator(device=device).manual_seed(derive(seed, stream, *indices))


_ROUNDS = 6


def permute(positions: NDArray[np.int64], size: int, key: int) -> NDArray[np.int64]:
    """Return the images of `positions` under a keyed permutation of range(size), in time and memory
    proportional to len(positions).

    A Feistel network over the smallest even number of bits that holds `size`, walked until the
    image falls inside. No library's shuffle is involved: neither numpy nor torch promises theirs
    from one version to the next.
    """
    half = (max(size - 1, 1).bit_length() + 1) // 2
    mask = np.uint64((1 << half) - 1)
    keys = [np.uint64(derive(key, "feistel", i)) for i in range(_ROUNDS)]

    def scramble(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
        left = values >> np.uint64(half)
        right = values & mask
        for round_key in keys:
            mixed = (right + round_key) * np.uint64(0x9E3779B97F4A7C15)
            mixed ^= mixed >> np.uint64(29)
            mixed *= np.uint64(0xBF58476D1CE4E5B9)
            left, right = right, left ^ ((mixed >> np.uint64(32)) & mask)
        return (left << np.uint64(half)) | right

    with np.errstate(over="ignore"):
        images = scramble(positions.astype(np.uint64))
        while (outside := images >= size).any():
            images[outside] = scramble(images[outside])
    return images.astype(np.int64)
