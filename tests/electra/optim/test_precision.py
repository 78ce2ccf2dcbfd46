"""Which number format is chosen: the one asked for, else by the device."""

from types import SimpleNamespace

import pytest
import torch

from electra.optim import precision

CPU = torch.device("cpu")


def test_cpus_take_bf16_only_by_choice():
    chosen = [precision.choose(kind, CPU) for kind in ("auto", "fp32", "bf16")]
    assert chosen == ["fp32", "fp32", "bf16"]


@pytest.mark.parametrize("major, expected", [(9, "bf16"), (8, "bf16"), (7, "fp32")])
def test_gpus_take_bf16_if_they_multiply_it(monkeypatch, major, expected):
    """Before Ampere torch has bf16 all the same, emulated: slower than fp32."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(
        torch.cuda, "get_device_properties", lambda device: SimpleNamespace(major=major)
    )
    monkeypatch.setattr(torch.cuda, "_check_bf16_tensor_supported", lambda device: True)
    assert precision.choose("auto", torch.device("cuda")) == expected
