"""ELECTRA's rule against a second, literal version of it, and packed rows."""

import itertools
import random
from collections import Counter

import numpy as np
import pytest

from electra.config import build
from electra.data.packing import Packer, PackingConfig, TokensConfig
from electra.data.tokenizer import SPECIALS, from_pieces
from electra.errors import BadConfig

CLS, SEP, PAD = 2, 3, 0


def tokenizer_of(size):
    return from_pieces([*SPECIALS, *(f"w{number}" for number in range(size - 5))])


def documents(seed, size):
    """Return documents of lines of ids below `size`, none of a special token."""
    rng = random.Random(seed)

    def line():
        length = rng.choice([0, 1, 3, rng.randrange(1, 90)])
        return [rng.randrange(size - 300, size) for _ in range(length)]

    return [[line() for _ in range(rng.randrange(0, 12))] for _ in range(200)]


def pack(tokenizer, texts, length, config, seed=7):
    packer = Packer(length, tokenizer, config, seed)
    for lines in texts:
        for line in lines:
            packer.add_line(np.array(line, dtype=tokenizer.dtype).tobytes())
        packer.end_document()
    packer.finish()
    ids, bounds = packer.take()
    return ids, bounds, packer.counts


def literal_rule(texts, length, config, seed):
    """The rule of the original, written out once more with lists of ids and one example at a time."""
    draw = random.Random(seed).random
    rows = []
    target = length
    for text in texts:
        lines = [line for line in text if line]
        held = []
        for number, line in enumerate(lines, 1):
            held.append(line)
            while held and (sum(map(len, held)) >= target or number == len(lines)):
                goal = 100_000 if draw() < config.single_segment_rate else (target - 3) // 2
                a = []
                b = []
                for part in held:
                    if not a or len(a + part) < goal or (not b and len(a) < goal and draw() < 0.5):
                        a = a + part
                    else:
                        b = b + part
                room = max(0, length - len(a) - 3)
                rows.append([CLS, *a[: length - 2], SEP])
                if b[:room]:
                    rows[-1] += [*b[:room], SEP]
                overflow = [part for part in (a[length - 2 :], b[room:]) if part]
                held = overflow if config.overflow == "carry" else []
                target = 5 + int(draw() * (length - 4)) if draw() < config.short_rate else length
    return rows


@pytest.mark.parametrize("length, size", [(8, 305), (32, 305), (128, 66_000)])
@pytest.mark.parametrize(
    "config",
    [
        PackingConfig(),
        PackingConfig(overflow="carry"),
        PackingConfig(single_segment_rate=1.0, short_rate=0.5),
    ],
    ids=str,
)
def test_rows_are_those_of_the_literal_rule(length, size, config):
    """With ids of two bytes, and of four."""
    texts = documents(length, size)
    ids, bounds, counts = pack(tokenizer_of(size), texts, length, config, seed=11)
    rows = [row[:total].tolist() for row, (_, total) in zip(ids, bounds, strict=True)]
    assert rows == literal_rule(texts, length, config, seed=11) and len(rows) > 150
    for row, (start_b, total) in zip(ids.tolist(), bounds.tolist(), strict=True):
        assert row.index(SEP) + 1 == start_b and set(row[total:]) <= {PAD}
    read = sum(map(len, itertools.chain(*texts)))
    kept = (ids > 4).sum()
    assert counts == Counter(
        rows=len(ids), tokens_read=read, tokens_kept=kept, tokens_discarded=read - kept
    )
    assert config.overflow == "discard" or kept == read


def test_impossible_settings_name_the_key():
    values = {"corpus": "c", "tokenizer": {"kind": "vocab", "file": "v.txt"}}
    for lengths, key in (
        ([128, 128], r"lengths: is \[128, 128\]"),
        ([], "lengths: should have at least one entry"),
        ([128, 8], "packing.shortest: is 9, should be at most"),
    ):
        with pytest.raises(BadConfig, match=f"tokens.x.{key}"):
            build(
                TokensConfig, {**values, "lengths": lengths, "packing": {"shortest": 9}}, "tokens.x"
            )


def test_packed_rows_are_full_and_part_documents():
    texts = [[[5, 6], [7, 8]], [[9]], [[10, 11, 12, 13, 14]], [[*range(15, 23)]], [[23]]]
    ids, bounds, counts = pack(tokenizer_of(24), texts, 8, PackingConfig(rule="packed"))
    assert ids.tolist() == [
        [CLS, 5, 6, 7, 8, SEP, 9, SEP],
        [CLS, 10, 11, 12, 13, 14, SEP, PAD],  # no room for [SEP] and a token of the next one
        [CLS, *range(15, 21), SEP],
        [CLS, 21, 22, SEP, 23, SEP, PAD, PAD],
    ]
    assert bounds.tolist() == [[8, 8], [7, 7], [8, 8], [6, 6]]
    assert counts == Counter(rows=4, tokens_read=19, tokens_kept=19)
