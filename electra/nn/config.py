"""The settings of one encoder, `kind: bert` (the paper's) or `kind: modern` (ModernBERT's), and the
sizes that follow from them.

Class attributes of both say how the two kinds differ where other code depends on it.
"""

import math
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Discriminator, Field, Tag
from pydantic.dataclasses import dataclass

from electra.config import BelowOne, Fraction, Positive, Settings, Size, require

# operations for each number, as the authors' script counts them
SOFTMAX = 5
DROPOUT = 4
NORM = 5
GELU = 8


@dataclass(frozen=True, kw_only=True)
class _Transformer(Settings):
    """Settings of both kinds of encoders."""

    layers: Annotated[int, Field(ge=1, le=1000)]
    hidden: Size
    heads: Size
    ffn: Size  # of a modern encoder's gated product: its first matrix has twice as many outputs
    # of a modern encoder, other than hidden: the word table is a product, see `ModernEmbeddings`
    embedding: Size
    init_std: Annotated[float, Field(gt=0, le=10)] = 0.02
    # see `initialise` (encoder.py) and attention_init.py
    init: Literal["published", "mimetic", "neighbours"] = "published"

    def __post_init__(self) -> None:
        require(
            self.init != "neighbours" or self.embedding == self.hidden,
            f"embedding: is {self.embedding}, should be hidden ({self.hidden}) with init "
            "neighbours",
        )


@dataclass(frozen=True, kw_only=True)
class BertConfig(_Transformer):
    """One Transformer encoder (BERT's, post-LN). Paper, Table 6; vocabulary size comes from the
    tokenizer.
    """

    biases: ClassVar[bool] = True  # of all linear layers and LayerNorms
    norm_in_disc_head: ClassVar[bool] = False  # a LayerNorm in the replaced-token head
    has_hf_task_head: ClassVar[bool] = (
        True  # transformers' classes for tasks compute the same as our heads
    )
    shareable_embeddings: ClassVar[bool] = True  # by an encoder of another hidden size
    ffn_matrices: ClassVar[int] = 2  # of a feed-forward layer, H x F each

    kind: Literal["bert"] = "bert"
    positions: Size = 512
    token_types: Size = 2
    dropout: BelowOne = 0.1
    attention_dropout: BelowOne = 0.1
    layer_norm_eps: Fraction = 1e-12

    def __post_init__(self) -> None:
        require(
            self.hidden % self.heads == 0,
            f"heads: is {self.heads}, should divide hidden ({self.hidden})",
        )
        super().__post_init__()

    @property
    def embedding_width(self) -> int:
        """Width of the word table that is looked up, and that hidden states are multiplied with."""
        return self.embedding

    @property
    def residual_init_std(self) -> float:
        """Standard deviation of initial weights that write to the residual stream."""
        return self.init_std

    def scaled_ffn(self, width: float) -> int:
        """Return the feed-forward size of a generator of `width` times the hidden size: 4 × hidden
        below 1.
        """
        return 4 * max(1, round(self.hidden * width)) if width < 1 else self.ffn

    def pointwise_flops(self, length: int) -> tuple[int, int]:
        """Return operations other than matrix products for one token of a row: those of a layer,
        and those around the layers.
        """
        H = self.hidden
        E = self.embedding
        T = length
        attention = 3 * H + (SOFTMAX + DROPOUT + 1) * T * self.heads
        layer = attention + 2 * (1 + DROPOUT + 1 + NORM) * H + (GELU + 1) * self.ffn
        return layer, 2 * E * (T + 2) + 2 * E + (NORM + DROPOUT) * E + (0 if H == E else H)


@dataclass(frozen=True, kw_only=True)
class ModernBertConfig(_Transformer):
    """One ModernBERT encoder (Warner et al., 2024, section 2.1; electra/nn/modern.py). No biases,
    no token types.
    """

    biases: ClassVar[bool] = False
    norm_in_disc_head: ClassVar[bool] = True
    has_hf_task_head: ClassVar[bool] = False
    shareable_embeddings: ClassVar[bool] = False
    ffn_matrices: ClassVar[int] = 3

    kind: Literal["modern"]
    positions: Size = 1024
    # layers 0, 3, 6, ... see the whole row; 1: all do
    global_every: Annotated[int, Field(ge=1, le=1000)] = 3
    window: Annotated[int, Field(ge=2, le=2**20)] = 128  # the others see half of it to each side
    global_theta: Positive = 10_000.0  # published models end at 160,000, for rows of 8,192
    local_theta: Positive = 10_000.0
    dropout: BelowOne = 0.0  # of embeddings and of the gated product
    attention_dropout: BelowOne = 0.0  # of attention's probabilities and of its output
    layer_norm_eps: Fraction = 1e-5

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.init == "neighbours":
            require(
                self.hidden // self.heads >= 32,
                f"heads: is {self.heads}, should be at most {self.hidden // 32} with init "
                "neighbours: narrow heads cannot tell places apart",
            )
        require(
            self.hidden % (2 * self.heads) == 0,
            f"heads: is {self.heads}, should divide half of hidden ({self.hidden}): rotary "
            "positions turn pairs",
        )
        require(self.window % 2 == 0, f"window: is {self.window}, should be even")

    @property
    def embedding_width(self) -> int:
        """Width of the word table that is looked up, and that hidden states are multiplied with."""
        return self.hidden

    @property
    def residual_init_std(self) -> float:
        """Standard deviation of initial weights that write to the residual stream."""
        return self.init_std / math.sqrt(2 * self.layers)

    def scaled_ffn(self, width: float) -> int:
        """Return the feed-forward size of a generator of `width` times the hidden size: `width`
        times this one's. It is a multiple of 8 if this one's is, which the matrix units of GPUs
        need.
        """
        unit = 1 if self.ffn % 8 else 8
        return max(1, round(self.ffn * width / unit)) * unit

    def pointwise_flops(self, length: int) -> tuple[int, int]:
        """Return operations other than matrix products for one token of a row: those of a layer,
        and those around the layers.
        """
        H = self.hidden
        attention = (
            3 * 2 * H + (SOFTMAX + DROPOUT + 1) * length * self.heads + (DROPOUT + 1 + NORM) * H
        )
        layer = attention + (GELU + 1 + DROPOUT) * self.ffn + (1 + NORM) * H
        return layer, (NORM + DROPOUT) * H + NORM * H


def _kind(values: Any) -> Any:
    """Return the kind of encoder that settings name, bert by default."""
    return values.get("kind", "bert") if isinstance(values, dict) else getattr(values, "kind", None)


EncoderConfig = Annotated[
    Annotated[BertConfig, Tag("bert")] | Annotated[ModernBertConfig, Tag("modern")],
    Discriminator(_kind),
]
