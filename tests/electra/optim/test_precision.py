"""Which number format is chosen: the one asked for, else by the device."""

from types import SimpleNamespace

import pytest
import torch

from electra.optim import precision

CPU = torch.device("cpu")


def test_auto_takes_bf16_where_the_processor_multiplies_it(monkeypatch):
    for capabilities, expected in (
        ({"avx512_f": True, "avx512_bf16": True, "amx_bf16": False}, "bf16"),
        ({"avx512_f": True, "avx512_bf16": False, "amx_bf16": True}, "bf16"),
        ({"avx512_f": True, "avx512_bf16": False, "amx_bf16": False}, "fp32"),
        ({"neon": True}, "fp32"),
    ):
        monkeypatch.setattr(torch.cpu, "get_capabilities", lambda found=capabilities: found)
        assert precision.choose("auto", CPU) == expected
        asked = [precision.choose(kind, CPU) for kind in ("fp32", "bf16", "default")]
        assert asked == ["fp32", "bf16", "fp32"]


@pytest.mark.parametrize("asked", ["default", "auto"])
@pytest.mark.parametrize("major, expected", [(9, "bf16"), (8, "bf16"), (7, "fp32")])
def test_gpus_take_bf16_if_they_multiply_it(monkeypatch, asked, major, expected):
    """Before Ampere torch has bf16 all the same, emulated: slower than fp32."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(
        torch.cuda, "get_device_properties", lambda device: SimpleNamespace(major=major)
    )
    monkeypatch.setattr(torch.cuda, "_check_bf16_tensor_supported", lambda device: True)
    assert precision.choose(asked, torch.device("cuda")) == expected
