"""The Transformer encoder of both networks: BERT's post-LN encoder, less the pooler.

How it differs from the textbook:
- the embedding size E may differ from the hidden size H; one linear map (no activation, norm or dropout) joins them;
- query, key and value are one matrix product; attention is torch's fused scaled-dot-product kernel;
- the embedding block is a module of its own, since generator and discriminator share it (word, position and type
  tables and their LayerNorm), each with its own projection and dropout draw.

Shapes: B rows, T positions, E embedding size, H hidden size, F feed-forward size, V vocabulary size.
"""

import math
from collections.abc import Iterable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from electra.nn import varlen
from electra.nn.attention import attend
from electra.nn.config import AnyEncoderConfig, EncoderConfig
from electra.nn.dropout import Dropout, dropout


class Embeddings(nn.Module):
    """Word + token type + position, LayerNorm, dropout."""

    word: nn.Embedding

    def __init__(self, config: EncoderConfig, vocab_size: int) -> None:
        super().__init__()
        self.word = nn.Embedding(vocab_size, config.embedding)
        self.position = nn.Embedding(config.positions, config.embedding)
        self.token_type = nn.Embedding(config.token_types, config.embedding)
        self.norm = nn.LayerNorm(config.embedding, eps=config.layer_norm_eps)
        self.dropout = config.dropout

    def tables(self) -> tuple[Tensor, ...]:
        """The word (V, E) and position (P, E) tables that are looked up."""
        return self.word.weight, self.position.weight

    @torch.no_grad()
    def load_tables(self, *tables: Tensor) -> None:
        """Let `tables` be these."""
        word_VE, position_PE = tables
        self.word.weight.copy_(word_VE)
        self.position.weight.copy_(position_PE)

    def factors(self) -> dict[str, Tensor]:
        """What else a folder must hold to give these tables again: nothing here."""
        return {}

    def load_factors(self, factors: dict[str, Tensor]) -> None:
        """Let `factors` be these."""

    def forward(self, ids_BT: Tensor, segments_BT: Tensor) -> Tensor:
        """Ids and segment ids to embeddings (B, T, E)."""
        word_VE, position_PE = self.tables()
        embedded_BTE = F.embedding(ids_BT, word_VE) + self.token_type(segments_BT) + position_PE[: ids_BT.shape[1]]
        return dropout(self.norm(embedded_BTE), self.dropout, self.training)


class DisentangledEmbeddings(Embeddings):
    """Gradient-disentangled sharing (DeBERTa v3): the generator's tables without gradient, plus a delta from zero.

    `word` and `position` hold the deltas; the norm and the token types are this network's own.
    """

    def __init__(self, config: EncoderConfig, base: Embeddings) -> None:
        super().__init__(config, base.word.num_embeddings)
        self.base = [base]  # in a list, so that the generator's parameters are not registered here a second time

    def tables(self) -> tuple[Tensor, ...]:
        """Generator's tables, detached, plus the deltas."""
        word_VE, position_PE = self.base[0].tables()
        return word_VE.detach() + self.word.weight, position_PE.detach() + self.position.weight

    @torch.no_grad()
    def load_tables(self, *tables: Tensor) -> None:
        """Set the deltas so that `tables` are these, over the generator's as they are now."""
        for delta, base, table in zip((self.word, self.position), self.base[0].tables(), tables, strict=True):
            delta.weight.copy_(difference(table.to(base), base))


def difference(total: Tensor, base: Tensor) -> Tensor:
    """The x of base + x = total to the last bit, wherever there is one among the neighbours of total - base.

    There is for a total that was such a sum; but where that lies beside a power of two, the rounded difference alone
    may miss it by a bit, and where it is -0 by its sign.
    """
    rest = total - base
    infinity = torch.full_like(rest, torch.inf)
    for other in (rest.nextafter(infinity), rest.nextafter(-infinity), total):
        same = (base + rest).view(torch.int32) == total.view(torch.int32)
        rest = torch.where(same | ((base + other).view(torch.int32) != total.view(torch.int32)), rest, other)
    return rest


Seen = Tensor | varlen.PackedRows | None
"""Which keys a query sees: those of its own row; or those where a mask that broadcasts to (B, heads, T, T) is true, or
which it is added to; or all."""


class Attention(nn.Module):
    """Multi-head self-attention with dropout on the attention probabilities."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.qkv = nn.Linear(config.hidden, 3 * config.hidden)
        self.out = nn.Linear(config.hidden, config.hidden)
        self.dropout = config.attention_dropout

    def forward(self, hidden_BTH: Tensor, seen: Seen) -> Tensor:
        """Attend to what is `seen`."""
        return self.out(self.context(self.qkv(hidden_BTH), seen))  # type: ignore[no-any-return]

    def context(self, qkv_BT3H: Tensor, seen: Seen) -> Tensor:
        """What each position gathers (B, T, H), before the output matrix; tokens end to end (P, 3H) give (P, H)."""
        rate = self.dropout if self.training else 0.0
        heads = (3, self.heads, qkv_BT3H.shape[-1] // (3 * self.heads))
        if isinstance(seen, varlen.PackedRows):
            query, key, value = qkv_BT3H.view(-1, *heads).unbind(1)
            return varlen.attend(query, key, value, seen, seen, rate).view(*qkv_BT3H.shape[:-1], -1)
        qkv_BT3AD = qkv_BT3H.view(*qkv_BT3H.shape[:-1], *heads)
        if rate and qkv_BT3H.device.type == "cpu":
            return attend(qkv_BT3AD, seen, rate)
        query, key, value = qkv_BT3AD.permute(2, 0, 3, 1, 4)
        context = F.scaled_dot_product_attention(query, key, value, attn_mask=seen, dropout_p=rate)
        return context.transpose(1, 2).flatten(2)


class Block(nn.Module):
    """One layer of an encoder of any kind: what is compiled once for all, and what FSDP gathers at a time."""

    attention: Any


class Layer(Block):
    """Attention and feed-forward, each followed by dropout, residual and LayerNorm.

    Between them hidden states have the type of the matrix products: autocast computes LayerNorm in fp32 on
    GPUs, and would hand that on.
    """

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.attention: Attention = Attention(config)
        self.attention_norm = nn.LayerNorm(config.hidden, eps=config.layer_norm_eps)
        self.expand = nn.Linear(config.hidden, config.ffn)
        self.contract = nn.Linear(config.ffn, config.hidden)
        self.ffn_norm = nn.LayerNorm(config.hidden, eps=config.layer_norm_eps)
        self.drop = Dropout(config.dropout)

    def forward(self, hidden_BTH: Tensor, seen: Seen) -> Tensor:
        """Same shape out as in."""
        context_BTH = self.attention(hidden_BTH, seen)
        hidden_BTH = self.attention_norm(self.drop(context_BTH, hidden_BTH)).to(context_BTH.dtype)
        ffn_BTH = self.contract(F.gelu(self.expand(hidden_BTH)))
        return self.ffn_norm(self.drop(ffn_BTH, hidden_BTH)).to(ffn_BTH.dtype)  # type: ignore[no-any-return]


def real_tokens(ids_BT: Tensor, lengths_B: Tensor) -> Tensor | None:
    """Which tokens are no padding (B, T), or None where that is known to be all of them."""
    real_BT = torch.arange(ids_BT.shape[1], device=ids_BT.device) < lengths_B[:, None]
    # on a CPU the host may look for free, and full rows need no masking
    return None if real_BT.device.type == "cpu" and bool(real_BT.all()) else real_BT


def added(mask: Seen) -> Seen:
    """On a GPU a mask as what is added to scores, made once: its kernels add it, and each layer would make its own."""
    if not isinstance(mask, Tensor) or mask.device.type != "cuda":
        return mask
    half = torch.is_autocast_enabled("cuda")
    zero = torch.zeros((), device=mask.device, dtype=torch.get_autocast_dtype("cuda") if half else torch.float32)
    return torch.where(mask, zero, float("-inf"))


class Encoder(nn.Module):
    """Ids to hidden states. `embeddings` may be another encoder's, to share it."""

    def __init__(self, config: EncoderConfig, vocab_size: int, embeddings: Embeddings | None = None) -> None:
        super().__init__()
        self.config: AnyEncoderConfig = config
        self.vocab_size = vocab_size
        self.embeddings = embeddings if embeddings is not None else Embeddings(config, vocab_size)
        same = config.embedding == config.hidden
        self.project = nn.Identity() if same else nn.Linear(config.embedding, config.hidden)
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.layers))

    def forward(self, ids_BT: Tensor, segments_BT: Tensor, lengths_B: Tensor | None = None) -> Tensor:
        """Hidden states (B, T, H) of the last layer.

        Padding stands at the end of a row: `lengths_B` counts its real tokens; None says that no row is padded.
        """
        seen = self._seen(ids_BT, lengths_B)
        seen = added(seen[:, None, None, :]) if isinstance(seen, Tensor) else seen
        hidden_BTH = self.project(self.embeddings(ids_BT, segments_BT))
        for layer in self.layers:
            hidden_BTH = layer(hidden_BTH, seen)
        return hidden_BTH  # type: ignore[no-any-return]

    def _seen(self, ids_BT: Tensor, lengths_B: Tensor | None) -> Seen:
        """Rows to keep to, where the device can; else which tokens are no padding (B, T), or None."""
        if lengths_B is None:
            return None
        kernel = varlen.usable(ids_BT.device, self.config.hidden // self.config.heads)
        return varlen.padded(lengths_B, ids_BT.shape[1]) if kernel else real_tokens(ids_BT, lengths_B)


def initialise(module: nn.Module, config: EncoderConfig) -> None:
    """Set every initial value of a network, in place, from torch's global generator.

    | tensor | published (electra: modeling.py, optimisation scripts) | normal (transformers) |
    |---|---|---|
    | tables; attention, feed-forward and head matrices | truncated normal, 2 sigma, std 0.02 | N(0, 0.02) |
    | embedding projection, last layer of each head (`glorot` modules) | Glorot uniform | N(0, 0.02) |
    | biases; LayerNorm | 0; weight 1, bias 0 | the same |
    | deltas of disentangled embeddings | 0 | 0 |

    `mimetic` and `neighbours` are `published`, and then `begin_attention` for the network that is kept, which its owner
    calls.
    """
    for name, part in module.named_modules():
        if isinstance(part, nn.LayerNorm):
            nn.init.ones_(part.weight)
            nn.init.zeros_(part.bias)
        elif isinstance(part, nn.Linear | nn.Embedding):
            glorot = name.endswith("project") or getattr(part, "glorot", False)
            if config.init == "normal":
                nn.init.normal_(part.weight, std=config.init_std)
            elif glorot:
                nn.init.xavier_uniform_(part.weight)
            else:
                nn.init.trunc_normal_(part.weight, std=config.init_std, a=-2 * config.init_std, b=2 * config.init_std)
            if isinstance(part, nn.Linear) and part.bias is not None:
                nn.init.zeros_(part.bias)
    for part in module.modules():
        if isinstance(part, DisentangledEmbeddings):
            nn.init.zeros_(part.word.weight)
            nn.init.zeros_(part.position.weight)


def begin_attention(encoder: Encoder, init: str) -> None:
    """What `init` of `mimetic` or `neighbours` does to a network whose values are drawn."""
    if init == "mimetic":
        mimetic_attention(encoder.layers)
    elif init == "neighbours":
        neighbour_attention(encoder)


@torch.no_grad()
def mimetic_attention(layers: Iterable[nn.Module], *, noise: float = 0.7, own: float = 0.7) -> None:
    """Let every head of these layers begin by looking for its own word (Trockman & Kolter 2023), in place.

        Wqᵀ Wk ≈ M = noise · Z / √H + own · I        Z ~ N(0, 1), (H, H)

    Trained encoders show such a diagonal; from unrelated Q and K, attention that finds a word again elsewhere in the
    row takes long to form. M has more rank than a head, so each head gets the best approximation of an M of its own:
    the singular value decomposition cut to the head's size D, its roots shared out to both. From torch's global
    generator; of the two signs of a singular vector the one with which its largest entry is positive.
    """
    for layer in layers:
        assert isinstance(layer, Block)
        query_HH, key_HH, _ = layer.attention.qkv.weight.chunk(3)
        width, size = len(query_HH), len(query_HH) // layer.attention.heads
        for query_DH, key_DH in zip(torch.split(query_HH, size), torch.split(key_HH, size), strict=True):
            m_HH = noise * torch.randn(width, width) / math.sqrt(width) + own * torch.eye(width)
            left_HH, values_H, right_HH = torch.linalg.svd(m_HH)
            left_DH, right_DH, root_D1 = left_HH.T[:size], right_HH[:size], values_H[:size, None].sqrt()
            sign_D1 = left_DH.gather(1, left_DH.abs().argmax(1, keepdim=True)).sign()
            query_DH.copy_(left_DH * root_D1 * sign_D1)
            key_DH.copy_(right_DH * root_D1 * sign_D1)


@torch.no_grad()
def neighbour_attention(encoder: Encoder) -> None:
    """Let the heads of the first layer begin by looking at the words beside their own, in place.

    Their places, in turn: 1 to the left, 1 to the right, 2 to the left, ... The last D dimensions of the embeddings (D:
    the size of a head) are the positions' alone at first, sin(ωp) and cos(ωp) of D / 2 frequencies ω from 0 to
    π, as large as the other dimensions. A head's query is its position turned by its offset, its key the position
    as it is: of their products, Σ cos(ω · (distance - offset)), the one at the offset is 5 as softmax sees it, and
    the others are near 0. Nothing is fixed: all of it learns. Without it such heads take millions of tokens to form.
    """
    block, attention = encoder.embeddings, encoder.layers[0].attention
    assert isinstance(attention, Attention) and isinstance(encoder.project, nn.Identity)
    word_VE, position_PE = (table.clone() for table in block.tables())
    width, size = word_VE.shape[1], word_VE.shape[1] // attention.heads
    half = size // 2
    places = slice(width - 2 * half, None)
    frequency_F = math.pi * ((torch.arange(half) + 0.5) / half) ** 1.3  # evenly, distances would look alike in turns

    angle_PF = torch.arange(len(position_PE))[:, None] * frequency_F
    position_PE.zero_()
    others = (word_VE.var() + block.token_type.weight.var()).sqrt()
    position_PE[:, places] = 2**0.5 * others * torch.cat([angle_PF.sin(), angle_PF.cos()], 1)
    word_VE[:, places] = 0
    block.load_tables(word_VE, position_PE)
    block.token_type.weight[:, places] = 0

    query_HH, key_HH, _ = attention.qkv.weight.chunk(3)
    for head, (query_DH, key_DH) in enumerate(zip(torch.split(query_HH, size), torch.split(key_HH, size), strict=True)):
        turn_F = (head // 2 + 1) * (1 if head % 2 else -1) * frequency_F
        sine_FF, cosine_FF = (5 / math.sqrt(size) * part.diag() for part in (turn_F.sin(), turn_F.cos()))
        query_DH.zero_()
        key_DH.zero_()
        key_DH[: 2 * half, places] = torch.eye(2 * half)
        query_DH[:half, places] = torch.cat([cosine_FF, sine_FF], 1)  # sin(a + b) = cos b sin a + sin b cos a
        query_DH[half : 2 * half, places] = torch.cat([-sine_FF, cosine_FF], 1)
