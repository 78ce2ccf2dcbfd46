"""Attention starts at a head's own word or at its neighbours."""

from functools import partial
from typing import Any

import pytest
import torch

from electra.config import build
from electra.errors import BadConfig
from electra.nn.attention_init import mimetic_attention, split_heads
from electra.nn.config import BertConfig, EncoderConfig, ModernBertConfig
from electra.nn.encoder import BertLayer, rotate
from electra.nn.factory import add_new_layers, fresh_encoder

SHAPE = {"layers": 1, "hidden": 256, "heads": 4, "ffn": 64, "embedding": 128}
NARROW = {"layers": 2, "hidden": 128, "heads": 4, "ffn": 64, "embedding": 128}
MODERN = partial(ModernBertConfig, kind="modern")


@torch.no_grad()
def test_mimetic_heads_are_the_best_approximation_of_noise_and_identity():
    layer = BertLayer(BertConfig(**SHAPE))
    torch.manual_seed(3)
    mimetic_attention([layer])
    torch.manual_seed(3)
    for query, key in split_heads(layer.attention):
        target = 0.7 * torch.randn(256, 256) / 16 + 0.7 * torch.eye(256)
        # Eckart and Young: no matrix of rank 64 is nearer
        left_out = torch.linalg.svdvals(target)[64:].norm()
        assert (query.T @ key - target).norm().item() == pytest.approx(left_out.item(), rel=1e-4)
        # the roots are shared out evenly
        assert torch.allclose(query.norm(dim=1), key.norm(dim=1), atol=1e-4)
        assert (query.gather(1, query.abs().argmax(1, keepdim=True)) > 0).all()


@pytest.mark.parametrize(
    "kind, changes",
    [(BertConfig, {}), (MODERN, {}), (MODERN, {"global_theta": 160_000.0, "init_std": 0.02})],
)
def test_heads_of_neighbours_look_at_the_words_beside_their_own(kind, changes):
    """Also those of a modern encoder, whose positions turn queries and keys."""
    config = kind(**{**NARROW, "init": "neighbours", "init_std": 0.1, **changes})
    encoder = fresh_encoder(config, 500, 5).eval()
    ids = torch.randint(0, 500, (32, 128), generator=torch.Generator().manual_seed(1))
    _, *angles = encoder.layer_inputs(None, ids)[0]
    attention: Any = encoder.layers[0].attention
    embedded = encoder.embeddings(ids, torch.zeros_like(ids))
    query, key, _ = attention.project_qkv(embedded)
    if angles:
        assert embedded[..., -1].mean().item() == pytest.approx(4, rel=0.05)
        query = rotate(query, *angles)
        key = rotate(key, *angles)
    share_ATT = (query @ key.mT / 32**0.5).softmax(-1).mean(0)
    for share_TT, offset in zip(share_ATT, (-1, 1, -2, 2), strict=True):
        largest_T, place_T = share_TT[2:126].max(-1)
        assert place_T.tolist() == [position + offset for position in range(2, 126)]
        assert largest_T.min() > 0.25


def test_a_new_layer_is_begun_as_the_encoder_was():
    """Mimetic: a query meets its own key, so the trace of their product is large."""
    for init, is_begun in (("published", False), ("mimetic", True)):
        encoder = fresh_encoder(BertConfig(**NARROW, init=init), 500, 5)
        add_new_layers(encoder, 1, 5)
        other = fresh_encoder(BertConfig(**NARROW, init=init), 500, 6)
        add_new_layers(other, 1, 5)
        name = f"layers.{encoder.config.layers - 1}.attention.qkv.weight"
        weight = encoder.get_parameter(name).detach()
        assert torch.equal(weight, other.get_parameter(name)), "by its own seed"
        query, key, _ = weight.chunk(3)
        assert (torch.trace(query.T @ key) > 1.0) == is_begun


def test_neighbours_need_words_as_wide_as_the_layers():
    wide = r"embedding: is 128, should be hidden \(256\) with init neighbours"
    for settings, sentence in (
        ({"kind": "bert", **SHAPE}, wide),
        ({"kind": "modern", **SHAPE}, wide),
        ({"kind": "modern", **NARROW, "heads": 8}, "heads: is 8, should be at most 4 with init"),
    ):
        with pytest.raises(BadConfig, match=rf"encoder\.{sentence}"):
            build(EncoderConfig, {**settings, "init": "neighbours"}, "encoder")
