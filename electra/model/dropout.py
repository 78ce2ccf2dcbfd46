"""Dropout that is cheap on CPUs too.

torch draws CPU dropout masks one Bernoulli number at a time, which alone is a sixth of a pre-training step. Four 16-bit
numbers are cut here from each 64-bit draw of the same generator; the drop rate is exact to 1/65536.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

_LEVELS = 1 << 16


def keep_mask(like: Tensor, rate: float) -> Tensor:
    """Boolean mask of the shape of `like`, true with probability 1 - rate, from torch's global CPU generator."""
    count = like.numel()
    draws = torch.empty((count + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
    threshold = round(rate * _LEVELS) - _LEVELS // 2
    return (draws.view(torch.int16)[:count] >= threshold).view(like.shape)


class _Drop(torch.autograd.Function):
    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, hidden: Tensor, rate: float) -> Tensor:
        keep = keep_mask(hidden, rate)
        ctx.save_for_backward(keep)
        ctx.scale = 1 / (1 - rate)  # type: ignore[attr-defined]
        return hidden.mul(keep).mul_(ctx.scale)  # type: ignore[attr-defined]

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, grad: Tensor) -> tuple[Tensor, None]:
        (keep,) = ctx.saved_tensors  # type: ignore[attr-defined]
        return grad.mul(keep).mul_(ctx.scale), None  # type: ignore[attr-defined]


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
