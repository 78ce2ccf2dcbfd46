"""Dropout that is cheap on CPUs too.

torch draws CPU dropout masks one Bernoulli number at a time, which alone is a sixth of a pre-training step. Four 16-bit
numbers are cut here from each 64-bit draw of the same generator; the drop rate is exact to 1/65536.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

_LEVELS = 1 << 16


def keep_mask(like: Tensor, rate: float) -> Tensor:
    """Mask of the shape of `like`, 1 with probability 1 - rate and else 0, from torch's global CPU generator.

    Of the type of `like`: a boolean one would be converted at each product, which takes longer than the product.
    """
    count = like.numel()
    draws = torch.empty((count + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
    threshold = round(rate * _LEVELS) - _LEVELS // 2
    return torch.ge(draws.view(torch.int16)[:count], threshold, out=torch.empty(count, dtype=like.dtype)).view(
        like.shape
    )


class _Drop(torch.autograd.Function):
    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, hidden: Tensor, rate: float) -> Tensor:
        scaled = keep_mask(hidden, rate).mul_(1 / (1 - rate))
        ctx.save_for_backward(scaled)
        return hidden * scaled

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, grad: Tensor) -> tuple[Tensor, None]:
        (scaled,) = ctx.saved_tensors  # type: ignore[attr-defined]
        return grad * scaled, None


def dropout(hidden: Tensor, rate: float, training: bool) -> Tensor:
    """Zero each element with probability `rate` in training and scale the rest by 1 / (1 - rate)."""
    if not training or rate == 0:
        return hidden
    if hidden.device.type == "cpu":
        return _Drop.apply(hidden, rate)  # type: ignore[no-any-return, no-untyped-call]
    return F.dropout(hidden, rate)


class Dropout(nn.Module):
    """Module form of `dropout`."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, hidden: Tensor) -> Tensor:
        """Same shape out as in."""
        return dropout(hidden, self.rate, self.training)
