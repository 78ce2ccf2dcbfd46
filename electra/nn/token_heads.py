"""What pre-training puts on an encoder: a verdict on every token, or its place in the vocabulary.

Shapes: B rows, T positions, M chosen positions, H hidden size, E embedding size, V vocabulary.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from electra.nn.config import EncoderConfig


class ReplacedTokenHead(nn.Module):
    """Dense, gelu, one logit. The paper prints sigmoid(w·h); the released code has the dense layer, and so has this."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden, config.hidden)
        self.logit = nn.Linear(config.hidden, 1)
        self.logit.glorot = True  # type: ignore[assignment]

    def forward(self, hidden_BTH: Tensor) -> Tensor:
        """Logit of "replaced" for every position, (B, T)."""
        return self.logit(F.gelu(self.dense(hidden_BTH))).squeeze(-1)  # type: ignore[no-any-return]


class MaskedTokenHead(nn.Module):
    """Hidden state to vocabulary logits: dense to E, gelu, LayerNorm, product with the word table, bias."""

    def __init__(self, config: EncoderConfig, vocab_size: int) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden, config.embedding)
        self.norm = nn.LayerNorm(config.embedding, eps=config.layer_norm_eps)
        self.bias = nn.Parameter(torch.zeros(vocab_size))

    def features(self, hidden_MH: Tensor) -> Tensor:
        """What is multiplied with the word table, (M, E)."""
        return self.norm(F.gelu(self.dense(hidden_MH)))  # type: ignore[no-any-return]

    def forward(self, hidden_MH: Tensor, word_VE: Tensor) -> Tensor:
        """Logits (M, V) for hidden states (M, H) under a word table (V, E)."""
        return F.linear(self.features(hidden_MH), word_VE, self.bias)
