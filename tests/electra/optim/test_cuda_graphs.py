"""The recorder of GPUs, as far as a machine without one can see it."""

import contextlib
from types import SimpleNamespace

import pytest
import torch

from electra.optim.cuda_graphs import CudaRecorder


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch):
    for name in ("synchronize", "Stream", "graph_pool_handle", "current_stream"):
        monkeypatch.setattr(torch.cuda, name, lambda: None)
    monkeypatch.setattr(torch.cuda, "set_stream", lambda stream: None)


@pytest.mark.parametrize(("device", "expected"), [("cuda:1", [torch.device("cuda:1")]), ("cuda", [])])
def test_a_recorder_works_on_the_device_that_was_named_else_on_the_current_one(monkeypatch, device, expected):
    chosen = []

    def set_device(device):
        assert device.index is not None, "torch refuses a GPU without its number"
        chosen.append(device)

    monkeypatch.setattr(torch.cuda, "set_device", set_device)
    CudaRecorder(torch.device(device))
    assert chosen == expected


def test_what_other_threads_do_spoils_no_recording(monkeypatch):
    """torch's default forbids it to all of them, NCCL's and the one that writes checkpoints among them."""
    modes = []

    @contextlib.contextmanager
    def graph(graph, *, pool, stream, capture_error_mode="global"):
        modes.append(capture_error_mode)
        yield

    monkeypatch.setattr(torch.cuda, "graph", graph)
    monkeypatch.setattr(torch.cuda, "CUDAGraph", lambda: SimpleNamespace(replay="replay"))
    assert CudaRecorder(torch.device("cuda"))(lambda: "result") == ("replay", "result")
    assert modes == ["thread_local"]
