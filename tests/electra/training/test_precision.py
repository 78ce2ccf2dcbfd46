"""Which number format is chosen, and that one slow moment of the machine does not decide it."""

import pytest
import torch

from electra.training import precision

CPU = torch.device("cpu")


@pytest.mark.parametrize(("half", "full", "expected"), [(3.2, 1.0, "bf16"), (1.2, 1.0, "fp32"), (0.3, 1.0, "fp32")])
def test_auto_takes_half_the_bits_only_where_they_pay(monkeypatch, half, full, expected):
    monkeypatch.setattr(precision, "_rate", lambda dtype: half if dtype is torch.bfloat16 else full)
    assert precision.choose("auto", CPU) == expected


def test_a_machine_that_is_busy_for_most_of_the_probe_changes_nothing(monkeypatch):
    turns = iter([0.2, 0.9, 0.5, 0.1, 3.2, 1.0, 0.4, 0.3, 0.6, 0.2])  # both formats are at full speed once
    monkeypatch.setattr(precision, "_rate", lambda dtype: next(turns))
    assert precision.choose("auto", CPU) == "bf16"


def test_what_is_asked_for_is_taken_without_a_probe(monkeypatch):
    monkeypatch.setattr(precision, "_rate", lambda dtype: pytest.fail("a probe"))
    assert precision.choose("fp32", CPU) == "fp32" and precision.choose("bf16", CPU) == "bf16"


@pytest.mark.parametrize(("half", "expected"), [(True, "bf16"), (False, "fp32")])
def test_the_default_asks_no_clock(monkeypatch, half, expected):
    monkeypatch.setattr(precision, "_rate", lambda *_: pytest.fail("was timed"))
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: half)
    assert precision.choose("default", CPU) == "fp32"
    assert precision.choose("default", torch.device("cuda")) == expected
