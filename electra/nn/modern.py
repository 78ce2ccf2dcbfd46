"""ModernBERT's encoder (Warner et al., 2024, section 2.1; transformers: models/modernbert) for both
networks.

How it differs from `encoder.py`, which is BERT's:
- each sublayer reads a LayerNorm of the residual stream and adds to it; one more norm ends the
  stream (pre-norm);
- queries and keys are rotated by their positions (RoPE, Su et al., 2021), so no table of positions
  bounds a row;
- the feed-forward is a gated product, gelu(x W) * (x W'), of two thirds of the usual width (GeGLU,
  Shazeer, 2020);
- only the last matrix of each head has a bias; there are no token types;
- in two layers of three a token sees `window` / 2 tokens to each side, in every third the whole
  row;
- the word table has the hidden size. Factorised (Lan et al., 2020), it is a product. Lookup, norm
  and output use the product, so a generator of another width shares the discriminator's words, and
  its folder holds the product.

Shapes: B rows, T positions, V vocabulary, E embedding size, H hidden size, F feed-forward size, A
heads, D head size, R = D / 2 rotary angles.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from electra.nn.config import ModernBertConfig
from electra.nn.encoder import Attention, Embeddings, Encoder, EncoderLayer, Table


class ModernEmbeddings(Embeddings):
    """Words, LayerNorm, dropout. Where E and H differ, the table is words (V, E) times `project`
    (E, H).
    """

    def __init__(self, config: ModernBertConfig, vocab_size: int) -> None:
        nn.Module.__init__(self)
        self.word = Table(vocab_size, config.embedding)
        same = config.embedding == config.hidden
        self.project: nn.Module = (
            nn.Identity() if same else nn.Linear(config.embedding, config.hidden, bias=False)
        )
        self.project.std = config.embedding**-0.5
        self.norm = nn.LayerNorm(config.hidden, eps=config.layer_norm_eps, bias=False)
        self.dropout = nn.Dropout(config.dropout)

    def disentangle(self, base: Embeddings) -> None:
        """Share words by disentangled gradients. Projection and norm stay this network's own."""
        self.word.base = (base.word,)

    def tables(self) -> tuple[Tensor, ...]:
        """Return the word table (V, H) that is looked up."""
        table_VH: Tensor = self.project(self.word.vectors())
        return (table_VH,)

    def load_tables(self, *tables: Tensor) -> None:
        """Set the parameters to this table. The factors of a product are set by `load_factors`
        instead.
        """
        if not self.factors():
            self.word.load_vectors(*tables)

    def factors(self) -> dict[str, Tensor]:
        """Return words and projection where the table is their product."""
        if not isinstance(self.project, nn.Linear):
            return {}
        return {
            "embeddings.word": self.word.vectors().detach(),
            "embeddings.project": self.project.weight.detach(),
        }

    @torch.no_grad()
    def load_factors(self, factors: dict[str, Tensor]) -> None:
        """Set the parameters so that `factors` returns these."""
        assert isinstance(self.project, nn.Linear)
        self.word.load_vectors(factors["embeddings.word"])
        self.project.weight.copy_(factors["embeddings.project"])

    def forward(self, ids_BT: Tensor, segments_BT: Tensor) -> Tensor:
        """Return the embeddings (B, T, H) of ids, in the norm's type under autocast too. Segments
        are not read.
        """
        words_BTH = self.project(F.embedding(ids_BT, self.word.vectors())).to(self.norm.weight)
        return self.dropout(self.norm(words_BTH))  # type: ignore[no-any-return]


class ModernLayer(EncoderLayer):
    """Attention and gated feed-forward, each on a LayerNorm of the stream that it adds to, the
    first on the stream.

    The stream keeps the type of the embeddings, fp32 under autocast too: in bf16, small sums over
    the layers would be lost.
    """

    def __init__(self, config: ModernBertConfig, index: int) -> None:
        super().__init__()
        self.is_global = index % config.global_every == 0  # the whole row; else a window of it
        norm = nn.LayerNorm(config.hidden, eps=config.layer_norm_eps, bias=False)
        self.attention_norm = norm if index else nn.Identity()
        self.attention = Attention(config)
        self.attention_drop = nn.Dropout(config.attention_dropout)
        self.ffn_norm = nn.LayerNorm(config.hidden, eps=config.layer_norm_eps, bias=False)
        self.expand = nn.Linear(config.hidden, 2 * config.ffn, bias=False)
        self.contract = nn.Linear(config.ffn, config.hidden, bias=False)
        self.contract.std = config.residual_init_std  # type: ignore[assignment]
        self.drop = nn.Dropout(config.dropout)

    def forward(self, hidden_BTH: Tensor, mask: Tensor | None, *angles: Tensor) -> Tensor:
        """Return the stream after this layer. `angles` are cosine and sine of the rotary angles (T,
        R).
        """
        gathered_BTH = self.attention(self.attention_norm(hidden_BTH), mask, *angles)
        hidden_BTH = hidden_BTH + self.attention_drop(gathered_BTH)
        value_BTF, gate_BTF = self.expand(self.ffn_norm(hidden_BTH)).chunk(2, -1)
        return hidden_BTH + self.contract(self.drop(F.gelu(value_BTF) * gate_BTF))  # type: ignore[no-any-return]


class ModernEncoder(Encoder):
    """Ids to hidden states, after a final norm."""

    embeddings_class = ModernEmbeddings
    layer_class = ModernLayer
    config: ModernBertConfig

    def __init__(
        self, config: ModernBertConfig, vocab_size: int, embeddings: Embeddings | None = None
    ) -> None:
        super().__init__(config, vocab_size, embeddings)
        self.final_norm = nn.LayerNorm(config.hidden, eps=config.layer_norm_eps, bias=False)

    def layer_inputs(
        self, real_BT: Tensor | None, ids_BT: Tensor
    ) -> list[tuple[Tensor | None, ...]]:
        """Return each layer's inputs besides its hidden states: attention mask, cosine and sine of
        rotary angles.
        """
        length = ids_BT.shape[1]
        device = ids_BT.device
        padding_mask = None if real_BT is None else real_BT[:, None, None, :]
        global_inputs = (padding_mask, *self._angles(self.config.global_theta, length, device))
        local_inputs = (
            self._window(padding_mask, length, device),
            *self._angles(self.config.local_theta, length, device),
        )
        return [global_inputs if layer.is_global else local_inputs for layer in self.layers]

    def _angles(self, theta: float, length: int, device: torch.device) -> tuple[Tensor, Tensor]:
        """Return cosine and sine (T, R) of the angle of each position and frequency."""
        size = self.config.hidden // self.config.heads
        share_R = torch.arange(0, size, 2, device=device).float() / size
        # Times the inverse, as transformers has it: far out in a row the other rounding is seen in
        # gradients.
        angle_TR = torch.arange(length, device=device)[:, None] * (1.0 / theta**share_R)
        return angle_TR.cos(), angle_TR.sin()

    def _window(
        self, padding_mask: Tensor | None, length: int, device: torch.device
    ) -> Tensor | None:
        """Return the mask of layers that see `config.window` / 2 positions to each side."""
        if length <= self.config.window // 2 + 1:
            return padding_mask
        position_T = torch.arange(length, device=device)
        distance_TT = (position_T[:, None] - position_T).abs()
        nearby = (distance_TT <= self.config.window // 2)[None, None]
        if padding_mask is None:
            return nearby
        # Padding far from all words sees itself: a softmax over nothing is NaN.
        return (nearby & padding_mask) | (distance_TT == 0)
