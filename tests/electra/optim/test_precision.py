"""Which number format is chosen: the one asked for, else by the device."""

import pytest
import torch

from electra.optim import precision


def test_cpus_take_bf16_only_by_choice():
    chosen = [precision.choose(kind, torch.device("cpu")) for kind in ("auto", "fp32", "bf16")]
    assert chosen == ["fp32", "fp32", "bf16"]


@pytest.mark.parametrize("multiplies, expected", [(True, "bf16"), (False, "fp32")])
def test_gpus_take_bf16_if_they_multiply_it(monkeypatch, multiplies, expected):
    """Before Ampere torch has bf16 all the same, emulated: slower than fp32."""

    def is_supported(including_emulation=True):
        return multiplies or including_emulation

    monkeypatch.setattr(torch.cuda, "is_bf16_supported", is_supported)
    chosen = [precision.choose(kind, torch.device("cuda")) for kind in ("auto", "fp32")]
    assert chosen == [expected, "fp32"]
