"""Heads of pre-training: whether each token was replaced, or which token of the vocabulary it is.

Shapes: B rows, T positions, M chosen positions, H hidden size, E embedding size, V vocabulary.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from electra.nn.config import EncoderConfig


class ReplacedTokenHead(nn.Module):
    """Dense, gelu, one logit. The paper prints sigmoid(w·h); the released code has the dense layer,
    and so has this.

    That of a modern encoder has a LayerNorm before the logit, as ModernBERT's token classifier.
    """

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.dense = _dense(config, config.hidden)
        self.norm = _norm(config) if config.norm_in_disc_head else nn.Identity()
        self.logit = nn.Linear(config.hidden, 1)
        self.logit.glorot = config.biases  # type: ignore[assignment]
        self.logit.std = config.hidden**-0.5

    def forward(self, hidden_BTH: Tensor) -> Tensor:
        """Return the logit of "replaced" for every position, (B, T)."""
        return self.logit(self.norm(F.gelu(self.dense(hidden_BTH)))).squeeze(-1)  # type: ignore[no-any-return]


class MaskedTokenHead(nn.Module):
    """Hidden state to vocabulary logits: dense to the table's width E, gelu, LayerNorm, times the
    word table, bias.
    """

    def __init__(self, config: EncoderConfig, vocab_size: int) -> None:
        super().__init__()
        self.dense = _dense(config, config.embedding_width)
        self.norm = _norm(config)
        self.bias = nn.Parameter(torch.zeros(vocab_size))

    def forward(self, hidden_MH: Tensor, word_VE: Tensor) -> Tensor:
        """Return logits (M, V) for hidden states (M, H) under a word table (V, E)."""
        return F.linear(self.norm(F.gelu(self.dense(hidden_MH))), word_VE, self.bias)


def _dense(config: EncoderConfig, width: int) -> nn.Linear:
    dense = nn.Linear(config.hidden, width, bias=config.biases)
    dense.std = config.residual_init_std  # type: ignore[assignment]
    return dense


def _norm(config: EncoderConfig) -> nn.LayerNorm:
    return nn.LayerNorm(config.embedding_width, eps=config.layer_norm_eps, bias=config.biases)
