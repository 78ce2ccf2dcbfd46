"""Attention with dropout against the formula, forward and gradient, and what dropout does to a residual."""

import math

import pytest
import torch

from electra.nn import attention
from electra.nn.attention import attend
from electra.nn.dropout import dropout, keep_mask

ROWS, LENGTH, HEADS, SIZE, RATE = 3, 8, 2, 4, 0.25


def plain(qkv, mask, keep):
    query, key, value = qkv.permute(2, 0, 3, 1, 4)
    scores = query @ key.transpose(-2, -1) / math.sqrt(SIZE)
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    context = (scores.softmax(-1) * keep / (1 - RATE)) @ value
    return context.transpose(1, 2).flatten(2)


@pytest.mark.parametrize("one_pass", [False, True])
@pytest.mark.parametrize("padded", [False, True])
def test_attend_follows_the_formula(monkeypatch, padded, one_pass):
    each = HEADS * LENGTH * LENGTH
    monkeypatch.setattr(attention, "_ELEMENTS", each * (ROWS if one_pass else 1))
    generator = torch.Generator().manual_seed(0)
    ours = torch.randn(ROWS, LENGTH, 3, HEADS, SIZE, generator=generator).requires_grad_()
    theirs = ours.detach().double().requires_grad_()
    lengths = torch.tensor([8, 5, 3])
    mask = (torch.arange(LENGTH) < lengths[:, None])[:, None, None] if padded else None
    weight = torch.randn(ROWS, LENGTH, HEADS * SIZE, generator=generator)
    torch.manual_seed(1)
    found = attend(ours, mask, RATE)
    (found * weight).sum().backward()
    torch.manual_seed(1)  # the same draws: a pass asks for a multiple of four numbers
    keep = keep_mask(torch.empty(ROWS, HEADS, LENGTH, LENGTH), RATE)
    expected = plain(theirs, mask, keep)
    (expected * weight).sum().backward()
    torch.testing.assert_close(found, expected.float(), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(ours.grad, theirs.grad.float(), rtol=1e-5, atol=1e-6)


def test_attend_in_bfloat16_is_near_the_exact_one():
    qkv = torch.randn(2, 16, 3, HEADS, SIZE, generator=torch.Generator().manual_seed(2))
    found = []
    for kind in (torch.float32, torch.bfloat16):
        leaf = qkv.to(kind, copy=True).requires_grad_()
        torch.manual_seed(3)
        context = attend(leaf, None, RATE)
        context.square().sum().backward()
        found.append((context.detach().float(), leaf.grad.float()))
    for exact, rounded in zip(*found, strict=True):
        assert (exact - rounded).abs().max() < 0.03 * exact.abs().max()


@pytest.mark.parametrize("kinds", [(torch.float32, torch.float32), (torch.float32, torch.bfloat16)])
def test_dropout_adds_the_residual_and_passes_both_gradients(kinds):
    residual, hidden = (torch.randn(6, 10).to(kind).requires_grad_() for kind in kinds)
    torch.manual_seed(4)
    found = dropout(hidden, 0.5, True, residual)
    torch.manual_seed(4)
    keep = keep_mask(hidden, 0.5)
    torch.testing.assert_close(found, residual + 2 * keep * hidden)
    found.sum().backward()
    assert torch.equal(residual.grad, torch.ones_like(residual)) and torch.equal(hidden.grad, 2 * keep)
    assert torch.equal(dropout(hidden, 0.5, False, residual), residual + hidden)
