"""The Transformer encoder of both networks: BERT's post-LN encoder, less the pooler.

How it differs from the textbook:
- the embedding size E may differ from the hidden size H; one linear map (no activation, norm or dropout) joins them;
- query, key and value are one matrix product; attention is torch's fused scaled-dot-product kernel;
- the embedding block is a module of its own, since generator and discriminator share it (word, position and type
  tables and their LayerNorm), each with its own projection and dropout draw.

Shapes: B rows, T positions, E embedding size, H hidden size, F feed-forward size, V vocabulary size.
"""

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
    """One layer of an encoder of any kind: what is compiled once for all."""

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

    `mimetic` and `neighbours` are `published`, and then `begin_attention` (first_attention.py) for the network that is
    kept, which its owner calls.
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
