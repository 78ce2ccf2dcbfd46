"""The Transformer encoder of both networks: BERT's post-LN encoder, less the pooler.

How it differs from the textbook:
- the embedding size E may differ from the hidden size H; one linear map (no activation, norm or dropout) joins them;
- query, key and value are one matrix product; attention is torch's fused scaled-dot-product kernel;
- the embedding block is a module of its own, since generator and discriminator share it (word, position and type
  tables and their LayerNorm), each with its own projection and dropout draw.

Shapes: B rows, T positions, E embedding size, H hidden size, F feed-forward size, V vocabulary size.
"""

from typing import Any, ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from electra.nn import varlen
from electra.nn.attention import attend
from electra.nn.config import AnyEncoderConfig, EncoderConfig
from electra.nn.dropout import Dropout, dropout


class Embeddings(nn.Module):
    """Word + token type + position, LayerNorm, dropout."""

    deltas: ClassVar[tuple[str, ...]] = ()  # tables that are added to another block's, and begin at 0
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

    def forward(self, ids_BT: Tensor, segments_BT: Tensor, positions_BT: Tensor | None = None) -> Tensor:
        """Ids and segment ids to embeddings (B, T, E); positions, where given, have the shape of the ids."""
        word_VE, table_PE = self.tables()
        position_TE = table_PE[: ids_BT.shape[1]] if positions_BT is None else F.embedding(positions_BT, table_PE)
        embedded_BTE = F.embedding(ids_BT, word_VE) + self.token_type(segments_BT) + position_TE
        return dropout(self.norm(embedded_BTE), self.dropout, self.training)


class DisentangledEmbeddings(Embeddings):
    """Gradient-disentangled sharing (DeBERTa v3): the generator's tables without gradient, plus a delta from zero.

    `word` and `position` hold the deltas; the norm and the token types are this network's own.
    """

    deltas = ("word", "position")

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


class View(NamedTuple):
    """What a layer's attention gets beside its tokens: the visible keys and, in a modern encoder, rotary angles."""

    seen: Seen
    cos_TD: Tensor | None = None  # of half a head's size; of packed tokens, each one's own (P, D)
    sin_TD: Tensor | None = None


class Attention(nn.Module):
    """Multi-head self-attention with dropout on the attention probabilities."""

    def __init__(self, config: AnyEncoderConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.qkv = nn.Linear(config.hidden, 3 * config.hidden, bias=config.biases)
        self.out = nn.Linear(config.hidden, config.hidden, bias=config.biases)
        self.out.std = config.out_std  # type: ignore[assignment]
        self.dropout = config.attention_dropout

    def context(self, qkv_BT3H: Tensor, view: View) -> Tensor:
        """What each position gathers (B, T, H), before the output matrix; packed tokens (P, 3H) give (P, H)."""
        rate, seen = self.dropout if self.training else 0.0, view.seen
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

    def rotated(self, values_BTAD: Tensor, view: View) -> Tensor:
        """Queries or keys as their positions change them: here not at all."""
        return values_BTAD


class Block(nn.Module):
    """One layer of an encoder of any kind: what is compiled once for all."""

    attention: Attention
    sees_all: bool = True  # the whole row; else a window of it

    def forward(self, hidden_BTH: Tensor, view: View) -> Tensor:
        """Same shape out as in."""
        context_BTH = self.attention.context(self.attention.qkv(self.attention_input(hidden_BTH)), view)
        return self.after(hidden_BTH, context_BTH, cast=True)

    def attention_input(self, hidden_XH: Tensor) -> Tensor:
        """What attention reads of the hidden states."""
        return hidden_XH

    def after(self, hidden_XH: Tensor, context_XH: Tensor, *, cast: bool = False) -> Tensor:
        """The layer's output, from its input and from what its attention gathered."""
        raise NotImplementedError


class Layer(Block):
    """Attention and feed-forward, each followed by dropout, residual and LayerNorm."""

    def __init__(self, config: EncoderConfig, index: int = 0) -> None:
        super().__init__()
        self.attention = Attention(config)
        self.attention_norm = nn.LayerNorm(config.hidden, eps=config.layer_norm_eps)
        self.expand = nn.Linear(config.hidden, config.ffn)
        self.contract = nn.Linear(config.ffn, config.hidden)
        self.ffn_norm = nn.LayerNorm(config.hidden, eps=config.layer_norm_eps)
        self.drop = Dropout(config.dropout)

    def after(self, hidden_XH: Tensor, context_XH: Tensor, *, cast: bool = False) -> Tensor:
        """The layer's output, from its input and from what its attention gathered.

        `cast` gives LayerNorm's output the type of the matrix products: autocast computes it in fp32 on GPUs.
        """
        out_XH = self.attention.out(context_XH)
        hidden_XH = self.attention_norm(self.drop(out_XH, hidden_XH))
        hidden_XH = hidden_XH.to(out_XH.dtype) if cast else hidden_XH
        ffn_XH = self.contract(F.gelu(self.expand(hidden_XH)))
        result_XH: Tensor = self.ffn_norm(self.drop(ffn_XH, hidden_XH))
        return result_XH.to(ffn_XH.dtype) if cast else result_XH


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

    embeddings_class: ClassVar[type[Any]] = Embeddings
    disentangled_class: ClassVar[type[Any]] = DisentangledEmbeddings
    layer_class: ClassVar[type[Any]] = Layer

    def __init__(self, config: AnyEncoderConfig, vocab_size: int, embeddings: Embeddings | None = None) -> None:
        super().__init__()
        self.config = config
        self.vocab_size = vocab_size
        self.embeddings: Embeddings = embeddings or self.embeddings_class(config, vocab_size)
        self.project: nn.Module = nn.Identity()
        if config.table != config.hidden:
            self.project = nn.Linear(config.table, config.hidden)
            self.project.glorot = True  # type: ignore[assignment]
        self.layers = nn.ModuleList(self.layer_class(config, index) for index in range(config.layers))
        self.final_norm: nn.Module = nn.Identity()

    def forward(self, ids_BT: Tensor, segments_BT: Tensor, lengths_B: Tensor | None = None) -> Tensor:
        """Hidden states (B, T, H) after the last layer.

        Padding stands at the end of a row: `lengths_B` counts its real tokens; None says that no row is padded.
        """
        length, device = ids_BT.shape[1], ids_BT.device
        seen: Seen = None
        if lengths_B is not None:
            seen = varlen.padded(lengths_B, length) if self.packs(device) else real_tokens(ids_BT, lengths_B)
        views = self.views(seen, length, device)
        views = {sees_all: view._replace(seen=added(view.seen)) for sees_all, view in views.items()}
        hidden_BTH = self.project(self.embeddings(ids_BT, segments_BT))
        for layer in self.layers:
            hidden_BTH = layer(hidden_BTH, views[layer.sees_all])  # type: ignore[index]
        return self.final_norm(hidden_BTH)  # type: ignore[no-any-return]

    def packs(self, device: torch.device) -> bool:
        """Whether the device attends within rows that stand end to end."""
        return varlen.usable(device, self.config.hidden // self.config.heads)

    def views(
        self, real: Seen, length: int, device: torch.device, positions_P: Tensor | None = None
    ) -> dict[bool, View]:
        """The view of layers that see the whole row (True), and of those that see a window of it (False).

        `real` are rows that stand end to end, whose tokens' `positions_P` are given; or which of `length` tokens are no
        padding (B, T), None for all of them.
        """
        return {True: View(real[:, None, None, :] if isinstance(real, Tensor) else real)}


def initialise(module: nn.Module, config: AnyEncoderConfig) -> None:
    """Set every initial value of a network, in place, from torch's global generator.

    | tensor | published (electra: modeling.py, optimisation scripts) | normal (transformers) |
    |---|---|---|
    | tables; attention, feed-forward and head matrices | truncated normal, 2 sigma, std 0.02 | N(0, 0.02) |
    | embedding projection, last layer of each head (`glorot` modules) | Glorot uniform | N(0, 0.02) |
    | biases; LayerNorm | 0; weight 1, bias 0 | the same |
    | deltas of disentangled embeddings | 0 | 0 |

    | tensor of a modern encoder | truncated normal, 2 sigma, of std (transformers: ModernBertPreTrainedModel) |
    |---|---|
    | word table; query, key and value; both halves of the gated product | 0.02 |
    | what writes to the stream; the dense matrix of each head | 0.02 / √(2 layers), as its authors' full_megatron |
    | last matrix of a classifier | 1 / √H |
    | projection of a factorised table (not in the source) | 1 / √E: the product is spread like a table |

    Matrices with another std than `config.init_std` have it as their `std`. `mimetic` and `neighbours` begin as
    `published`; then `init_attention` (attention_init.py) changes the network that is exported, which its owner calls.
    """
    for part in module.modules():
        if isinstance(part, nn.LayerNorm):
            nn.init.ones_(part.weight)
        elif isinstance(part, nn.Linear | nn.Embedding):
            std: float = getattr(part, "std", config.init_std)
            if config.init == "normal":
                nn.init.normal_(part.weight, std=config.init_std)
            elif getattr(part, "glorot", False):
                nn.init.xavier_uniform_(part.weight)
            else:
                nn.init.trunc_normal_(part.weight, std=std, a=-2 * std, b=2 * std)
        if isinstance(bias := getattr(part, "bias", None), Tensor) and isinstance(part, nn.LayerNorm | nn.Linear):
            nn.init.zeros_(bias)
    for part in module.modules():
        for name in part.deltas if isinstance(part, Embeddings) else ():
            nn.init.zeros_(part.get_submodule(name).weight)  # type: ignore[arg-type]
