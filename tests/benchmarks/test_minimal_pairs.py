"""Pairs differ in one place, and a network that sees the change wins them all."""

from types import SimpleNamespace

import pytest
import torch

from benchmarks.minimal_pairs import likelier, minimal_pairs, seen
from electra.data import tokenizer as tokenizers

PIECES = tokenizers.from_pieces([*tokenizers.SPECIALS, "good", "bad", "one", "two"], lowercase=True, strip_accents=None)


def test_pairs_differ_in_one_place():
    pairs = minimal_pairs(["The old cat walks near a river today"], {"walk", "walks", "river", "cat"})
    ((left, right),) = pairs["swapped"]
    assert sorted(left.split()) == sorted(right.split()) and left != right
    ((left, right),) = pairs["dropped"]
    assert len(left.split()) == len(right.split()) + 1
    assert pairs["inflected"] == [("the old cat walks near a river today", "the old cat walk near a river today")]


def test_a_discriminator_that_sees_the_changed_word_wins_every_pair():
    class Sees:
        def discriminator(self, rows, segments, lengths):
            return (rows == PIECES.encode_lines(["bad"])[0][0]).float()

    assert seen(Sees(), [("good good", "good bad"), ("good", "bad")], PIECES) == 1
    assert seen(Sees(), [("good", "good")], PIECES) == 0.5


class Follows:
    """A masked language model that expects each word to stand where the last one's number plus one does."""

    embeddings = SimpleNamespace(tables=lambda: (None, None))

    def networks(self):
        return {"masked_lm": (self, lambda hidden_MV, table: hidden_MV)}

    def __call__(self, rows_BT, segments_BT, length_B):
        hidden_BTV = torch.zeros(*rows_BT.shape, len(PIECES.pieces()))
        before_BT = rows_BT.roll(1, 1)
        expected_BT = torch.where(before_BT == PIECES.cls_id, first(), before_BT + 1) % hidden_BTV.shape[-1]
        return hidden_BTV.scatter(2, expected_BT[..., None], 1.0)


def first():
    return PIECES.encode_lines(["good"])[0][0]


@pytest.mark.parametrize(
    ("pair", "share"),
    [
        (("good bad one two", "good one bad two"), 1),
        (("good bad one two", "good two one two"), 1),
        (("good one bad two", "good bad one two"), 0),
        (("good two", "good two"), 0.5),
    ],
)
def test_a_masked_language_model_that_knows_the_order_finds_the_original_likelier(pair, share):
    assert likelier(Follows(), [pair], PIECES) == share


def test_every_piece_is_masked_in_turn_and_no_other():
    asked = []

    class Hears(Follows):
        def __call__(self, rows_BT, segments_BT, length_B):
            asked.extend(rows_BT.tolist())
            return super().__call__(rows_BT, segments_BT, length_B)

    likelier(Hears(), [("good bad", "one")], PIECES)
    good, bad, mask = first(), first() + 1, PIECES.mask_id
    heads = [row[1:3] for row in asked]
    assert heads == [[mask, bad], [good, mask], [mask, PIECES.sep_id]]
