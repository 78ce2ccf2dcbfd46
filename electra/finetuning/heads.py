"""What a head must offer, and the published GLUE head: dropout and one linear layer on the last [CLS] vector.

Unlike in the textbook (and in transformers) there is no pooler and no hidden layer in the head. Its weight starts
Glorot-uniform, its bias at zero. Regression is one unbounded output with a squared error.

Shapes: B rows, H hidden size, C classes (1 for regression).
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from electra.finetuning.batches import Examples, PackedBatch
from electra.finetuning.tasks import Layers, Pooling
from electra.finetuning.unpadded import aligned_hidden, compared_hidden, first_hidden, hidden, pooled_hidden
from electra.nn.dropout import dropout
from electra.nn.encoder import Encoder
from electra.storage.tensors import Tensors

OutputArrays = dict[str, NDArray[Any]]  # by name, rows first


class Network(nn.Module):
    """An encoder with a head, as the loop sees it."""

    encoder: Encoder

    def losses(self, batch: PackedBatch) -> Tensor:
        """Loss of each row (B,)."""
        raise NotImplementedError

    def outputs(self, batch: PackedBatch) -> dict[str, Tensor]:
        """What prediction needs of each row: named tensors, rows first."""
        raise NotImplementedError


def pooled(encoder: Encoder, batch: PackedBatch, pooling: Pooling, layers: Layers = "last") -> Tensor:
    """What the head reads of each row (B, H): its [CLS] vector, or mean or maximum over all of its tokens.

    Of a `pair` (B, 4 H): the means of its two texts, and how they differ; `align` (B, 6 H) adds how far the tokens of
    each lie from their likes in the other. With `all` layers each of these is of the embeddings and every layer's
    states end to end: L + 1 times as many numbers.
    """
    if pooling == "cls" and layers == "last":
        return first_hidden(encoder, batch)
    hidden_PH = hidden(encoder, batch, layers)
    if pooling == "cls":
        return hidden_PH.index_select(0, batch.first_B)
    if pooling == "align":
        aligned = aligned_hidden(hidden_PH, batch, encoder.config.hidden)
        return torch.cat([compared_hidden(hidden_PH, batch), aligned], 1)
    return compared_hidden(hidden_PH, batch) if pooling == "pair" else pooled_hidden(hidden_PH, batch, pooling)


def pooled_size(encoder: Encoder, pooling: Pooling, layers: Layers = "last") -> int:
    """How many numbers `pooled` gives of a row."""
    states = encoder.config.layers + 1 if layers == "all" else 1
    return encoder.config.hidden * states * {"pair": 4, "align": 6}.get(pooling, 1)


def narrow(encoder: Encoder, splits: Sequence[Examples]) -> tuple[list[Examples], Callable[[], None]]:
    """Keep only the word vectors that these splits use, in place; returns the splits with ids of the narrow table.

    Exact: a vector that is never looked up has no gradient and bears on no output. With 30,522 word pieces and a few
    dozen short sentences a step, clipping and updating the whole table would take as long as everything else. The
    function that comes with the splits puts the whole table back, trained vectors in their places.
    """
    word = encoder.embeddings.word
    used_U = np.unique(np.concatenate([np.unique(split.ids_S) for split in splits]))
    place_V = np.zeros(word.num_embeddings, dtype=np.int32)
    place_V[used_U] = np.arange(len(used_U), dtype=np.int32)
    rows_U = torch.from_numpy(used_U.astype(np.int64))
    narrowed = nn.Embedding(len(used_U), word.embedding_dim, _weight=word.weight.detach()[rows_U].clone())
    encoder.embeddings.word = narrowed

    def widen() -> None:
        with torch.no_grad():
            word.weight[rows_U] = narrowed.weight.to(word.weight.device)
        encoder.embeddings.word = word

    return [dataclasses.replace(split, ids_S=place_V[split.ids_S]) for split in splits], widen


def new_linear(inputs: int, outputs: int) -> nn.Linear:
    """A layer as the published heads begin: Glorot-uniform, the bias at zero."""
    layer = nn.Linear(inputs, outputs)
    nn.init.xavier_uniform_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


class Classifier(Network):
    """An encoder with a linear head on what `pooled` gives; `classes` 0 is regression."""

    def __init__(
        self, encoder: Encoder, classes: int, head_dropout: float, pooling: Pooling = "cls", layers: Layers = "last"
    ) -> None:
        super().__init__()
        self.encoder, self.pooling, self.layers = encoder, pooling, layers
        self.regression = classes == 0
        self.head = new_linear(pooled_size(encoder, pooling, layers), max(1, classes))
        self.head_dropout = head_dropout

    def forward(self, batch: PackedBatch) -> Tensor:
        """Logits (B, C)."""
        pooled_BH = pooled(self.encoder, batch, self.pooling, self.layers)
        logits_BC: Tensor = self.head(dropout(pooled_BH, self.head_dropout, self.training))
        return logits_BC

    def losses(self, batch: PackedBatch) -> Tensor:
        """Cross-entropy or squared error of each row (B,)."""
        logits_BC, label_B = self(batch), batch.targets["label"]
        if self.regression:
            loss_B: Tensor = (logits_BC[:, 0] - label_B).square()
            return loss_B
        return F.cross_entropy(logits_BC, label_B, reduction="none")

    def outputs(self, batch: PackedBatch) -> dict[str, Tensor]:
        """What prediction needs of each row: `logits` (B, C)."""
        return {"logits": self(batch)}

    def dense_tensors(self, scale: float, units: int | None = None) -> Tensors:
        """The head as transformers' dense -> gelu -> out_proj, by gelu(z) - gelu(-z) = z, its outputs times `scale`.

        `dense` holds W and -W, `out_proj` 1 and -1, and of the `units` between them 2 C are used; these alone (U) where
        none are asked for.
        """
        weight_CH, bias_C = self.head.weight.detach().cpu(), self.head.bias.detach().cpu()
        one_CC, used = torch.eye(len(bias_C)) * scale, 2 * len(bias_C)
        units = units or used
        return {
            "classifier.dense.weight": F.pad(torch.cat([weight_CH, -weight_CH]), (0, 0, 0, units - used)),
            "classifier.dense.bias": torch.zeros(units),
            "classifier.out_proj.weight": F.pad(torch.cat([one_CC, -one_CC], 1), (0, units - used)),
            "classifier.out_proj.bias": bias_C * scale,
        }
