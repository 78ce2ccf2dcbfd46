"""A sentence's frozen features are its own: whatever stands beside it in the batch changes nothing."""

import torch

from benchmarks.frozen_probe import FEATURES, features
from electra.data.tokenizer import from_pieces
from electra.nn.config import EncoderConfig
from electra.nn.scratch_init import fresh_encoder

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "old", "miller", "keeps", "a", "cat"]


def test_neighbours_change_no_feature_beyond_rounding():
    tokenizer = from_pieces(PIECES, lowercase=True, strip_accents=None)
    encoder = fresh_encoder(
        EncoderConfig(layers=2, hidden=32, heads=2, ffn=64, embedding=16, positions=16), len(PIECES), 1
    ).eval()
    alone = features(encoder, tokenizer, ["the cat"])
    together = features(encoder, tokenizer, ["the cat", "the old miller keeps a cat"])
    for name, one, two in zip(FEATURES, alone, together, strict=True):
        assert torch.allclose(torch.tensor(one[0]), torch.tensor(two[0]), atol=1e-5), name
    words = encoder.embeddings.tables()[0]
    expected = words[[PIECES.index("the"), PIECES.index("cat")]].mean(0).detach()  # neither [CLS] nor [SEP]
    assert torch.allclose(torch.tensor(alone[0][0]), expected, atol=1e-6)
