"""The settings of one encoder."""

from dataclasses import dataclass
from typing import Annotated, Literal

from electra.config import require
from electra.domains import BelowOne, Checked, Fraction, Interval, Size


@dataclass(frozen=True, kw_only=True)
class EncoderConfig(Checked):
    """One Transformer encoder (BERT's, post-LN). Paper, Table 6; vocabulary size comes from the tokenizer."""

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
    init: Literal["published", "normal", "mimetic"] = "published"  # normal: N(0, init_std) everywhere; see `initialise`

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.hidden % self.heads == 0, "heads", self.heads, f"a divisor of hidden ({self.hidden})")
