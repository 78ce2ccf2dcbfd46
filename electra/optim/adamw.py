"""AdamW as ELECTRA uses it, on torch's fused kernel.

    m ← β1 m + (1-β1) g        v ← β2 v + (1-β2) g²        p ← p - lr · (m / (√v + ε) + λ p)

No bias correction (electra: AdamWeightDecayOptimizer), which makes early updates larger by (1-β1^t)/√(1-β2^t). torch's
kernel divides by 1-β^t; a step count that starts at a million makes both factors exactly 1 in fp32 and fp64, so the one
fused kernel serves both forms. Decay excludes biases, LayerNorms and the vocabulary bias, not the embedding tables.

The kernel is called directly: building a `torch.optim.AdamW` imports torch's compiler, which takes a process some
five seconds and gives the same bits.
"""

from collections.abc import Callable, Container, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

_NO_CORRECTION = 1_000_000.0  # 0.999^1e6 is below the smallest number of either precision

Named = Iterable[tuple[str, nn.Parameter]]


class AdamW:
    """torch's fused AdamW over groups `{params, scale, weight_decay, lr}`; state as in torch.optim."""

    def __init__(
        self,
        groups: list[dict[str, Any]],
        *,
        beta1: float = 0.9,
        beta2: float = 0.999,
        eps: float = 1e-6,
        bias_correction: bool = False,
    ) -> None:
        self.param_groups, first_step = groups, 0.0 if bias_correction else _NO_CORRECTION
        self.beta1, self.beta2, self.eps = beta1, beta2, eps
        self.held: tuple[Tensor, Tensor] | None = None  # on the device: the groups' shares of the rate, their rates
        self.found_inf: Tensor | None = None  # a scalar on the device: while it is 1, steps change nothing
        self.state: dict[Tensor, dict[str, Tensor]] = {
            parameter: {
                "step": torch.tensor(first_step, device=parameter.device),
                "exp_avg": torch.zeros_like(parameter),
                "exp_avg_sq": torch.zeros_like(parameter),
            }
            for group in groups
            for parameter in group["params"]
        }

    def hold_rates(self, device: torch.device) -> None:
        """Keep the groups' rates as numbers on the device, where a recorded step reads them."""
        groups = self.param_groups
        shares_G = torch.tensor([group["scale"] for group in groups], device=device)
        rates_G = torch.tensor([float(group["lr"]) for group in groups], device=device)
        for group, rate in zip(groups, rates_G.unbind(), strict=True):
            group["lr"] = rate
        self.held = shares_G, rates_G

    @torch.no_grad()
    def step(self) -> None:
        """One update of every parameter that has a gradient."""
        for group in self.param_groups:
            self.update(group)

    def update(self, group: dict[str, Any]) -> None:
        """One update of a group."""
        updated = [parameter for parameter in group["params"] if parameter.grad is not None]
        states = [self.state[parameter] for parameter in updated]
        steps = [state["step"] for state in states]
        if updated:
            torch._foreach_add_(steps, 1)
            torch._fused_adamw_(
                updated,
                [parameter.grad for parameter in updated],
                [state["exp_avg"] for state in states],
                [state["exp_avg_sq"] for state in states],
                [],
                steps,
                lr=group["lr"],
                beta1=self.beta1,
                beta2=self.beta2,
                weight_decay=group["weight_decay"],
                eps=self.eps,
                amsgrad=False,
                maximize=False,
                found_inf=self.found_inf,
            )

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop all gradients."""
        assert set_to_none, "gradients are dropped, never zeroed"
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.grad = None


def grouped(parameters: Named, *, weight_decay: float, scale: Callable[[str], float]) -> list[dict[str, Any]]:
    """Parameters grouped by their share of the rate; those of one dimension or less (biases, norms) are not decayed."""
    groups: dict[tuple[float, bool], list[nn.Parameter]] = {}
    for name, parameter in parameters:
        groups.setdefault((scale(name), parameter.ndim > 1), []).append(parameter)
    return [
        {"params": members, "scale": share, "weight_decay": weight_decay if decayed else 0.0, "lr": 0.0}
        for (share, decayed), members in groups.items()
    ]


def build_optimizer(
    parameters: Named, *, weight_decay: float, scale: Callable[[str], float] = lambda name: 1.0, **adam: Any
) -> AdamW:
    """Fused AdamW (`adam`: its settings) over named parameters; `scale` maps a name to its share of the rate."""
    return AdamW(grouped(parameters, weight_decay=weight_decay, scale=scale), **adam)


def set_rate(optimizer: AdamW, rate: float) -> None:
    """Give every group its share of the rate."""
    if optimizer.held is not None:
        shares_G, rates_G = optimizer.held
        torch.mul(shares_G, rate, out=rates_G)
        return
    for group in optimizer.param_groups:
        group["lr"] = rate * group["scale"]


def clip_gradients(parameters: Iterable[nn.Parameter], limit: float) -> Tensor:
    """Scale all gradients so that their global norm is at most `limit`; returns the norm before."""
    return nn.utils.clip_grad_norm_(parameters, limit, foreach=True)


def layer_scale(layers: int, decay: float, *, published: bool = True) -> Callable[[str], float]:
    """Layer-wise learning-rate decay: share of the rate for a parameter name of a fine-tuned encoder.

    Layer i of n (from 0, at the bottom) gets d^(n-i), embeddings and their projection d^(n+1), anything else (the head,
    and layers above the n) 1. The published runs have one power more below the head (electra: optimization.py), a
    left-over of a removed pooler.
    """
    extra = 1 if published else 0

    def scale(name: str) -> float:
        parts = name.split(".")
        if "layers" in parts:
            below = layers - int(parts[parts.index("layers") + 1])
            return decay ** (below + extra) if below > 0 else 1.0
        if "embeddings" in parts or "project" in parts:
            return decay ** (layers + 1 + extra)
        return 1.0

    return scale


def network_scale(parameters: Named, own: Container[Tensor], rate: float) -> Callable[[str], float]:
    """Share of the rate for a pre-training's parameter: `rate` for those in `own` (the generator's), else 1."""
    names = {name for name, parameter in parameters if parameter in own}
    return lambda name: rate if name in names else 1.0


def state_tensors(optimizer: AdamW, names: Mapping[Tensor, str]) -> dict[str, Tensor]:
    """Optimizer state as named tensors, for a checkpoint."""
    return {f"{key}.{names[p]}": value for p, state in optimizer.state.items() for key, value in state.items()}
