"""Too little memory is one sentence that says what to change, and costs no checkpoint."""

import dataclasses
import errno

import pytest
import torch

from electra.errors import OutOfMemory
from pipelines.config.params import load
from pipelines.runtime.out_of_memory import enough_memory
from tests.conftest import ROOT
from tests.electra.helpers import VOCAB, config

CPU = "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes."  # noqa: E501


@pytest.mark.parametrize(
    "error",
    [torch.OutOfMemoryError("CUDA out of memory."), RuntimeError(CPU), MemoryError(), OSError(errno.ENOMEM, "Cannot")],
)
def test_every_way_to_say_it_is_one_error(error):
    with pytest.raises(OutOfMemory) as told, enough_memory(config(pretrain__accumulate=2), VOCAB):
        raise error
    assert told.value.exit_code == 71 and str(told.value).count("\n") == 0
    assert "slices of 4 rows of 24" in str(told.value)
    assert "set pretrain.accumulate to 4 (now 2), or lower pretrain.batch" in str(told.value)


@pytest.mark.parametrize(
    ("gigabytes", "accumulate", "hint"),
    [
        (24, 1, "accumulate to 4 (now 1), by the budget of a GPU of 24 GB, or"),
        (80, 1, "accumulate to 2 (now 1), by"),  # something else takes the rest
        (24, 4, "accumulate to 8 (now 4), by"),
        (2, 1, "accumulate to 2 (now 1), or lower"),  # nothing fits: no promise
    ],
)
def test_on_a_gpu_the_hint_is_computed_from_its_memory(gigabytes, accumulate, hint, monkeypatch):
    properties = type("Properties", (), {"total_memory": int(gigabytes * 1e9)})
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: properties)
    base = load(ROOT / "params.yaml").models["base"].electra()
    base = dataclasses.replace(base, pretrain=dataclasses.replace(base.pretrain, accumulate=accumulate))
    with pytest.raises(OutOfMemory) as told, enough_memory(base, 30_522):
        raise torch.OutOfMemoryError("CUDA out of memory.")
    assert hint in str(told.value)


@pytest.mark.parametrize("error", [RuntimeError("shapes differ"), OSError(errno.ENOENT, "no file"), KeyError("x")])
def test_other_errors_stay_what_they_are(error):
    with pytest.raises(type(error)) as told, enough_memory(config(), VOCAB):
        raise error
    assert told.value is error
