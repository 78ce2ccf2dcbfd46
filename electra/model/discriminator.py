"""The discriminator: says of every token whether it was replaced (paper, section 2, D). It is what is kept after pre-training.

Shapes: B rows, T positions, H hidden size.
"""

import torch.nn.functional as F
from torch import Tensor, nn

from electra.config import EncoderConfig
from electra.model.encoder import Encoder


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


class Discriminator(nn.Module):
    """Encoder and replaced-token head."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = ReplacedTokenHead(encoder.config)

    def forward(self, ids_BT: Tensor, segments_BT: Tensor, lengths_B: Tensor | None) -> Tensor:
        """Logits (B, T); a positive one says "replaced"."""
        return self.head(self.encoder(ids_BT, segments_BT, lengths_B))  # type: ignore[no-any-return]
