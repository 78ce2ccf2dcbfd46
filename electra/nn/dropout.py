"""Dropout that is cheap on CPUs too.

torch draws CPU dropout masks one Bernoulli number at a time, which alone is a sixth of a pre-training step. Four 16-bit
numbers are cut here from each 64-bit draw of the same generator; the drop rate is exact to 1/65536.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

_LEVELS = 1 << 16


def keep_mask(like: Tensor, rate: float) -> Tensor:
    """Mask of the shape of `like`, 1 with probability 1 - rate and else 0, from torch's global CPU generator.

    Of the type of `like`: a boolean one would be converted at each product, which takes longer than the product.
    """
    return _compare(torch.ge, like, rate)


def drop_mask(like: Tensor, rate: float) -> Tensor:
    """1 - `keep_mask`, of the same numbers."""
    return _compare(torch.lt, like, rate)


def _compare(comparison: Callable[..., Tensor], like: Tensor, rate: float) -> Tensor:
    count, threshold = like.numel(), round(rate * _LEVELS) - _LEVELS // 2
    draws = torch.empty((count + 3) // 4, dtype=torch.int64).random_(-(2**63), None).view(torch.int16)[:count]
    return comparison(draws, threshold, out=torch.empty(count, dtype=like.dtype)).view(like.shape)


class _Drop(torch.autograd.Function):
    """`hidden` dropped and scaled, plus `residual` if there is one: one pass each way."""

    @staticmethod
    def forward(
        ctx: torch.autograd.function.FunctionCtx, hidden: Tensor, rate: float, residual: Tensor | None
    ) -> Tensor:
        scaled = keep_mask(hidden, rate).mul_(1 / (1 - rate))
        ctx.save_for_backward(scaled)
        return hidden * scaled if residual is None else torch.addcmul(residual, hidden, scaled)

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, grad: Tensor) -> tuple[Tensor, None, Tensor | None]:
        (scaled,) = ctx.saved_tensors  # type: ignore[attr-defined]
        return (grad * scaled).to(scaled.dtype), None, grad if ctx.needs_input_grad[2] else None  # type: ignore[attr-defined]


def dropout(hidden: Tensor, rate: float, training: bool, residual: Tensor | None = None) -> Tensor:
    """Zero each element with probability `rate` in training, scale the rest by 1 / (1 - rate); add `residual`."""
    if training and rate and hidden.device.type == "cpu":
        return _Drop.apply(hidden, rate, residual)  # type: ignore[no-any-return, no-untyped-call]
    dropped = F.dropout(hidden, rate) if training and rate else hidden
    return dropped if residual is None else residual + dropped


class Dropout(nn.Module):
    """Module form of `dropout`."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, hidden: Tensor, residual: Tensor | None = None) -> Tensor:
        """Same shape out as in; `residual` is added."""
        return dropout(hidden, self.rate, self.training, residual)
