"""The two networks, each an encoder and its head (paper, section 2).

The generator, p_G, is a small masked language model that proposes plausible tokens. Its head is computed at the chosen
positions only; with a vocabulary of 30,522 the rest would cost more than the encoder. The discriminator, D, says of
every token whether it was replaced; fine-tuning starts from it.

Shapes: B rows, T positions, N chosen positions a row, M = B · N, H the generator's hidden size, E
embedding size, V vocabulary.
"""

import torch
from torch import Tensor, nn

from electra.nn.encoder import Encoder
from electra.nn.token_heads import MaskedTokenHead, ReplacedTokenHead
from electra.pretraining.config import ObjectiveConfig
from electra.pretraining.vocabulary import Chosen, propose


def gather_rows(hidden_BTH: Tensor, positions_BN: Tensor) -> Tensor:
    """Hidden states at the chosen positions, (M, H)."""
    rows, length, hidden = hidden_BTH.shape
    flat_M = (positions_BN + length * torch.arange(rows, device=positions_BN.device)[:, None]).view(-1)
    return hidden_BTH.reshape(-1, hidden).index_select(0, flat_M)


class ProposingHead(MaskedTokenHead):
    """The masked-token head in training: loss and sample in one, without handing out logits."""

    def propose(
        self, hidden_MH: Tensor, word_VE: Tensor, chosen: Chosen, config: ObjectiveConfig
    ) -> tuple[Tensor, Tensor]:
        """(L_MLM as a sum over positions, sampled ids (M,)) from `vocabulary.propose`."""
        return propose(self.features(hidden_MH), word_VE, self.bias, chosen, config)


class Generator(nn.Module):
    """Encoder and masked-token head; returns logits at the chosen positions only."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = ProposingHead(encoder.config, encoder.vocab_size)

    def forward(
        self, ids_BT: Tensor, segments_BT: Tensor, lengths_B: Tensor | None, positions_BN: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Masked ids to (logits (M, V), hidden states (M, H)) at the chosen positions."""
        hidden_MH = self.hidden(ids_BT, segments_BT, lengths_B, positions_BN)
        return self.head(hidden_MH, self.encoder.embeddings.tables()[0]), hidden_MH

    def hidden(self, ids_BT: Tensor, segments_BT: Tensor, lengths_B: Tensor | None, positions_BN: Tensor) -> Tensor:
        """Hidden states (M, H) at the chosen positions."""
        return gather_rows(self.encoder(ids_BT, segments_BT, lengths_B), positions_BN)


class FixedGenerator(nn.Module):
    """A generator that learns nothing: one distribution everywhere (unigrams, or uniform). Figure 3, left."""

    log_probabilities_V: Tensor

    def __init__(self, log_probabilities_V: Tensor) -> None:
        super().__init__()
        self.register_buffer("log_probabilities_V", log_probabilities_V.float(), persistent=False)

    def forward(
        self, ids_BT: Tensor, segments_BT: Tensor, lengths_B: Tensor | None, positions_BN: Tensor
    ) -> tuple[Tensor, Tensor]:
        """(The same logits in every one of the M rows, no hidden states)."""
        logits_MV = self.log_probabilities_V.expand(positions_BN.numel(), -1)
        return logits_MV, logits_MV[:, :0]


class Discriminator(nn.Module):
    """Encoder and replaced-token head."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = ReplacedTokenHead(encoder.config)

    def forward(self, ids_BT: Tensor, segments_BT: Tensor, lengths_B: Tensor | None) -> Tensor:
        """Logits (B, T); a positive one says "replaced"."""
        return self.head(self.encoder(ids_BT, segments_BT, lengths_B))  # type: ignore[no-any-return]
