"""ELECTRA's rule against a second, literal version of it, and invariants for any text, length and
setting.
"""

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


@pytest.fixture(scope="module")
def tokenizer():
    return from_pieces([*SPECIALS, *(f"w{i}" for i in range(300))])


def documents(seed, count=40, longest=90, first=5):
    """Return documents of lines of ids other than special tokens."""
    rng = random.Random(seed)

    def line():
        length = rng.choice([0, 1, 3, rng.randrange(1, longest)])
        return [rng.randrange(first, first + 300) for _ in range(length)]

    return [[line() for _ in range(rng.randrange(0, 12))] for _ in range(count)]


def pack(tokenizer, texts, length, config, seed=7):
    packer = Packer(length, tokenizer, config, seed)
    for lines in texts:
        for line in lines:
            packer.add_line(np.array(line, dtype=tokenizer.dtype).tobytes())
        packer.end_document()
    packer.finish()
    ids, bounds = packer.take()
    return ids, bounds, packer.counts


def literal_rule(texts, length, seed):
    """The rule of the original, written out once more with lists of ids and one example at a time."""
    draw = random.Random(seed).random
    rows = []
    target = length
    for lines in texts:
        lines = [line for line in lines if line]
        held = []
        for number, line in enumerate(lines, 1):
            held.append(line)
            if sum(map(len, held)) < target and number < len(lines):
                continue
            goal = 100_000 if draw() < 0.1 else (target - 3) // 2
            a = []
            b = []
            for part in held:
                if not a or len(a + part) < goal or (not b and len(a) < goal and draw() < 0.5):
                    a += part
                else:
                    b += part
            a = a[: length - 2]
            b = b[: max(0, length - len(a) - 3)]
            rows.append([CLS, *a, SEP, *b, SEP] if b else [CLS, *a, SEP])
            held = []
            target = 5 + int(draw() * (length - 4)) if draw() < 0.05 else length
    return rows


@pytest.mark.parametrize("length, first", [(8, 5), (32, 5), (128, 66_000)])
def test_rows_are_those_of_the_literal_rule(length, first):
    """With ids of two bytes, and of four."""
    tokenizer = from_pieces([*SPECIALS, *(f"w{i}" for i in range(first + 295))])
    texts = documents(length, count=200, first=first)
    ids, bounds, _ = pack(tokenizer, texts, length, PackingConfig(), seed=11)
    rows = [row[:total].tolist() for row, (_, total) in zip(ids, bounds, strict=True)]
    assert rows == literal_rule(texts, length, seed=11) and len(rows) > 150


SETTINGS = [
    PackingConfig(),
    PackingConfig(overflow="carry"),
    PackingConfig(single_segment_rate=1.0, short_rate=0.5),
    PackingConfig(rule="packed"),
]


@pytest.mark.parametrize("config", SETTINGS, ids=str)
@pytest.mark.parametrize("length", [8, 17, 128])
def test_no_token_is_invented_and_every_loss_is_counted(tokenizer, config, length):
    texts = documents(length)
    ids, bounds, counts = pack(tokenizer, texts, length, config)
    given = np.bincount([i for lines in texts for line in lines for i in line], minlength=305)
    kept = np.bincount(ids[ids > 4].ravel(), minlength=305)
    assert (kept <= given).all()
    assert counts == Counter(
        rows=len(ids),
        tokens_read=given.sum(),
        tokens_kept=kept.sum(),
        tokens_discarded=given.sum() - kept.sum(),
    )
    if config.overflow == "carry" or config.rule == "packed":
        assert counts["tokens_discarded"] == 0
    for row, (start_b, total) in zip(ids.tolist(), bounds.tolist(), strict=True):
        real, padding = row[:total], row[total:]
        assert 3 <= total <= length and 0 < start_b <= total
        assert {*padding} <= {PAD} and real[0] == CLS and real[-1] == real[start_b - 1] == SEP
        assert CLS not in real[1:] and PAD not in real and 4 not in real
        if config.rule == "electra":
            assert real.count(SEP) == (1 if start_b == total else 2)
        else:
            assert start_b == total and real[1] != SEP
            assert all(one != SEP or other != SEP for one, other in itertools.pairwise(real))


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


def test_packed_rows_are_full_and_part_documents(tokenizer):
    texts = [[[5, 6], [7, 8]], [[9]], [[10, 11, 12, 13, 14]], [[*range(15, 23)]], [[23]]]
    ids, bounds, counts = pack(tokenizer, texts, 8, PackingConfig(rule="packed"))
    assert ids.tolist() == [
        [CLS, 5, 6, 7, 8, SEP, 9, SEP],
        [CLS, 10, 11, 12, 13, 14, SEP, PAD],  # no room for [SEP] and a token of the next one
        [CLS, *range(15, 21), SEP],
        [CLS, 21, 22, SEP, 23, SEP, PAD, PAD],
    ]
    assert bounds[:, 1].tolist() == [8, 7, 8, 6] and counts["tokens_kept"] == 19


def test_carried_overflow_keeps_its_order_and_its_document(tokenizer):
    line = [*range(5, 255)]
    config = PackingConfig(overflow="carry", single_segment_rate=1.0, short_rate=0.0)
    ids, _, _ = pack(tokenizer, [[line], [[300] * 40]], 32, config)
    assert ids[ids > 4].tolist() == line + [300] * 40
    assert ids[-2:, 1].tolist() == [300] * 2, "a row of its own for each end of a document"
