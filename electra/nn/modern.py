"""ModernBERT's encoder (Warner et al., 2024, section 2.1; transformers: models/modernbert) for both networks.

How it differs from `encoder.py`, which is BERT's:
- each sublayer reads a LayerNorm of the residual stream and adds to it; one more norm ends the stream (pre-norm);
- queries and keys are rotated by their positions (RoPE, Su et al., 2021), so no table of positions bounds a row;
- the feed-forward is a gated product, gelu(x W) * (x W'), of two thirds of the usual width (GeGLU, Shazeer, 2020);
- nothing has a bias, but for the last matrix of each head; there are no token types;
- in two layers of three a token sees `window` / 2 tokens to each side, in every third the whole row;
- the word table has the hidden size. Factorised (Lan et al., 2020), it is a product, which is what is
  normed, looked up and multiplied with, so a generator of another width shares the discriminator's words,
  and its folder holds the product.

Shapes: B rows, T positions, V vocabulary, E embedding size, H hidden size, F feed-forward size, A heads, D head size.
"""

from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from electra.nn import varlen
from electra.nn.attention import attend
from electra.nn.config import ModernConfig
from electra.nn.dropout import Dropout, dropout
from electra.nn.encoder import Attention, Block, Embeddings, Encoder, Seen, View, difference


class ModernEmbeddings(Embeddings):
    """Words, LayerNorm, dropout. Where E and H differ, the table is words (V, E) times `project` (E, H)."""

    def __init__(self, config: ModernConfig, vocab_size: int) -> None:
        nn.Module.__init__(self)
        self.word = nn.Embedding(vocab_size, config.embedding)
        same = config.embedding == config.hidden
        self.project: nn.Module = nn.Identity() if same else nn.Linear(config.embedding, config.hidden, bias=False)
        self.project.std = config.embedding**-0.5
        self.norm = nn.LayerNorm(config.hidden, eps=config.layer_norm_eps, bias=False)
        self.dropout = config.dropout

    def words(self) -> Tensor:
        """The word vectors (V, E)."""
        return self.word.weight

    @torch.no_grad()
    def load_words(self, word_VE: Tensor) -> None:
        """Let `words` be these."""
        self.word.weight.copy_(word_VE)

    def tables(self) -> tuple[Tensor, ...]:
        """The word table (V, H) that is looked up."""
        table_VH: Tensor = self.project(self.words())
        return (table_VH,)

    def load_tables(self, *tables: Tensor) -> None:
        """Let `tables` be this one; a product does not tell its factors, which `load_factors` sets."""
        if not self.factors():
            self.load_words(*tables)

    def factors(self) -> dict[str, Tensor]:
        """Words and projection where the table is their product."""
        if not isinstance(self.project, nn.Linear):
            return {}
        return {"embeddings.word": self.words().detach(), "embeddings.project": self.project.weight.detach()}

    @torch.no_grad()
    def load_factors(self, factors: dict[str, Tensor]) -> None:
        """Let `factors` be these."""
        assert isinstance(self.project, nn.Linear)
        self.load_words(factors["embeddings.word"])
        self.project.weight.copy_(factors["embeddings.project"])

    def forward(self, ids_BT: Tensor, segments_BT: Tensor, positions_BT: Tensor | None = None) -> Tensor:
        """Ids to embeddings (B, T, H), of the norm's type under autocast too; segments and positions are not read."""
        words_BTH = self.project(F.embedding(ids_BT, self.words())).to(self.norm.weight)
        return dropout(self.norm(words_BTH), self.dropout, self.training)


class DisentangledModern(ModernEmbeddings):
    """Gradient-disentangled sharing (DeBERTa v3): the generator's words without gradient, plus a delta from zero.

    `word` holds the delta; projection and norm are this network's own.
    """

    deltas = ("word",)

    def __init__(self, config: ModernConfig, base: ModernEmbeddings) -> None:
        super().__init__(config, base.word.num_embeddings)
        self.base = [base]  # in a list, so that the generator's parameters are not registered here a second time

    def words(self) -> Tensor:
        """The generator's words, detached, plus the delta."""
        return self.base[0].words().detach() + self.word.weight

    @torch.no_grad()
    def load_words(self, word_VE: Tensor) -> None:
        """Set the delta so that `words` are these, over the generator's as they are now."""
        base_VE = self.base[0].words()
        self.word.weight.copy_(difference(word_VE.to(base_VE), base_VE))


def apply_rotary(values_BTXAD: Tensor, view: View) -> Tensor:
    """Rotate each pair (d, d + D/2) of a query or key by its position's angle; same shape out, any axes at X."""
    assert view.cos_TD is not None and view.sin_TD is not None
    shape = (len(view.cos_TD), *[1] * (values_BTXAD.ndim - 3), view.cos_TD.shape[1])
    cos, sin = view.cos_TD.view(shape), view.sin_TD.view(shape)
    first, second = values_BTXAD.float().chunk(2, -1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], -1).to(values_BTXAD.dtype)


class ModernAttention(Attention):
    """Multi-head self-attention of rotated queries and keys, with dropout on its probabilities."""

    def context(self, qkv_BT3H: Tensor, view: View) -> Tensor:
        """What each position gathers (B, T, H), before the output matrix; packed tokens (P, 3H) give (P, H)."""
        assert view.cos_TD is not None
        heads = (3, self.heads, qkv_BT3H.shape[-1] // (3 * self.heads))
        qkv_BT3AD = qkv_BT3H.view(-1, len(view.cos_TD), *heads)
        rotated_BT2AD = apply_rotary(qkv_BT3AD[:, :, :2], view)
        rate, seen = self.dropout if self.training else 0.0, view.seen
        if isinstance(seen, varlen.PackedRows):
            query, key = rotated_BT2AD.flatten(0, 1).unbind(1)
            value = qkv_BT3AD[:, :, 2].flatten(0, 1)
            return varlen.attend(query, key, value, seen, seen, rate).view(*qkv_BT3H.shape[:-1], -1)
        if rate and qkv_BT3H.device.type == "cpu":
            mask = None if seen is None else seen.expand(len(qkv_BT3AD), -1, -1, -1)
            return attend(torch.cat([rotated_BT2AD, qkv_BT3AD[:, :, 2:]], 2), mask, rate)
        query, key = rotated_BT2AD.permute(2, 0, 3, 1, 4)
        value = qkv_BT3AD[:, :, 2].transpose(1, 2)
        context = F.scaled_dot_product_attention(query, key, value, attn_mask=seen, dropout_p=rate)
        return context.transpose(1, 2).flatten(2)

    def rotated(self, values_BTAD: Tensor, view: View) -> Tensor:
        """Queries or keys, rotated by their positions."""
        return apply_rotary(values_BTAD, view)


class ModernLayer(Block):
    """Attention and gated feed-forward, each on a LayerNorm of the stream that it adds to, the first on the stream.

    The stream keeps the type of the embeddings, fp32 under autocast too: what is added over the
    layers would be lost in bf16.
    """

    def __init__(self, config: ModernConfig, index: int) -> None:
        super().__init__()
        self.sees_all = index % config.global_every == 0
        norm = nn.LayerNorm(config.hidden, eps=config.layer_norm_eps, bias=False)
        self.attention_norm = norm if index else nn.Identity()
        self.attention = ModernAttention(config)
        self.attention_drop = Dropout(config.attention_dropout)
        self.ffn_norm = nn.LayerNorm(config.hidden, eps=config.layer_norm_eps, bias=False)
        self.expand = nn.Linear(config.hidden, 2 * config.ffn, bias=False)
        self.contract = nn.Linear(config.ffn, config.hidden, bias=False)
        self.contract.std = config.out_std  # type: ignore[assignment]
        self.drop = Dropout(config.dropout)

    def attention_input(self, hidden_XH: Tensor) -> Tensor:
        """The stream after its LayerNorm."""
        return self.attention_norm(hidden_XH)  # type: ignore[no-any-return]

    def after(self, hidden_XH: Tensor, context_XH: Tensor, *, cast: bool = False) -> Tensor:
        """The stream after this layer, from the stream before it and what its attention gathered; of the same type."""
        hidden_XH = self.attention_drop(self.attention.out(context_XH), hidden_XH)
        value_XF, gate_XF = self.expand(self.ffn_norm(hidden_XH)).chunk(2, -1)
        return hidden_XH + self.contract(self.drop(F.gelu(value_XF) * gate_XF))  # type: ignore[no-any-return]


class ModernEncoder(Encoder):
    """Ids to hidden states, after a final norm."""

    embeddings_class = ModernEmbeddings
    disentangled_class = DisentangledModern
    layer_class = ModernLayer
    config: ModernConfig

    def __init__(self, config: ModernConfig, vocab_size: int, embeddings: Embeddings | None = None) -> None:
        super().__init__(config, vocab_size, embeddings)
        self.final_norm = nn.LayerNorm(config.hidden, eps=config.layer_norm_eps, bias=False)

    def views(
        self, real: Seen, length: int, device: torch.device, positions_P: Tensor | None = None
    ) -> dict[bool, View]:
        """Of both kinds of layers, each with its angles; `Encoder.views` has the arguments."""
        config, whole, local = self.config, real, real
        place_T = torch.arange(length, device=device) if positions_P is None else positions_P
        if isinstance(real, varlen.PackedRows):
            local = replace(real, reach=config.window // 2)
        else:
            whole, local = self._masks(place_T, real)
        size = config.hidden // config.heads
        share_D = torch.arange(0, size, 2, device=device).float() / size
        # Times the inverse, as transformers has it: far out in a row the other rounding is seen in gradients.
        angles = [place_T[:, None] * (1.0 / theta**share_D) for theta in (config.global_theta, config.local_theta)]
        return {
            kind: View(seen, angle_TD.cos(), angle_TD.sin())
            for kind, seen, angle_TD in zip((True, False), (whole, local), angles, strict=True)
        }

    def _masks(self, place_T: Tensor, real_BT: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
        """Where a key may be seen in the whole row and nearby, broadcastable to (B, A, T, T); None: everywhere."""
        whole = local = None if real_BT is None else real_BT[:, None, None, :]
        if len(place_T) > self.config.window // 2 + 1:
            distance_TT = (place_T[:, None] - place_T).abs()
            local = (distance_TT <= self.config.window // 2)[None, None]
            if whole is not None:  # padding far from all words sees itself: a softmax over nothing is no number
                local = (local & whole) | (distance_TT == 0)
        return whole, local
