"""Too little memory is one sentence that says what to change, and costs no checkpoint."""

import errno

import pytest
import torch

from electra.errors import OutOfMemory
from pipelines.stages.out_of_memory import enough_memory
from tests.support.pretraining import config

CPU = "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes."


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory."),
        RuntimeError(CPU),
        MemoryError(),
        OSError(errno.ENOMEM, "Cannot"),
    ],
)
def test_every_way_to_say_it_is_one_error(error):
    with (
        pytest.raises(OutOfMemory) as caught,
        enough_memory(config(pretrain__accumulate=2).pretrain),
    ):
        raise error
    assert caught.value.exit_code == 71 and str(caught.value).count("\n") == 0
    assert "slices of 4 rows of 24" in str(caught.value)
    assert "raise pretrain.accumulate (now 2) or lower pretrain.batch" in str(caught.value)


@pytest.mark.parametrize("error", [RuntimeError("shapes differ"), OSError(errno.ENOENT, "no file")])
def test_other_errors_stay_what_they_are(error):
    with pytest.raises(type(error)) as caught, enough_memory(config().pretrain):
        raise error
    assert caught.value is error
