"""The interface of a head, and the published GLUE head: dropout and one linear layer on the last
[CLS] vector.

Unlike in the textbook (and in transformers) there is no pooler and no hidden layer in the head. Its
weight starts Glorot-uniform, its bias at zero. Regression has one unbounded output and a squared
error.

Shapes: B rows, T positions, H hidden size, L layers, S states that a head reads (L + 1 or 1), C
classes (1 for regression).
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from electra.finetuning.batches import Examples, PaddedBatch
from electra.finetuning.tasks import Layers, Pooling
from electra.nn.encoder import Encoder, Table
from electra.storage.tensors import Tensors

OutputArrays = dict[str, NDArray[Any]]  # by name, rows first


class Network(nn.Module):
    """An encoder with a head, as the loop sees it."""

    encoder: Encoder

    def losses(self, batch: PaddedBatch) -> Tensor:
        """Return the loss of each row (B,)."""
        raise NotImplementedError

    def outputs(self, batch: PaddedBatch) -> dict[str, Tensor]:
        """Return each row's outputs for prediction: named tensors, rows first."""
        raise NotImplementedError


def pooled(
    encoder: Encoder, batch: PaddedBatch, pooling: Pooling, layers: Layers = "last"
) -> Tensor:
    """Return the head's input for each row (B, H): its [CLS] vector, or the mean or maximum over
    all of its tokens. For a `pair` (B, 4 H): the output of `compare_texts`. `align` (B, 6 H) adds
    how far each text's tokens are from their best matches in the other. With `all` layers each of
    these covers the embeddings and every layer's states, end to end: L + 1 times as many numbers.
    """
    hidden_BTH = encoder(
        batch.ids_BT, batch.segments_BT, batch.lengths_B, all_layers=layers == "all"
    )
    real_BT = batch.real_tokens()
    if pooling == "cls":
        return hidden_BTH[:, 0]  # type: ignore[no-any-return]
    if pooling == "max":
        return hidden_BTH.masked_fill(~real_BT[..., None], float("-inf")).amax(1)  # type: ignore[no-any-return]
    if pooling == "mean":
        return mean_over(hidden_BTH, real_BT)
    first_BT = real_BT & (batch.segments_BT == 0)
    second_BT = real_BT & (batch.segments_BT == 1)
    compared_BH = compare_texts(hidden_BTH, first_BT, second_BT)
    if pooling == "pair":
        return compared_BH
    return torch.cat(
        [compared_BH, align_texts(hidden_BTH, first_BT, second_BT, encoder.config.hidden)], 1
    )


def mean_over(values_BTX: Tensor, chosen_BT: Tensor) -> Tensor:
    """Return the mean over the chosen tokens of each row (B, X), 0 where none is chosen."""
    total_BX = values_BTX.masked_fill(~chosen_BT[..., None], 0).sum(1)
    return total_BX / chosen_BT.sum(1, keepdim=True).clamp(min=1)


def compare_texts(hidden_BTH: Tensor, first_BT: Tensor, second_BT: Tensor) -> Tensor:
    """Return means u and v of each row's two texts, |u - v| and u · v (B, 4 H). A missing
    second text has a v of 0.

    [CLS] counts to the first text, each [SEP] to the one before it (Conneau et al., 2017, of two
    encoders' vectors).
    """
    u_BH = mean_over(hidden_BTH, first_BT)
    v_BH = mean_over(hidden_BTH, second_BT)
    return torch.cat([u_BH, v_BH, (u_BH - v_BH).abs(), u_BH * v_BH], 1)


def align_texts(hidden_BTH: Tensor, first_BT: Tensor, second_BT: Tensor, size: int) -> Tensor:
    """Return how far each text's tokens are from their best matches in the other: the mean of |x -
    x'| of both (B, 2 H).

    x' are the other text's tokens, averaged by softmax(10 cos(x, ·)): the soft alignment of Parikh
    et al., 2016, by cosines. States joined end to end, each `size` wide, are aligned one by
    one. Without a second text all is 0.
    """
    states_BSTX = hidden_BTH.unflatten(2, (-1, size)).transpose(1, 2)  # type: ignore[no-untyped-call]
    unit_BSTX = F.normalize(states_BSTX, dim=-1)
    across_BTT = (first_BT[:, :, None] & second_BT[:, None]) | (
        second_BT[:, :, None] & first_BT[:, None]
    )
    share_BSTT = (10 * unit_BSTX @ unit_BSTX.mT).masked_fill(~across_BTT[:, None], -1e4).softmax(-1)
    apart_BTH = (states_BSTX - share_BSTT @ states_BSTX).abs().transpose(1, 2).flatten(2)
    means_BH = torch.cat([mean_over(apart_BTH, first_BT), mean_over(apart_BTH, second_BT)], 1)
    return means_BH * second_BT.any(1, keepdim=True)


def pooled_size(encoder: Encoder, pooling: Pooling, layers: Layers) -> int:
    """Return how many numbers `pooled` gives for a row."""
    states = encoder.config.layers + 1 if layers == "all" else 1
    return encoder.config.hidden * states * {"pair": 4, "align": 6}.get(pooling, 1)


def shrink_word_table(
    encoder: Encoder, splits: Sequence[Examples]
) -> tuple[list[Examples], Callable[[], None]]:
    """Keep only the word vectors that these splits use, in place. Return the splits with ids of
    the narrow table.

    The result is exact: a vector that is never looked up has no gradient and affects no output.
    With 30,522 word pieces and a few dozen short sentences per step, clipping and updating the
    whole table would take as long as everything else. Also return a function that restores the
    whole table with the trained vectors.
    """
    word = encoder.embeddings.word
    used_U = np.unique(np.concatenate([split.ids_S for split in splits]))
    place_V = np.zeros(word.num_embeddings, dtype=np.int32)
    place_V[used_U] = np.arange(len(used_U), dtype=np.int32)
    rows_U = torch.from_numpy(used_U.astype(np.int64))
    narrowed = Table(len(used_U), word.embedding_dim, _weight=word.weight.detach()[rows_U].clone())
    encoder.embeddings.word = narrowed

    def widen() -> None:
        with torch.no_grad():
            word.weight[rows_U] = narrowed.weight.to(word.weight.device)
        encoder.embeddings.word = word

    return [dataclasses.replace(split, ids_S=place_V[split.ids_S]) for split in splits], widen


def new_linear(inputs: int, outputs: int) -> nn.Linear:
    """Return a layer with the published heads' initial values: Glorot-uniform, the bias at zero."""
    layer = nn.Linear(inputs, outputs)
    nn.init.xavier_uniform_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


class Classifier(Network):
    """An encoder with a linear head on the output of `pooled`. 0 `classes` means regression."""

    def __init__(
        self,
        encoder: Encoder,
        classes: int,
        head_dropout: float,
        pooling: Pooling = "cls",
        layers: Layers = "last",
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.pooling = pooling
        self.layers = layers
        self.regression = classes == 0
        self.head = new_linear(pooled_size(encoder, pooling, layers), max(1, classes))
        self.drop = nn.Dropout(head_dropout)

    def forward(self, batch: PaddedBatch) -> Tensor:
        """Return logits (B, C)."""
        pooled_BH = pooled(self.encoder, batch, self.pooling, self.layers)
        return self.head(self.drop(pooled_BH))  # type: ignore[no-any-return]

    def losses(self, batch: PaddedBatch) -> Tensor:
        """Return the cross-entropy or squared error of each row (B,)."""
        logits_BC = self(batch)
        label_B = batch.targets["label"]
        if self.regression:
            return (logits_BC[:, 0] - label_B).square()  # type: ignore[no-any-return]
        return F.cross_entropy(logits_BC, label_B, reduction="none")

    def outputs(self, batch: PaddedBatch) -> dict[str, Tensor]:
        """Return each row's `logits` (B, C)."""
        return {"logits": self(batch)}

    def dense_tensors(self, scale: float, units: int | None = None) -> Tensors:
        """Return the head as transformers' dense -> gelu -> out_proj, its outputs times `scale`.

        It is the same function, since gelu(z) - gelu(-z) = z.

        `dense` holds W and -W, `out_proj` 1 and -1. Of the `units` (U) between them 2 C are used.
        There are no others unless `units` asks for them.
        """
        weight_CH = self.head.weight.detach().cpu()
        bias_C = self.head.bias.detach().cpu()
        used = 2 * len(bias_C)
        unused = (units or used) - used
        one_CC = torch.eye(len(bias_C)) * scale
        return {
            "classifier.dense.weight": F.pad(torch.cat([weight_CH, -weight_CH]), (0, 0, 0, unused)),
            "classifier.dense.bias": torch.zeros(used + unused),
            "classifier.out_proj.weight": F.pad(torch.cat([one_CC, -one_CC], 1), (0, unused)),
            "classifier.out_proj.bias": bias_C * scale,
        }
