"""Self-attention with dropout on its probabilities, for CPUs.

    O = drop(softmax(Q Kᵀ / √D)) V

torch's fused CPU kernel has no dropout; the way around it keeps scores, probabilities and masks of the whole batch.
Here a few rows at a time pass through the cache, and one number an element is kept for the backward pass: the
probability, negative where it was dropped.

Shapes: B rows, R rows of one pass, T positions, A heads, D head size, P = R · A.
"""

import math

import torch
from torch import Tensor

from electra.nn.dropout import drop_mask

_ELEMENTS = 1 << 18  # probabilities of one pass: they and their neighbours fit in a core's cache


def _passes(rows: int, each: int) -> list[slice]:
    size = max(1, _ELEMENTS // each)
    return [slice(start, min(rows, start + size)) for start in range(0, rows, size)]


def _heads(qkv_RT3AD: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Query, key and value of some rows, (P, T, D) each."""
    query, key, value = qkv_RT3AD.permute(2, 0, 3, 1, 4).flatten(1, 2)
    return query, key, value


def _scaled(left: Tensor, right: Tensor, size: int) -> Tensor:
    """left · right / √D of each head."""
    return torch.baddbmm(left.new_zeros(()), left, right, beta=0, alpha=1 / math.sqrt(size))


class _Attend(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: torch.autograd.function.FunctionCtx, qkv_BT3AD: Tensor, mask: Tensor | None, rate: float
    ) -> Tensor:
        rows, length, _, heads, size = qkv_BT3AD.shape
        context_BTAD = torch.empty(rows, length, heads, size, dtype=qkv_BT3AD.dtype)
        signed_BATT = torch.empty(rows, heads, length, length, dtype=qkv_BT3AD.dtype)
        with torch.autocast("cpu", enabled=False):  # softmax is fp32 inside, whatever it reads and writes
            for part in _passes(rows, heads * length * length):
                query, key, value = _heads(qkv_BT3AD[part])
                scores = _scaled(query, key.mT, size)
                p_RATT = scores.view(-1, heads, length, length)
                if mask is not None:
                    p_RATT.masked_fill_(~mask[part], float("-inf"))
                p_RATT = p_RATT.softmax(-1)
                signed_RATT = signed_BATT[part]
                torch.addcmul(p_RATT, p_RATT, drop_mask(p_RATT, rate), value=-2, out=signed_RATT)
                context = torch.bmm(signed_RATT.flatten(0, 1).relu(), value).mul_(1 / (1 - rate))
                context_BTAD[part] = context.view(-1, heads, length, size).transpose(1, 2)
        ctx.save_for_backward(qkv_BT3AD, signed_BATT)
        ctx.rate = rate  # type: ignore[attr-defined]
        return context_BTAD.flatten(2)

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, grad_BTH: Tensor) -> tuple[Tensor | None, ...]:
        qkv_BT3AD, signed_BATT = ctx.saved_tensors  # type: ignore[attr-defined]
        rows, length, _, heads, size = qkv_BT3AD.shape
        grad_BTAD = grad_BTH.reshape(rows, length, heads, size)
        grads_BT3AD = torch.empty_like(qkv_BT3AD)
        for part in _passes(rows, heads * length * length):
            query, key, value = _heads(qkv_BT3AD[part])
            signed = signed_BATT[part].flatten(0, 1)
            kept = signed.relu()
            grad = grad_BTAD[part].transpose(1, 2).flatten(0, 1) * (1 / (1 - ctx.rate))  # type: ignore[attr-defined]
            grad_p = torch.ops.aten.threshold_backward(torch.bmm(grad, value.mT), kept, 0)
            grad_scores = torch._softmax_backward_data(grad_p, signed.abs(), -1, grad_p.dtype)
            grads = (_scaled(grad_scores, key, size), _scaled(grad_scores.mT, query, size), torch.bmm(kept.mT, grad))
            for kind, grad_X in enumerate(grads):
                grads_BT3AD[part, :, kind] = grad_X.view(-1, heads, length, size).transpose(1, 2)
        return grads_BT3AD, None, None


def attend(qkv_BT3AD: Tensor, mask: Tensor | None, rate: float) -> Tensor:
    """Context (B, T, A · D) of stacked query, key and value; `mask` (B, 1, 1, T) is true where a key may be seen."""
    return _Attend.apply(qkv_BT3AD, mask, rate)  # type: ignore[no-any-return, no-untyped-call]
