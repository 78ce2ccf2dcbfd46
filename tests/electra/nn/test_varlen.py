"""Attention by rows: what a mask gives, on shapes that do not depend on lengths; the operator as torch has it."""

import math
from dataclasses import replace

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from electra.nn import varlen
from electra.nn.config import EncoderConfig, ModernConfig
from electra.nn.factory import make_encoder

SIZES = {"hidden": 32, "heads": 2, "ffn": 64, "embedding": 16, "positions": 16, "dropout": 0.0}
CONFIGS = {"bert": EncoderConfig(layers=2, **SIZES), "modern": ModernConfig(kind="modern", layers=4, window=6, **SIZES)}
LENGTHS = torch.tensor([5, 12, 1, 12])


def by_rows(query, key, value, ends_q, ends_k, longest_q, longest_k, *options, **reach):
    """What the operator is for, row by row; it counts neighbours from the ends of both rows."""
    assert ends_q.dtype == ends_k.dtype == torch.int32 and not any(options)
    left, right = reach.get("window_size_left"), reach.get("window_size_right")
    assert left == right
    context = torch.full_like(query, torch.nan)  # a token that no row holds would show
    queries, keys = ends_q.tolist(), ends_k.tolist()
    for at in range(len(queries) - 1):
        rows, seen = slice(*queries[at : at + 2]), slice(*keys[at : at + 2])
        assert rows.stop - rows.start <= longest_q and seen.stop - seen.start <= longest_k
        scores = torch.einsum("qad,kad->aqk", query[rows], key[seen]) / math.sqrt(query.shape[-1])
        if left is not None:
            places = [torch.arange(part.start - part.stop, 0) for part in (rows, seen)]
            far = (places[0][:, None] - places[1]).abs() > left
            scores = scores.masked_fill(far, float("-inf"))
        found = torch.einsum("aqk,kad->qad", scores.softmax(-1), value[seen])
        context = context.index_put((torch.arange(rows.start, rows.stop),), found)
    return (context,)


@pytest.mark.parametrize("kind", CONFIGS)
def test_rows_see_what_a_mask_lets_them_see(kind, monkeypatch):
    torch.manual_seed(0)
    encoder = make_encoder(CONFIGS[kind], 50).eval()
    ids, segments = torch.randint(5, 50, (4, 12)), torch.zeros(4, 12, dtype=torch.long)
    real = torch.arange(12) < LENGTHS[:, None]
    weight = torch.randn(int(real.sum()), 32)
    found = []
    for usable in (False, True):
        monkeypatch.setattr(varlen, "usable", lambda device, size, usable=usable: usable)
        monkeypatch.setattr(torch.ops.aten, "_flash_attention_forward", by_rows if usable else None)
        encoder.zero_grad()
        hidden = encoder(ids, segments, LENGTHS)[real]
        (hidden * weight).sum().backward()
        found.append([hidden.detach(), *(parameter.grad for parameter in encoder.parameters())])
    for masked, rows in zip(*found, strict=True):
        torch.testing.assert_close(rows, masked, rtol=1e-4, atol=1e-5)


class Calls(TorchDispatchMode):
    """The keywords of each call of the attention's operators."""

    def __init__(self):
        super().__init__()
        self.found = {}

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if "_flash_attention" in str(function):
            self.found[str(function)] = kwargs
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("reach", [None, 3])
def test_the_operator_takes_what_it_is_given_forward_and_backward(reach):
    """On torch's device without data: arguments, shapes and the gradient's formula are the real operator's."""
    qkv = torch.empty(48, 3, 2, 16, dtype=torch.bfloat16, device="meta").requires_grad_()
    rows = replace(varlen.padded(LENGTHS.to("meta"), 12), reach=reach)
    with Calls() as calls:
        context = varlen.attend(*qkv.unbind(1), rows, rows, 0.1)
        context.sum().backward()
    assert context.shape == (48, 2, 16) and qkv.grad.shape == qkv.shape
    sides = [[each.get(f"window_size_{side}") for side in ("left", "right")] for each in calls.found.values()]
    assert sides == [[reach, reach]] * 2


@pytest.mark.parametrize(("change", "expected"), [({}, True), ({"autocast": False}, False), ({"flash": False}, False),
                                                  ({"capability": (7, 5)}, False), ({"size": 20}, False),
                                                  ({"size": 256}, False), ({"device": "cpu"}, False)])  # fmt: skip
def test_only_what_has_the_kernel_uses_it(monkeypatch, change, expected):
    cuda = torch.backends.cuda
    monkeypatch.setattr(cuda, "is_flash_attention_available", lambda: True)
    monkeypatch.setattr(cuda, "flash_sdp_enabled", lambda: change.get("flash", True))
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: change.get("capability", (9, 0)))
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda kind: change.get("autocast", True))
    monkeypatch.setattr(torch, "get_autocast_dtype", lambda kind: torch.bfloat16)
    assert varlen.usable(torch.device(change.get("device", "cuda")), change.get("size", 64)) is expected
