"""AdamW as ELECTRA uses it: `torch.optim.AdamW` on its fused kernel.

    m ← β1 m + (1-β1) g        v ← β2 v + (1-β2) g²        p ← p - lr · (m / (√v + ε) + λ p)

ELECTRA has no bias correction (electra: AdamWeightDecayOptimizer). torch divides m by 1-β1^t and v
by 1-β2^t. A step count t that starts at a million makes both exactly 1 in fp32 and fp64, so one
kernel serves both forms. Decay excludes biases, LayerNorms and the vocabulary bias, and includes
the embedding tables.
"""

from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn
from torch.optim import AdamW

NO_CORRECTION = 1_000_000.0  # 0.999^1e6 is below the smallest number of either precision


def build_optimizer(
    parameters: Iterable[tuple[str, nn.Parameter]],
    *,
    weight_decay: float,
    scale: Callable[[str], float] = lambda name: 1.0,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-6,
    bias_correction: bool = False,
) -> AdamW:
    """Return a fused AdamW over named parameters; `scale` maps a name to its share of the learning
    rate.

    Its whole state exists from the start, so a checkpoint can be loaded into it and a CUDA graph
    can hold it. On a GPU the rates are numbers on the device, where a CUDA graph reads them.
    """
    members: dict[tuple[float, bool], list[nn.Parameter]] = {}
    for name, parameter in parameters:
        members.setdefault((scale(name), parameter.ndim > 1), []).append(parameter)
    on_gpu = any(group[0].is_cuda for group in members.values())
    groups = []
    for (share, decayed), group in members.items():
        rate = torch.zeros((), device=group[0].device) if on_gpu else 0.0
        decay = weight_decay if decayed else 0.0
        groups.append({"params": group, "scale": share, "weight_decay": decay, "lr": rate})
    optimizer = AdamW(groups, betas=(beta1, beta2), eps=eps, fused=True, capturable=on_gpu)
    for group in members.values():
        for parameter in group:
            optimizer.state[parameter] = {
                "step": torch.tensor(
                    0.0 if bias_correction else NO_CORRECTION, device=parameter.device
                ),
                "exp_avg": torch.zeros_like(parameter),
                "exp_avg_sq": torch.zeros_like(parameter),
            }
    return optimizer


def set_learning_rate(optimizer: AdamW, rate: float) -> None:
    """Give every group its share of the rate."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate * group["scale"])
        else:
            group["lr"] = rate * group["scale"]


def clip_gradients(parameters: Iterable[nn.Parameter], limit: float) -> Tensor:
    """Scale all gradients so that their global norm is at most `limit`; return the norm before."""
    return nn.utils.clip_grad_norm_(parameters, limit, foreach=True)


def layer_scale(layers: int, decay: float, *, published: bool) -> Callable[[str], float]:
    """Return the layer-wise decay: a function from a parameter's name in a fine-tuned encoder to
    its share of the learning rate.

    Layer i of n (from 0, at the bottom) gets d^(n-i), embeddings and their projection d^(n+1),
    anything else (the head, and layers above the n) 1. The published runs have one power more below
    the head (electra: optimization.py), a left-over of a removed pooler.
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
