"""The encoder over rows that stand end to end: no product is spent on padding.

Whatever looks at one token at a time (embeddings, projections, norms, feed-forward: nearly all of the work) sees the P
real tokens of a batch and nothing else. Attention alone needs rows: where the device has no kernel for rows that stand
end to end (electra/nn/varlen.py), queries, keys and values are laid out as a B × T grid, and its context is taken back.
Hidden states equal the padded encoder's up to the order of additions.

Shapes: B rows, T longest row, P tokens in all, C = B × T cells, H hidden size, D head size, L layers.
"""

import math
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from electra.finetuning.batches import PackedBatch
from electra.finetuning.tasks import Layers
from electra.nn import varlen
from electra.nn.dropout import dropout
from electra.nn.encoder import Block, Encoder, View


def hidden(encoder: Encoder, batch: PackedBatch, layers: Layers = "last") -> Tensor:
    """The last hidden state of every token (P, H); of `all` layers, the embeddings first, end to end (P, (L + 1) H)."""
    states = [encoder.project(encoder.embeddings(batch.ids_P, batch.segments_P, batch.positions_P))]
    for layer, view in _layers(encoder, batch):
        after_PH = _layer(layer, states[-1], batch, view)
        states = [*states, after_PH] if layers == "all" else [after_PH]
    states[-1] = encoder.final_norm(states[-1])
    return torch.cat(states, 1) if layers == "all" else states[0]


def first_hidden(encoder: Encoder, batch: PackedBatch) -> Tensor:
    """The last hidden state of each row's first token alone (B, H): all that a [CLS] head reads.

    The last layer then asks one query of all keys, and its feed-forward sees one position: of four layers, a fifth of
    the work is spared.
    """
    hidden_PH = encoder.project(encoder.embeddings(batch.ids_P, batch.segments_P, batch.positions_P))
    *lower, (last, view) = _layers(encoder, batch)
    for layer, its in lower:
        hidden_PH = _layer(layer, hidden_PH, batch, its)
    attention, seen = last.attention, view.seen
    if isinstance(seen, varlen.PackedRows) and seen.reach is not None:  # a single query would be its row's last token
        return encoder.final_norm(_layer(last, hidden_PH, batch, view).index_select(0, batch.first_B))  # type: ignore[no-any-return]
    size = hidden_PH.shape[1]
    weight, bias = attention.qkv.weight, attention.qkv.bias
    query_bias, both_bias = (None, None) if bias is None else (bias[:size], bias[size:])
    first_BH, read_PH = hidden_PH.index_select(0, batch.first_B), last.attention_input(hidden_PH)
    heads = (attention.heads, size // attention.heads)
    query_BH = F.linear(read_PH.index_select(0, batch.first_B), weight[:size], query_bias)  # position 0 is not rotated
    both_PX = F.linear(read_PH, weight[size:], both_bias)
    if isinstance(seen, varlen.PackedRows):
        single = varlen.PackedRows(torch.arange(len(batch) + 1, dtype=torch.int32, device=seen.ends.device), 1)
        key, value = both_PX.view(-1, 2, *heads).unbind(1)
        (key,) = attention.rotated(key[None], view)
        rate = attention.dropout if encoder.training else 0.0
        context = varlen.attend(query_BH.view(len(batch), *heads), key, value, single, seen, rate)
        return encoder.final_norm(last.after(first_BH, context.flatten(1)))  # type: ignore[no-any-return]
    query = query_BH.view(len(batch), 1, *heads).transpose(1, 2)
    both_BT2H = _Spread.apply(both_PX, batch)  # type: ignore[no-untyped-call]
    key, value = both_BT2H.view(len(batch), -1, 2, *heads).permute(2, 0, 3, 1, 4)
    key = attention.rotated(key.transpose(1, 2), view).transpose(1, 2)
    scores = (query @ key.transpose(-2, -1)) / math.sqrt(heads[1])
    if seen is not None:
        scores = scores.masked_fill(~seen[:, :, :1], float("-inf"))
    context = dropout(scores.softmax(-1), attention.dropout, encoder.training) @ value
    return encoder.final_norm(last.after(first_BH, context.reshape(len(batch), size)))  # type: ignore[no-any-return]


def pooled_hidden(hidden_PH: Tensor, batch: PackedBatch, pooling: Literal["mean", "max"]) -> Tensor:
    """Mean or maximum of each row's hidden states, [CLS] and [SEP] among them (B, H)."""
    hidden_BTH = _Spread.apply(hidden_PH, batch)  # type: ignore[no-untyped-call]
    real_BT1 = None if batch.real_BT is None else batch.real_BT[..., None]
    if pooling == "max":
        hidden_BTH = hidden_BTH if real_BT1 is None else hidden_BTH.masked_fill(~real_BT1, float("-inf"))
        return hidden_BTH.amax(1)  # type: ignore[no-any-return]
    if real_BT1 is None:
        return hidden_BTH.mean(1)  # type: ignore[no-any-return]
    return hidden_BTH.masked_fill(~real_BT1, 0).sum(1) / real_BT1.sum(1)  # type: ignore[no-any-return]


def compared_hidden(hidden_PH: Tensor, batch: PackedBatch) -> Tensor:
    """Means u and v of the hidden states of each row's two texts, |u - v| and u · v (B, 4 H); v of one text is 0.

    [CLS] counts to the first text, each [SEP] to the one before it (Conneau et al., 2017, of two encoders' vectors).
    """
    u_BH, v_BH = _means(_Spread.apply(hidden_PH, batch), batch.grid(batch.segments_P, 2))  # type: ignore[no-untyped-call]
    return torch.cat([u_BH, v_BH, (u_BH - v_BH).abs(), u_BH * v_BH], 1)


def aligned_hidden(hidden_PH: Tensor, batch: PackedBatch, size: int) -> Tensor:
    """How far each text's tokens lie from their likes in the other text: the mean of |x - x'| of both (B, 2 H).

    x' are the other text's tokens, averaged by softmax(10 cos(x, ·)): the soft alignment of Parikh et al., 2016, by
    cosines. States that stand end to end, each `size` wide, are aligned one by one. Without a second text all is 0.
    """
    hidden_BTH, side_BT = _Spread.apply(hidden_PH, batch), batch.grid(batch.segments_P, 2)  # type: ignore[no-untyped-call]
    states_BSTX = hidden_BTH.unflatten(2, (-1, size)).transpose(1, 2)
    unit_BSTX = F.normalize(states_BSTX, dim=-1)
    across_B1TT = (side_BT[:, None] + side_BT[:, :, None] == 1)[:, None]  # one of either text
    share_BSTT = (10 * unit_BSTX @ unit_BSTX.mT).masked_fill(~across_B1TT, -1e4).softmax(-1)
    apart_BTH = (states_BSTX - share_BSTT @ states_BSTX).abs().transpose(1, 2).flatten(2)
    paired_B1 = (side_BT == 1).any(1, keepdim=True)
    return torch.cat(_means(apart_BTH, side_BT), 1) * paired_B1


def _means(values_BTX: Tensor, side_BT: Tensor) -> tuple[Tensor, Tensor]:
    """Over the tokens of the first text and of the second (B, X)."""
    first, second = (
        (values_BTX * own_BT1).sum(1) / own_BT1.sum(1).clamp(min=1)
        for own_BT1 in ((side_BT == side)[..., None] for side in (0, 1))
    )
    return first, second


def _layers(encoder: Encoder, batch: PackedBatch) -> list[tuple[Block, View]]:
    """Every layer with its view: rows that stand end to end, where the device has a kernel for them, or a mask."""
    device, packs = batch.ends.device, encoder.packs(batch.ends.device)
    real = varlen.PackedRows(batch.ends, batch.longest) if packs else batch.real_BT
    views = encoder.views(real, batch.longest, device, batch.positions_P if packs else None)
    return [(layer, views[layer.sees_all]) for layer in encoder.layers]  # type: ignore[misc, index]


def _layer(layer: Block, hidden_PH: Tensor, batch: PackedBatch, view: View) -> Tensor:
    qkv_P3H = layer.attention.qkv(layer.attention_input(hidden_PH))
    if isinstance(view.seen, varlen.PackedRows):
        return layer.after(hidden_PH, layer.attention.context(qkv_P3H, view))
    qkv_BT3H = _Spread.apply(qkv_P3H, batch)  # type: ignore[no-untyped-call]
    context_BTH = layer.attention.context(qkv_BT3H, view)
    return layer.after(hidden_PH, _Collect.apply(context_BTH, batch))  # type: ignore[no-untyped-call]


class _Spread(torch.autograd.Function):
    """Tokens to the grid. Each cell that counts has one token, so the gradient is a gather; autograd would add up."""

    @staticmethod
    def forward(ctx: Any, values_PX: Tensor, batch: PackedBatch) -> Tensor:
        ctx.cell_P = batch.cell_P
        return values_PX.index_select(0, batch.token_C).view(len(batch), -1, values_PX.shape[1])

    @staticmethod
    def backward(ctx: Any, grad_BTX: Tensor) -> tuple[Tensor, None]:
        return grad_BTX.flatten(0, 1).index_select(0, ctx.cell_P), None


class _Collect(torch.autograd.Function):
    """The grid back to tokens; empty cells have no gradient, and so give none to the keys and values of their row."""

    @staticmethod
    def forward(ctx: Any, values_BTX: Tensor, batch: PackedBatch) -> Tensor:
        ctx.cell_P, ctx.shape = batch.cell_P, values_BTX.shape
        return values_BTX.flatten(0, 1).index_select(0, batch.cell_P)

    @staticmethod
    def backward(ctx: Any, grad_PX: Tensor) -> tuple[Tensor, None]:
        rows, longest, width = ctx.shape
        grid_CX = grad_PX.new_zeros(rows * longest, width).index_copy_(0, ctx.cell_P, grad_PX)
        return grid_CX.view(rows, longest, width), None
