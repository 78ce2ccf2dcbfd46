"""The settings of one encoder: BERT's, as the paper has it, or a modern one; `kind` tells them apart."""

import math
from dataclasses import dataclass
from typing import Annotated, Literal

from electra.config import require
from electra.domains import BelowOne, Checked, Fraction, Interval, Positive, Size


@dataclass(frozen=True, kw_only=True)
class EncoderConfig(Checked):
    """One Transformer encoder (BERT's, post-LN). Paper, Table 6; vocabulary size comes from the tokenizer."""

    kind: Literal["bert"] = "bert"
    layers: Annotated[int, Interval(1, 1000)]
    hidden: Size
    heads: Size
    ffn: Size
    embedding: Size
    positions: Size = 512
    token_types: Size = 2
    dropout: BelowOne = 0.1
    attention_dropout: BelowOne = 0.1
    layer_norm_eps: Fraction = 1e-12
    init_std: Annotated[float, Interval(0, 10, "(]")] = 0.02
    init: Literal["published", "normal", "mimetic", "neighbours"] = (
        "published"  # see encoder.py, `initialise`, and first_attention.py
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.hidden % self.heads == 0, "heads", self.heads, f"a divisor of hidden ({self.hidden})")
        fits = self.embedding == self.hidden or self.init != "neighbours"
        require(fits, "embedding", self.embedding, f"hidden ({self.hidden}) with init neighbours")

    @property
    def table(self) -> int:
        """Width of the word table that is looked up, and that hidden states are multiplied with."""
        return self.embedding


@dataclass(frozen=True, kw_only=True)
class ModernConfig(Checked):
    """One ModernBERT encoder (Warner et al., 2024, section 2.1; electra/nn/modern.py). No biases, no token types."""

    kind: Literal["modern"]
    layers: Annotated[int, Interval(1, 1000)]
    hidden: Size
    heads: Size
    ffn: Size  # of the gated product: its first matrix has twice as many outputs
    embedding: Size  # other than hidden: the word table is a product of two matrices, see `ModernEmbeddings`
    positions: Size = 1024
    global_every: Annotated[int, Interval(1, 1000)] = 3  # layers 0, 3, 6, ... see the whole row; 1: all do
    window: Annotated[int, Interval(2, 2**20)] = 128  # the others see half of it to each side
    global_theta: Positive = 10_000.0  # published models end at 160,000, for rows of 8,192
    local_theta: Positive = 10_000.0
    dropout: BelowOne = 0.0  # of embeddings and of the gated product
    attention_dropout: BelowOne = 0.0  # of probabilities and of what attention returns
    layer_norm_eps: Fraction = 1e-5
    init_std: Annotated[float, Interval(0, 10, "(]")] = 0.02
    init: Literal["published", "mimetic", "neighbours"] = "published"  # see first_attention.py

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.init == "neighbours":
            fits = self.embedding == self.hidden
            require(fits, "embedding", self.embedding, f"hidden ({self.hidden}) with init neighbours")
            expected = f"at most {self.hidden // 32} with init neighbours: narrow heads cannot tell places apart"
            require(self.hidden // self.heads >= 32, "heads", self.heads, expected)
        expected = f"a divisor of half of hidden ({self.hidden}): positions turn pairs"
        require(self.hidden % (2 * self.heads) == 0, "heads", self.heads, expected)
        require(self.window % 2 == 0, "window", self.window, "an even number")

    @property
    def table(self) -> int:
        """Width of the word table that is looked up, and that hidden states are multiplied with."""
        return self.hidden

    @property
    def out_std(self) -> float:
        """Spread of the first weights of what writes to the residual stream."""
        return self.init_std / math.sqrt(2 * self.layers)


AnyEncoderConfig = EncoderConfig | ModernConfig
