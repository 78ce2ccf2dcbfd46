"""Initial values with which attention heads look for their own token, or at the tokens next to it,
if `init` says so.

Shapes: E embedding size, H hidden size, D head size, F frequencies, V vocabulary size, P positions.
"""

import math
from collections.abc import Iterable

import torch
from torch import Tensor, nn

from electra.nn.encoder import Attention, Encoder, EncoderLayer


def init_attention(encoder: Encoder, init: str) -> None:
    """Apply `init` of `mimetic` or `neighbours` to a network whose weights are drawn, in place."""
    if init == "mimetic":
        mimetic_attention(encoder.layers)
    elif init == "neighbours":
        {"bert": neighbour_attention, "modern": rotary_neighbour_attention}[encoder.config.kind](
            encoder
        )


def split_heads(attention: Attention) -> list[tuple[Tensor, Tensor]]:
    """Return the rows (D, H) of each head's query and key matrices: views, to write to."""
    query_HH, key_HH, _ = attention.qkv.weight.chunk(3)
    size = len(query_HH) // attention.heads
    return list(zip(torch.split(query_HH, size), torch.split(key_HH, size), strict=True))


def offset(head: int) -> int:
    """Return where a head of neighbours looks: 1 to the left, 1 to the right, 2 to the left, ..."""
    return (head // 2 + 1) * (1 if head % 2 else -1)


@torch.no_grad()
def mimetic_attention(layers: Iterable[nn.Module]) -> None:
    """Let every head of these layers begin by looking for its own word (Trockman & Kolter 2023), in
    place.

        Wqᵀ Wk ≈ M = 0.7 · Z / √H + 0.7 · I        Z ~ N(0, 1), (H, H)

    Trained encoders show such a diagonal. From unrelated Q and K, attention that finds a word again
    elsewhere in the row takes long to form. M has more rank than a head, so each head gets the best
    approximation of an M of its own: the singular value decomposition cut to the head's size D, its
    roots shared out to both. From torch's global generator. Of the two signs of a singular vector
    the one with which its largest entry is positive.
    """
    for layer in layers:
        assert isinstance(layer, EncoderLayer)
        for query_DH, key_DH in split_heads(layer.attention):
            size, width = query_DH.shape
            m_HH = 0.7 * torch.randn(width, width) / math.sqrt(width) + 0.7 * torch.eye(width)
            left_HH, values_H, right_HH = torch.linalg.svd(m_HH)
            left_DH = left_HH.T[:size]
            right_DH = right_HH[:size]
            root_D1 = values_H[:size, None].sqrt()
            sign_D1 = left_DH.gather(1, left_DH.abs().argmax(1, keepdim=True)).sign()
            query_DH.copy_(left_DH * root_D1 * sign_D1)
            key_DH.copy_(right_DH * root_D1 * sign_D1)


@torch.no_grad()
def neighbour_attention(encoder: Encoder) -> None:
    """Let the heads of the first layer begin by looking at the words next to their own, in place.

    Each looks at its `offset`. The last D dimensions of the embeddings (D: the size of a head) are
    the positions' alone at first, sin(ωp) and cos(ωp) of D / 2 frequencies ω from 0 to π, as large
    as the other dimensions. A head's query is its position turned by its offset, its key the
    position as it is: of their products, Σ cos(ω · (distance - offset)), the one at the offset is 5
    as softmax sees it, and the others are near 0. Nothing is fixed: all of it learns. Without it
    such heads take millions of tokens to form.
    """
    embeddings = encoder.embeddings
    attention = encoder.layers[0].attention
    assert isinstance(attention, Attention) and isinstance(encoder.project, nn.Identity)
    word_VE, position_PE = [table.clone() for table in embeddings.tables()]
    width = word_VE.shape[1]
    size = width // attention.heads
    half = size // 2
    places = slice(width - 2 * half, None)
    # evenly spaced frequencies would make distances repeat
    frequency_F = math.pi * ((torch.arange(half) + 0.5) / half) ** 1.3

    angle_PF = torch.arange(len(position_PE))[:, None] * frequency_F
    position_PE.zero_()
    others = (word_VE.var() + embeddings.token_type.weight.var()).sqrt()
    position_PE[:, places] = 2**0.5 * others * torch.cat([angle_PF.sin(), angle_PF.cos()], 1)
    word_VE[:, places] = 0
    embeddings.load_tables(word_VE, position_PE)
    embeddings.token_type.weight[:, places] = 0

    for head, (query_DH, key_DH) in enumerate(split_heads(attention)):
        turn_F = offset(head) * frequency_F
        sine_FF = 5 / math.sqrt(size) * turn_F.sin().diag()
        cosine_FF = 5 / math.sqrt(size) * turn_F.cos().diag()
        query_DH.zero_()
        key_DH.zero_()
        key_DH[: 2 * half, places] = torch.eye(2 * half)
        # sin(a + b) = cos b sin a + sin b cos a
        query_DH[:half, places] = torch.cat([cosine_FF, sine_FF], 1)
        query_DH[half : 2 * half, places] = torch.cat([-sine_FF, cosine_FF], 1)


@torch.no_grad()
def rotary_neighbour_attention(encoder: Encoder) -> None:
    """Do the same as `neighbour_attention` where positions turn queries and keys, in place.

    The turned numbers must not differ from word to word, so the last dimension of every word is one
    constant at first, 4 as the norm leaves it, and the first layer's queries and keys read it
    alone. A pair of numbers turns with frequency ω. A query begins turned by its head's offset r:

        query · key / √D = Σ a cos(ω (distance - r)),   a = 8 ω / Σ ω

    Fast pairs distinguish a word from those next to it, slow ones from those a whole turn of the
    fast ones away. With heads of 64, the word that is looked for gets 0.6 of a row of 128 and 0.4
    of a row of 512.
    """
    embeddings = encoder.embeddings
    layer = encoder.layers[0]
    config = encoder.config
    assert isinstance(layer, EncoderLayer) and config.kind == "modern"
    size = config.hidden // config.heads
    word_VH = embeddings.tables()[0].clone()
    word_VH[:, -1] = 4 * word_VH.std() / math.sqrt(1 - 4**2 / config.hidden)
    embeddings.load_tables(word_VH)

    # the first layer sees the whole row
    frequency_F = config.global_theta ** -(torch.arange(0, size, 2) / size)
    root_F = (8 * math.sqrt(size) * frequency_F / frequency_F.sum()).sqrt() / 4
    for head, (query_DH, key_DH) in enumerate(split_heads(layer.attention)):
        query_DH.zero_()
        key_DH.zero_()
        turn_F = offset(head) * frequency_F
        query_DH[:, -1] = torch.cat([root_F * turn_F.cos(), root_F * turn_F.sin()])
        key_DH[: size // 2, -1] = root_F
