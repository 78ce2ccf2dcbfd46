"""The two networks, each an encoder and its head (paper, section 2).

The generator, p_G, is a small masked language model that proposes plausible tokens. Its head is
computed at the chosen positions only; with a vocabulary of 30,522 the rest would cost more than the
encoder. The discriminator, D, decides for every token whether it was replaced; fine-tuning starts
from it.

Shapes: B rows, T positions, N chosen positions a row, M = B · N, H the generator's hidden size, V
vocabulary.
"""

import torch
from torch import Tensor, nn

from electra.nn.encoder import Encoder
from electra.nn.token_heads import MaskedTokenHead, ReplacedTokenHead


def gather_rows(hidden_BTH: Tensor, positions_BN: Tensor) -> Tensor:
    """Return the hidden states at the chosen positions, (M, H)."""
    rows, length, hidden = hidden_BTH.shape
    starts_B = length * torch.arange(rows, device=positions_BN.device)
    flat_M = (positions_BN + starts_B[:, None]).view(-1)
    return hidden_BTH.reshape(-1, hidden).index_select(0, flat_M)


class Generator(nn.Module):
    """Encoder and masked-token head; returns logits at the chosen positions only."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = MaskedTokenHead(encoder.config, encoder.vocab_size)

    def forward(
        self, ids_BT: Tensor, segments_BT: Tensor, lengths_B: Tensor | None, positions_BN: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return logits (M, V) and hidden states (M, H) at the chosen positions of masked ids."""
        hidden_MH = gather_rows(self.encoder(ids_BT, segments_BT, lengths_B), positions_BN)
        return self.head(hidden_MH, self.encoder.embeddings.tables()[0]), hidden_MH


class FixedGenerator(nn.Module):
    """A generator that learns nothing: one distribution of tokens everywhere. Figure 3, left."""

    log_probabilities_V: Tensor

    def __init__(self, counts_V: Tensor) -> None:
        super().__init__()
        log_probabilities_V = counts_V.double().div(counts_V.sum()).log().float()
        self.register_buffer("log_probabilities_V", log_probabilities_V, persistent=False)

    def forward(
        self, ids_BT: Tensor, segments_BT: Tensor, lengths_B: Tensor | None, positions_BN: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the same logits in every one of the M rows, and no hidden states."""
        logits_MV = self.log_probabilities_V.expand(positions_BN.numel(), -1)
        return logits_MV, logits_MV[:, :0]


class Discriminator(nn.Module):
    """Encoder and replaced-token head."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = ReplacedTokenHead(encoder.config)

    def forward(self, ids_BT: Tensor, segments_BT: Tensor, lengths_B: Tensor | None) -> Tensor:
        """Return logits (B, T); a positive one says "replaced"."""
        return self.head(self.encoder(ids_BT, segments_BT, lengths_B))  # type: ignore[no-any-return]
