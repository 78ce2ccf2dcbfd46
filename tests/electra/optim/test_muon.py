"""Muon against torch's own and against its equation in float64."""

import math

import pytest
import torch
from torch import nn
from torch.optim._muon import _zeropower_via_newtonschulz as of_torch

from electra.optim.adamw import build_optimizer, set_rate
from electra.optim.muon import build_muon, orthogonal

ADAM = {"beta1": 0.9, "beta2": 0.98, "eps": 1e-6, "bias_correction": True}


def built(named, **changes):
    settings = {"momentum": 0.95, "weight_decay": 0.01, "scale": lambda name: 1.0, **ADAM, **changes}
    return build_muon([(name, parameter) for name, parameter in named.items()], **settings)


@pytest.mark.parametrize("shape", [(8, 8), (24, 8), (8, 20)])
def test_products_are_those_of_torch(shape):
    torch.manual_seed(0)
    matrices = [torch.randn(shape) for _ in range(3)]
    for ours, matrix in zip(orthogonal(matrices, torch.bfloat16), matrices, strict=True):
        theirs = of_torch(matrix, (3.4445, -4.7750, 2.0315), 5, 1e-7).float()
        assert torch.allclose(ours, theirs, atol=2e-2)
    for ours, matrix in zip(orthogonal(matrices), matrices, strict=True):
        left, _, right = torch.linalg.svd(matrix, full_matrices=False)
        singular = torch.linalg.svdvals(ours)
        assert singular.min() > 0.6 and singular.max() < 1.3
        assert torch.allclose(left.T @ ours @ right.T, torch.diag(torch.diag(left.T @ ours @ right.T)), atol=1e-4)


def test_updates_follow_the_equation_in_float64():
    torch.manual_seed(0)
    weight = nn.Parameter(torch.randn(6, 4))
    optimizer = built({"layers.0.out.weight": weight})
    p, b = weight.detach().double().clone(), torch.zeros(6, 4, dtype=torch.float64)
    for step in range(1, 10):
        weight.grad = torch.randn(6, 4)
        g = weight.grad.double()
        set_rate(optimizer, 1e-2 / step)
        optimizer.step()
        b = 0.95 * b + 0.05 * g
        x = (0.05 * g + 0.95 * b).T
        x = x / x.norm()
        for _ in range(5):
            a = x @ x.T
            x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
        p = p - 1e-2 / step * (0.2 * math.sqrt(6) * x.T + 0.01 * p)
    torch.testing.assert_close(weight.detach().double(), p, atol=5e-6, rtol=1e-5)


def test_query_key_and_value_are_matrices_of_their_own():
    torch.manual_seed(0)
    together = nn.Parameter(torch.randn(12, 4))
    alone = [nn.Parameter(part.clone()) for part in together.detach().chunk(3)]
    one, three = (
        built({"layers.0.attention.qkv.weight": together}),
        built({f"layers.{i}.a": p for i, p in enumerate(alone)}),
    )
    together.grad = torch.randn(12, 4)
    for part, gradient in zip(alone, together.grad.chunk(3), strict=True):
        part.grad = gradient.clone()
    for optimizer in (one, three):
        set_rate(optimizer, 1e-2)
        optimizer.step()
    assert torch.allclose(together, torch.cat(alone), atol=1e-7)


def test_tables_heads_norms_and_biases_are_adamws():
    parts = ("embeddings.word", "head.dense", "layers.0.norm", "layers.0.expand", "layers.1.qkv")
    names = [f"{part}.weight" for part in parts]
    shapes = [(5, 4), (4, 4), (4,), (8, 4), (12, 4)]
    named = {name: nn.Parameter(torch.ones(shape)) for name, shape in zip(names, shapes, strict=True)}
    optimizer = built(named, scale=lambda name: 2.0 if "layers.1" in name else 1.0)
    kinds = {name: set(optimizer.state[parameter]) for name, parameter in named.items()}
    adam = {"step", "exp_avg", "exp_avg_sq"}
    assert kinds == {name: {"momentum"} if name in names[3:] else adam for name in names}
    groups = {id(p): group for group in optimizer.param_groups for p in group["params"]}
    assert [groups[id(p)]["scale"] for p in named.values()] == [1, 1, 1, 1, 2]
    assert [groups[id(p)]["weight_decay"] for p in named.values()] == [0.01, 0.01, 0, 0.01, 0.01]
    table = named[names[0]]
    twin = nn.Parameter(table.detach().clone())
    plain = build_optimizer([("table", twin)], weight_decay=0.01, **ADAM)
    table.grad = torch.arange(20.0).view(5, 4)
    twin.grad = table.grad.clone()
    for each in (optimizer, plain):
        set_rate(each, 1e-2)
        each.step()
    assert torch.equal(table, twin)


def test_what_is_not_finite_changes_nothing():
    weight = nn.Parameter(torch.ones(3, 3))
    optimizer = built({"layers.0.a": weight})
    optimizer.found_inf = torch.ones(())
    weight.grad = torch.full((3, 3), torch.nan)
    set_rate(optimizer, 1e-2)
    optimizer.step()
    assert torch.equal(weight, torch.ones(3, 3)) and not optimizer.state[weight]["momentum"].any()
