"""The Transformer encoder of both networks: BERT's post-LN encoder without the pooler.

How it differs from the textbook:
- the embedding size E may differ from the hidden size H; one linear map (no activation, norm or
  dropout) joins them;
- query, key and value are one matrix product; attention is torch's fused scaled-dot-product kernel;
- the embedding block is a module of its own, since generator and discriminator share it (word,
  position and type tables and their LayerNorm), each with its own projection and dropout draw.

Pre-training, fine-tuning and inference all call `Encoder.forward`. Each layer is called as a
module, so forward hooks, `torch.compile` and activation checkpointing work on it.

Shapes: B rows, T positions, E embedding size, H hidden size, F feed-forward size, V vocabulary
size, A heads, D head size, L layers.
"""

from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from electra.nn.config import BertConfig, EncoderConfig


class Table(nn.Embedding):
    """An embedding that draws no numbers on torch's meta device: that would import the compiler,
    which takes a second.

    With a `base`, its vectors are the base's without gradient, plus `weight`, a delta from zero.
    """

    # in a tuple, so that the base's parameters are not registered here a second time
    base: "tuple[Table, ...]" = ()

    def vectors(self) -> Tensor:
        """Return the table that is looked up."""
        return self.base[0].vectors().detach() + self.weight if self.base else self.weight

    @torch.no_grad()
    def load_vectors(self, vectors: Tensor) -> None:
        """Set the weight so that `vectors` returns these; a delta rounds the sum by an ulp."""
        if self.base:
            vectors = vectors.to(self.weight) - self.base[0].vectors()
        self.weight.copy_(vectors)

    def reset_parameters(self) -> None:
        """Draw the first values, where there is memory for them."""
        if not self.weight.is_meta:
            super().reset_parameters()


class Embeddings(nn.Module):
    """Word + token type + position, LayerNorm, dropout."""

    word: Table

    def __init__(self, config: BertConfig, vocab_size: int) -> None:
        super().__init__()
        self.word = Table(vocab_size, config.embedding)
        self.position = Table(config.positions, config.embedding)
        self.token_type = Table(config.token_types, config.embedding)
        self.norm = nn.LayerNorm(config.embedding, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.dropout)

    def disentangle(self, base: "Embeddings") -> None:
        """Share tables by disentangled gradients (DeBERTa v3). The norm and the token types stay
        this network's own.
        """
        self.word.base = (base.word,)
        self.position.base = (base.position,)

    def tables(self) -> tuple[Tensor, ...]:
        """Return the word (V, E) and position (P, E) tables that are looked up."""
        return self.word.vectors(), self.position.vectors()

    def load_tables(self, *tables: Tensor) -> None:
        """Set the parameters so that `tables` returns these."""
        word_VE, position_PE = tables
        self.word.load_vectors(word_VE)
        self.position.load_vectors(position_PE)

    def factors(self) -> dict[str, Tensor]:
        """Return the further tensors that a folder needs to restore these tables: none here."""
        return {}

    def load_factors(self, factors: dict[str, Tensor]) -> None:
        """Set the parameters so that `factors` returns these."""

    def forward(self, ids_BT: Tensor, segments_BT: Tensor) -> Tensor:
        """Return the embeddings (B, T, E) of ids under their segment ids."""
        word_VE, position_PE = self.tables()
        embedded_BTE = (
            F.embedding(ids_BT, word_VE)
            + self.token_type(segments_BT)
            + position_PE[: ids_BT.shape[1]]
        )
        return self.dropout(self.norm(embedded_BTE))  # type: ignore[no-any-return]


class Attention(nn.Module):
    """Multi-head self-attention with dropout on the attention probabilities."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.qkv = nn.Linear(config.hidden, 3 * config.hidden, bias=config.biases)
        self.out = nn.Linear(config.hidden, config.hidden, bias=config.biases)
        self.out.std = config.residual_init_std  # type: ignore[assignment]
        self.dropout = config.attention_dropout

    def forward(self, hidden_BTH: Tensor, mask: Tensor | None, *angles: Tensor) -> Tensor:
        """Return out(softmax(Q Kᵀ / √D) V), (B, T, H). Arguments: see `EncoderLayer.forward`."""
        query, key, value = self.project_qkv(hidden_BTH)
        if angles:
            query = rotate(query, *angles)
            key = rotate(key, *angles)
        rate = self.dropout if self.training else 0.0
        context_BATD = F.scaled_dot_product_attention(
            query, key, value, attn_mask=mask, dropout_p=rate
        )
        return self.out(context_BATD.transpose(1, 2).flatten(2))  # type: ignore[no-any-return]

    def project_qkv(self, hidden_BTH: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return query, key and value, each (B, A, T, D)."""
        qkv_BT3AD = self.qkv(hidden_BTH).unflatten(-1, (3, self.heads, -1))
        query, key, value = qkv_BT3AD.permute(2, 0, 3, 1, 4)
        return query, key, value


def rotate(values_BATD: Tensor, cos_TR: Tensor, sin_TR: Tensor) -> Tensor:
    """Rotate each pair (d, d + D/2) of queries or keys by its position's angle, R = D / 2 angles
    each.
    """
    first, second = values_BATD.float().chunk(2, -1)
    rotated = torch.cat([first * cos_TR - second * sin_TR, second * cos_TR + first * sin_TR], -1)
    return rotated.to(values_BATD.dtype)


class EncoderLayer(nn.Module):
    """One layer of an encoder of any kind. It is compiled once for all layers."""

    attention: Attention

    def forward(self, hidden_BTH: Tensor, mask: Tensor | None, *angles: Tensor) -> Tensor:
        """Return hidden states of the same shape.

        `mask` broadcasts to (B, A, T, T) and is true where a key may be seen. None: everywhere.
        `angles` are cosine and sine of rotary angles, (T, D / 2) each, in encoders that have them.
        """
        raise NotImplementedError


class BertLayer(EncoderLayer):
    """Attention and feed-forward, each followed by dropout, residual and LayerNorm."""

    def __init__(self, config: BertConfig, index: int = 0) -> None:
        super().__init__()
        self.attention = Attention(config)
        self.attention_norm = nn.LayerNorm(config.hidden, eps=config.layer_norm_eps)
        self.expand = nn.Linear(config.hidden, config.ffn)
        self.contract = nn.Linear(config.ffn, config.hidden)
        self.ffn_norm = nn.LayerNorm(config.hidden, eps=config.layer_norm_eps)
        self.drop = nn.Dropout(config.dropout)

    def forward(self, hidden_BTH: Tensor, mask: Tensor | None, *angles: Tensor) -> Tensor:
        """Return hidden states of the same shape, in the type of the matrix products.

        Autocast computes LayerNorm in fp32 on GPUs, so its output is converted back.
        """
        gathered_BTH = self.attention(hidden_BTH, mask)
        hidden_BTH = self.attention_norm(hidden_BTH + self.drop(gathered_BTH)).to(
            gathered_BTH.dtype
        )
        ffn_BTH = self.contract(F.gelu(self.expand(hidden_BTH)))
        return self.ffn_norm(hidden_BTH + self.drop(ffn_BTH)).to(ffn_BTH.dtype)  # type: ignore[no-any-return]


def real_tokens(lengths_B: Tensor, length: int) -> Tensor:
    """Return which of `length` positions of each row are not padding (B, T)."""
    return torch.arange(length, device=lengths_B.device) < lengths_B[:, None]


class Encoder(nn.Module):
    """Ids to hidden states. `embeddings` may be another encoder's, to share it."""

    embeddings_class: ClassVar[type[Any]] = Embeddings
    layer_class: ClassVar[type[Any]] = BertLayer

    def __init__(
        self, config: EncoderConfig, vocab_size: int, embeddings: Embeddings | None = None
    ) -> None:
        super().__init__()
        self.config = config
        self.vocab_size = vocab_size
        self.embeddings: Embeddings = embeddings or self.embeddings_class(config, vocab_size)
        self.project: nn.Module = nn.Identity()
        if config.embedding_width != config.hidden:
            self.project = nn.Linear(config.embedding_width, config.hidden)
            self.project.glorot = True  # type: ignore[assignment]
        self.layers = nn.ModuleList(
            self.layer_class(config, index) for index in range(config.layers)
        )
        self.final_norm: nn.Module = nn.Identity()

    def forward(
        self,
        ids_BT: Tensor,
        segments_BT: Tensor,
        lengths_B: Tensor | None = None,
        *,
        all_layers: bool = False,
    ) -> Tensor:
        """Return the hidden states (B, T, H) of the last layer.

        Padding is at the end of a row: `lengths_B` counts its real tokens. None means that no
        row is padded. With `all_layers` the embeddings and the states of every layer are joined end
        to end (B, T, (L + 1) H).
        """
        real_BT = None if lengths_B is None else real_tokens(lengths_B, ids_BT.shape[1])
        if real_BT is not None and real_BT.device.type == "cpu" and bool(real_BT.all()):
            real_BT = None  # a CPU may look for free, and attention without a mask is faster
        hidden_BTH = self.project(self.embeddings(ids_BT, segments_BT))
        states = [hidden_BTH]
        for layer, inputs in zip(self.layers, self.layer_inputs(real_BT, ids_BT), strict=True):
            hidden_BTH = layer(hidden_BTH, *inputs)
            if all_layers:
                states.append(hidden_BTH)
        hidden_BTH = self.final_norm(hidden_BTH)
        return torch.cat([*states[:-1], hidden_BTH], -1) if all_layers else hidden_BTH

    def layer_inputs(
        self, real_BT: Tensor | None, ids_BT: Tensor
    ) -> list[tuple[Tensor | None, ...]]:
        """Return each layer's inputs besides its hidden states: the attention mask.

        `real_BT` says which tokens are not padding. None: all.
        """
        mask = None if real_BT is None else real_BT[:, None, None, :]
        return [(mask,)] * len(self.layers)


def initialise(module: nn.Module, config: EncoderConfig) -> None:
    """Set every initial value of a network, in place, from torch's global generator.

    | tensor | published value (electra: modeling.py, optimisation scripts) |
    |---|---|
    | tables; attention, feed-forward and head matrices | truncated normal, 2 sigma, std 0.02 |
    | embedding projection, last layer of each head (`glorot` modules) | Glorot uniform |
    | biases; LayerNorm | 0; weight 1, bias 0 |
    | deltas of disentangled embeddings | 0 |

    A modern encoder's are truncated normal, 2 sigma, as transformers' ModernBertPreTrainedModel:

    | tensor of a modern encoder | std |
    |---|---|
    | word table; query, key and value; both halves of the gated product | 0.02 |
    | matrices that write to the stream; dense ones of heads (full_megatron) | 0.02 / √(2 layers) |
    | last matrix of a classifier | 1 / √H |
    | projection of a factorised table, so that the product has the same spread | 1 / √E |

    Matrices with another std than `config.init_std` have it as their `std`. `mimetic` and
    `neighbours` begin as `published`. The caller then applies `init_attention` (attention_init.py)
    to the network that is exported.
    """
    for part in module.modules():
        if isinstance(part, nn.LayerNorm):
            nn.init.ones_(part.weight)
        elif isinstance(part, nn.Linear | nn.Embedding):
            std: float = getattr(part, "std", config.init_std)
            if getattr(part, "glorot", False):
                nn.init.xavier_uniform_(part.weight)
            else:
                nn.init.trunc_normal_(part.weight, std=std, a=-2 * std, b=2 * std)
            if getattr(part, "base", ()):
                nn.init.zeros_(part.weight)
        if isinstance(bias := getattr(part, "bias", None), Tensor):
            nn.init.zeros_(bias)
