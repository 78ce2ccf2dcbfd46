"""Rows of random tokens in the form of pre-training's, to time or check a step without any text."""

import numpy as np

from electra.pretraining.corruption import SpecialIds

SPECIAL = SpecialIds(pad=0, cls=101, sep=102, mask=103)
SHORT = 0.05  # share of rows that are padded, about as many as the builder of rows leaves


class MadeUpRows:
    """Rows [CLS] A [SEP] B [SEP] of random tokens, some of them short and padded; `tokens` counts
    the rest.
    """

    def __init__(self, count: int, length: int, vocab_size: int) -> None:
        numbers = np.random.default_rng(0)
        self.ids = numbers.integers(SPECIAL.mask + 1, vocab_size, (count, length)).astype(np.uint16)
        short = numbers.random(count) < SHORT
        lengths = np.where(short, numbers.integers(length // 4, length, count), length)
        self.ids[:, 0] = SPECIAL.cls
        for row, total in enumerate(lengths):
            self.ids[row, [total // 2, total - 1]] = SPECIAL.sep
            self.ids[row, total:] = SPECIAL.pad
        self.bounds = np.stack([lengths // 2 + 1, lengths], 1).astype(np.uint16)
        self.tokens = int(lengths.sum())

    def __len__(self) -> int:
        return len(self.ids)
