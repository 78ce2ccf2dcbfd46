"""The discriminator says of every token whether it was replaced (paper, section 2, D). It is what is kept.

Shapes: B rows, T positions, H hidden size.
"""

from torch import Tensor, nn

from electra.nn.encoder import Encoder
from electra.nn.token_heads import ReplacedTokenHead


class Discriminator(nn.Module):
    """Encoder and replaced-token head."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = ReplacedTokenHead(encoder.config)

    def forward(self, ids_BT: Tensor, segments_BT: Tensor, lengths_B: Tensor | None) -> Tensor:
        """Logits (B, T); a positive one says "replaced"."""
        return self.head(self.encoder(ids_BT, segments_BT, lengths_B))  # type: ignore[no-any-return]
