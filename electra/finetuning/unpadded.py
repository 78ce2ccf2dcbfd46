"""The encoder over rows that stand end to end: no product is spent on padding.

Whatever looks at one token at a time (embeddings, projections, norms, feed-forward: nearly all of the work) sees the P
real tokens of a batch and nothing else. Attention alone needs rows: queries, keys and values are laid out as a B × T
grid, and its context is taken back. Hidden states equal the padded encoder's up to the order of additions.

Shapes: B rows, T longest row, P tokens in all, C = B × T cells, H hidden size, D head size.
"""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from electra.finetuning.batches import Batch
from electra.model.dropout import dropout, keep_mask
from electra.model.encoder import Encoder, Layer


def hidden(encoder: Encoder, batch: Batch) -> Tensor:
    """The last hidden state of every token (P, H)."""
    hidden_PH = _embed(encoder, batch)
    for layer in encoder.layers:
        hidden_PH = _layer(layer, hidden_PH, batch)
    return hidden_PH


def first_hidden(encoder: Encoder, batch: Batch) -> Tensor:
    """The last hidden state of each row's first token alone (B, H): all that a [CLS] head reads.

    The last layer then asks one query of all keys, and its feed-forward sees one position: of four layers, a fifth of
    the work is spared.
    """
    hidden_PH = _embed(encoder, batch)
    *lower, last = encoder.layers
    assert isinstance(last, Layer)
    for layer in lower:
        hidden_PH = _layer(layer, hidden_PH, batch)
    attention = last.attention
    size = hidden_PH.shape[1]
    weight, bias = attention.qkv.weight, attention.qkv.bias
    first_BH = hidden_PH.index_select(0, batch.first_B)
    heads = (attention.heads, size // attention.heads)
    query = F.linear(first_BH, weight[:size], bias[:size]).view(len(batch), 1, *heads).transpose(1, 2)
    both_C = F.linear(hidden_PH, weight[size:], bias[size:]).index_select(0, batch.token_C)
    key, value = both_C.view(len(batch), -1, 2, *heads).permute(2, 0, 3, 1, 4)
    scores = (query @ key.transpose(-2, -1)) / math.sqrt(heads[1])
    if batch.real_BT is not None:
        scores = scores.masked_fill(~batch.real_BT[:, None, None], float("-inf"))
    context = dropout(scores.softmax(-1), attention.dropout, encoder.training) @ value
    return _after(last, first_BH, context.reshape(len(batch), size))


def _embed(encoder: Encoder, batch: Batch) -> Tensor:
    block = encoder.embeddings
    word_VE, position_PE = block.tables()
    embedded = F.embedding(batch.ids_P, word_VE) + block.token_type(batch.segments_P)
    embedded = block.norm(embedded + F.embedding(batch.positions_P, position_PE))
    hidden_PH: Tensor = encoder.project(dropout(embedded, block.dropout, block.training))
    return hidden_PH


def _layer(layer: Any, hidden_PH: Tensor, batch: Batch) -> Tensor:
    attention = layer.attention
    rate = attention.dropout if layer.training else 0.0
    context_PH: Tensor = _Attend.apply(attention.qkv(hidden_PH), batch, attention.heads, rate)  # type: ignore[no-untyped-call]
    return _after(layer, hidden_PH, context_PH)


def _after(layer: Layer, hidden_PH: Tensor, context_PH: Tensor) -> Tensor:
    hidden_PH = layer.attention_norm(hidden_PH + layer.drop(layer.attention.out(context_PH)))
    ffn_PH = layer.contract(F.gelu(layer.expand(hidden_PH)))
    result_PH: Tensor = layer.ffn_norm(hidden_PH + layer.drop(ffn_PH))
    return result_PH


class _Attend(torch.autograd.Function):
    """softmax(q kᵀ / √D) v within each row, from and to tokens end to end.

    One node with a gradient written out, since autograd would add up the copies into and out of the grid where each
    cell has exactly one token.
    """

    @staticmethod
    def forward(ctx: Any, qkv_P: Tensor, batch: Batch, heads: int, rate: float) -> Tensor:
        query, key, value = _split(qkv_P.index_select(0, batch.token_C), len(batch), heads)
        scale = 1 / math.sqrt(query.shape[-1])
        scores = (query * scale) @ key.transpose(-2, -1)
        if batch.real_BT is not None:
            scores.masked_fill_(~batch.real_BT[:, None, None], float("-inf"))
        weights = scores.softmax(-1)
        kept = dropped = None
        if rate:
            kept = (
                keep_mask(weights, rate).mul_(1 / (1 - rate))
                if weights.device.type == "cpu"
                else F.dropout(torch.ones_like(weights), rate)
            )
            dropped = weights * kept
        context = (weights if dropped is None else dropped) @ value
        ctx.save_for_backward(query, key, value, weights, kept)
        ctx.batch, ctx.scale = batch, scale
        return context.transpose(1, 2).reshape(len(batch.token_C), -1).index_select(0, batch.cell_P)

    @staticmethod
    def backward(ctx: Any, grad_PH: Tensor) -> tuple[Tensor, None, None, None]:
        query, key, value, weights, kept = ctx.saved_tensors
        batch: Batch = ctx.batch
        rows, heads, longest, size = query.shape
        grad_CH = grad_PH.new_zeros(rows * longest, heads * size).index_copy_(0, batch.cell_P, grad_PH)
        grad = grad_CH.view(rows, longest, heads, size).transpose(1, 2)
        grad_weights = grad @ value.transpose(-2, -1)
        if kept is not None:
            grad_weights.mul_(kept)
        # gradient of a softmax: w (g - Σ w g)
        grad_scores = torch._softmax_backward_data(grad_weights, weights, -1, weights.dtype).mul_(ctx.scale)
        grads = grad.new_empty(rows, longest, 3, heads, size)
        grads_3 = grads.permute(2, 0, 3, 1, 4)
        grads_3[0] = grad_scores @ key
        grads_3[1] = grad_scores.transpose(-2, -1) @ query
        grads_3[2] = (weights if kept is None else weights * kept).transpose(-2, -1) @ grad
        return grads.view(rows * longest, -1).index_select(0, batch.cell_P), None, None, None


def _split(qkv_C: Tensor, rows: int, heads: int) -> tuple[Tensor, Tensor, Tensor]:
    query, key, value = qkv_C.view(rows, -1, 3, heads, qkv_C.shape[1] // (3 * heads)).permute(2, 0, 3, 1, 4)
    return query, key, value
