"""The optimizer against the published formulas in float64."""

import pytest
import torch
from torch import nn

from electra.optim.adamw import build_optimizer, set_learning_rate

OTHERS = {
    "beta1": 0.8,
    "beta2": 0.9,
    "eps": 0.1,
    "bias_correction": True,
    "scale": lambda name: 4.0 if name == "norm.weight" else 1.0,
}


@pytest.mark.parametrize(
    "beta1, beta2, eps, given, rate_on_device",
    [
        (0.9, 0.999, 1e-6, {}, False),
        (0.8, 0.9, 0.1, OTHERS, True),  # as on a GPU, for a captured update
    ],
)
def test_adamw_follows_the_formula_and_decays_no_norm(beta1, beta2, eps, given, rate_on_device):
    torch.manual_seed(0)
    table = nn.Parameter(torch.randn(4, 3))
    norm = nn.Parameter(torch.randn(4))
    optimizer = build_optimizer(
        [("word.weight", table), ("norm.weight", norm)],
        weight_decay=0.01,
        **given,
    )
    if rate_on_device:
        for group in optimizer.param_groups:
            group["lr"] = torch.zeros(())
    p = [parameter.detach().double() for parameter in (table, norm)]
    norm_share = 4 if given else 1
    m = [0.0, 0.0]
    v = [0.0, 0.0]
    for step in range(1, 30):
        rate = 1e-2 / step
        set_learning_rate(optimizer, rate)
        table.grad = torch.randn(4, 3)
        norm.grad = torch.randn(4)
        optimizer.step()
        for i, (g, share, decay) in enumerate([(table.grad, 1, 0.01), (norm.grad, norm_share, 0)]):
            g = g.double()
            m[i] = beta1 * m[i] + (1 - beta1) * g
            v[i] = beta2 * v[i] + (1 - beta2) * g * g
            first = m[i] / (1 - beta1**step if given else 1)
            second = v[i] / (1 - beta2**step if given else 1)
            p[i] = p[i] - share * rate * (first / (second**0.5 + eps) + decay * p[i])
    # 29 fp32 updates of size 1e-2 round to about 1e-7 each
    torch.testing.assert_close(table.double(), p[0], atol=2e-6, rtol=1e-5)
    torch.testing.assert_close(norm.double(), p[1], atol=2e-6, rtol=1e-5)
