"""The recorder of GPUs, as far as a machine without one can see it."""

import pytest
import torch

from electra.optim.recording import CudaRecorder


@pytest.mark.parametrize(("device", "expected"), [("cuda:1", [torch.device("cuda:1")]), ("cuda", [])])
def test_a_recorder_works_on_the_device_that_was_named_else_on_the_current_one(monkeypatch, device, expected):
    chosen = []

    def set_device(device):
        assert device.index is not None, "torch refuses a GPU without its number"
        chosen.append(device)

    monkeypatch.setattr(torch.cuda, "set_device", set_device)
    for name in ("synchronize", "Stream", "graph_pool_handle"):
        monkeypatch.setattr(torch.cuda, name, lambda: None)
    monkeypatch.setattr(torch.cuda, "set_stream", lambda stream: None)
    CudaRecorder(torch.device(device))
    assert chosen == expected
