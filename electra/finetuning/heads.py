"""What a head on an encoder must offer, and the published GLUE head: dropout and one linear layer on the last [CLS] vector.

Unlike in the textbook (and in transformers) there is no pooler and no hidden layer in the head. Its weight starts
Glorot-uniform, its bias at zero. Regression is one unbounded output with a squared error.

Shapes: B rows, T positions, H hidden size, C classes (1 for regression).
"""

import torch.nn.functional as F
from torch import Tensor, nn

from electra.finetuning.examples import Batch
from electra.model.dropout import dropout
from electra.model.encoder import Encoder


class Network(nn.Module):
    """An encoder with a head, as the loop sees it."""

    encoder: Encoder

    def losses(self, batch: Batch) -> Tensor:
        """Loss of each row (B,)."""
        raise NotImplementedError

    def outputs(self, batch: Batch) -> dict[str, Tensor]:
        """What prediction needs of each row: named tensors, rows first."""
        raise NotImplementedError


class Classifier(Network):
    """An encoder with a linear head on [CLS]; `classes` 0 is regression."""

    def __init__(self, encoder: Encoder, classes: int, head_dropout: float) -> None:
        super().__init__()
        self.encoder = encoder
        self.regression = classes == 0
        self.head = nn.Linear(encoder.config.hidden, max(1, classes))
        self.head_dropout = head_dropout
        nn.init.xavier_uniform_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def forward(self, batch: Batch) -> Tensor:
        """Logits (B, C)."""
        hidden_BTH = self.encoder(batch.ids_BT, batch.segments_BT, batch.lengths_B)
        logits_BC: Tensor = self.head(dropout(hidden_BTH[:, 0], self.head_dropout, self.training))
        return logits_BC

    def losses(self, batch: Batch) -> Tensor:
        """Cross-entropy or squared error of each row (B,)."""
        logits_BC, label_B = self(batch), batch.targets["label"]
        if self.regression:
            loss_B: Tensor = (logits_BC[:, 0] - label_B).square()
            return loss_B
        return F.cross_entropy(logits_BC, label_B, reduction="none")

    def outputs(self, batch: Batch) -> dict[str, Tensor]:
        """What prediction needs of each row: `logits` (B, C)."""
        return {"logits": self(batch)}
