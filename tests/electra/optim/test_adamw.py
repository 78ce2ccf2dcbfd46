"""The optimizer against the published formulas in float64."""

import pytest
import torch
from torch import nn

from electra.optim.adamw import build_optimizer, set_learning_rate
from electra.optim.schedule import learning_rate


@pytest.mark.parametrize(
    "correction, others, beta1, beta2, eps",
    [
        (False, {}, 0.9, 0.999, 1e-6),
        (True, {"beta1": 0.8, "beta2": 0.9, "eps": 0.1}, 0.8, 0.9, 0.1),
    ],
)
def test_adamw_follows_the_formula_and_decays_no_norm(correction, others, beta1, beta2, eps):
    torch.manual_seed(0)
    table = nn.Parameter(torch.randn(4, 3))
    norm = nn.Parameter(torch.randn(4))
    parameters = [("word.weight", table), ("norm.weight", norm)]
    others = {"weight_decay": 0.01, "bias_correction": correction, **others}
    optimizer = build_optimizer(parameters, **others)
    p = [parameter.detach().double() for parameter in (table, norm)]
    m = [torch.zeros_like(x) for x in p]
    v = [torch.zeros_like(x) for x in p]
    for step in range(1, 30):
        rate = learning_rate(step, peak=1e-2, warmup=5, steps=40)
        gradients = [torch.randn(4, 3), torch.randn(4)]
        table.grad, norm.grad = (g.clone() for g in gradients)
        set_learning_rate(optimizer, rate)
        optimizer.step()
        for i, (g, decay) in enumerate(zip(gradients, (0.01, 0.0), strict=True)):
            g = g.double()
            m[i] = beta1 * m[i] + (1 - beta1) * g
            v[i] = beta2 * v[i] + (1 - beta2) * g * g
            first = m[i] / (1 - beta1**step if correction else 1)
            second = v[i] / (1 - beta2**step if correction else 1)
            p[i] = p[i] - rate * (first / (second.sqrt() + eps) + decay * p[i])
    # 29 fp32 updates of size 1e-2 round to about 1e-7 each
    torch.testing.assert_close(table.detach().double(), p[0], atol=2e-6, rtol=1e-5)
    torch.testing.assert_close(norm.detach().double(), p[1], atol=2e-6, rtol=1e-5)


def test_what_is_not_finite_changes_nothing():
    weight = nn.Parameter(torch.ones(3, 3))
    optimizer = build_optimizer([("weight", weight)], weight_decay=0.01)
    vars(optimizer)["found_inf"] = torch.ones(())
    weight.grad = torch.full((3, 3), torch.nan)
    before = {name: value.clone() for name, value in optimizer.state[weight].items()}
    set_learning_rate(optimizer, 1e-2)
    optimizer.step()
    assert torch.equal(weight, torch.ones(3, 3))
    assert all(torch.equal(optimizer.state[weight][name], value) for name, value in before.items())


@pytest.mark.parametrize("rate_on_device", [False, True])
def test_a_share_of_the_rate_moves_its_parameters_by_as_much_more(rate_on_device):
    scaled = nn.Parameter(torch.ones(3, 2))
    plain = nn.Parameter(torch.ones(3, 2))
    optimizer = build_optimizer(
        [("scaled", scaled), ("plain", plain)],
        weight_decay=0.0,
        scale=lambda name: 4.0 if name == "scaled" else 1.0,
    )
    if rate_on_device:  # as on a GPU, where a captured update reads the rate
        for group in optimizer.param_groups:
            group["lr"] = torch.zeros(())
    scaled.grad = torch.ones(3, 2)
    plain.grad = torch.ones(3, 2)
    set_learning_rate(optimizer, 1e-3)
    optimizer.step()
    assert not torch.equal(plain, torch.ones(3, 2))
    torch.testing.assert_close(1 - scaled, 4 * (1 - plain), rtol=1e-4, atol=0)
