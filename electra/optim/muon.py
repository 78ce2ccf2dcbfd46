"""Muon (Jordan et al., 2024) for the matrices of the layers, AdamW for all else.

    b ← μ b + (1-μ) g        u = (1-μ) g + μ b        p ← p - lr · (s · orthogonal(u) + λ p)

`orthogonal` brings all singular values near 1: five Newton-Schulz steps, x ← a x + (b A + c A²) x with A = x xᵀ, begun
at u / |u|. s = 0.2 √max(rows, columns) gives an update the size of AdamW's, so rates and decay carry over (Liu et al.,
2025, Muon is scalable for LLM training). Query, key and value are three matrices, though they lie in one.

On GPUs the products are in bf16, those of one shape batched; on CPUs in fp32.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from electra.optim.adamw import AdamW, Named, grouped

_A, _B, _C = 3.4445, -4.7750, 2.0315
_STEPS = 5
_SIZE = 0.2  # of AdamW's update, root of the mean square


class Muon(AdamW):
    """Both optimizers over one list of groups; a matrix has the one state `momentum`."""

    def __init__(
        self, matrices: list[dict[str, Any]], rest: list[dict[str, Any]], *, momentum: float, **adam: Any
    ) -> None:
        super().__init__(rest, **adam)
        self.param_groups = [*rest, *matrices]
        self.momentum = momentum
        self.state |= {p: {"momentum": torch.zeros_like(p)} for group in matrices for p in group["params"]}

    def update(self, group: dict[str, Any]) -> None:
        """One update of a group."""
        if "parts" not in group:
            super().update(group)
            return
        updated = [p for p in group["params"] if p.grad is not None]
        looks = []
        for p in updated:
            momentum = self.state[p]["momentum"]
            moved = momentum.lerp(p.grad, 1 - self.momentum)
            looks.append(p.grad.lerp(moved, self.momentum))
            momentum.copy_(self._unless_bad(moved, momentum))
        pieces = [piece for look in looks for piece in look.chunk(group["parts"])]
        turned = iter(orthogonal(pieces, torch.bfloat16 if pieces and pieces[0].is_cuda else torch.float32))
        for p in updated:
            direction = torch.cat([next(turned) for _ in range(group["parts"])])
            size = _SIZE * math.sqrt(max(p.shape[0] // group["parts"], p.shape[1]))
            moved = p * (1 - group["lr"] * group["weight_decay"]) - direction * size * group["lr"]
            p.copy_(self._unless_bad(moved, p))

    def _unless_bad(self, new: Tensor, old: Tensor) -> Tensor:
        return new if self.found_inf is None else torch.where(self.found_inf > 0, old, new)


def orthogonal(matrices: Sequence[Tensor], kind: torch.dtype = torch.float32) -> list[Tensor]:
    """Each matrix with its singular values brought into about 0.7 to 1.2; those of one shape go through together."""
    updates: dict[int, Tensor] = {}
    for shape in {matrix.shape: None for matrix in matrices}:
        numbers = [number for number, matrix in enumerate(matrices) if matrix.shape == shape]
        x = torch.stack([matrices[number] for number in numbers]).to(kind)
        tall = shape[0] > shape[1]
        x = x.mT if tall else x
        x = x / x.norm(dim=(1, 2), keepdim=True).clamp(min=1e-7)
        for _ in range(_STEPS):
            gram = x @ x.mT
            x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=_B, alpha=_C), x, beta=_A)
        x = (x.mT if tall else x).float()
        updates |= dict(zip(numbers, x.unbind(), strict=True))
    return [updates[number] for number in range(len(matrices))]


def build_muon(
    parameters: Named, *, momentum: float, weight_decay: float, scale: Callable[[str], float], **adam: Any
) -> Muon:
    """Muon for the matrices of all layers, AdamW (`adam` are its settings) for tables, heads, norms and biases."""
    kinds: dict[int, list[tuple[str, nn.Parameter]]] = {0: [], 1: [], 3: []}
    for name, parameter in parameters:
        hidden = "layers" in name.split(".") and parameter.ndim == 2
        kinds[(3 if name.endswith("qkv.weight") else 1) if hidden else 0].append((name, parameter))
    matrices = [
        group | {"parts": parts}
        for parts in (1, 3)
        for group in grouped(kinds[parts], weight_decay=weight_decay, scale=scale)
    ]
    return Muon(matrices, grouped(kinds[0], weight_decay=weight_decay, scale=scale), momentum=momentum, **adam)
