"""Each process gets the GPU that is meant for it, and a driver that torch cannot use is said. No
GPU is needed.
"""

import multiprocessing
import os
from typing import Any

import pytest
import torch

from electra import devices
from electra.errors import BadDevice


@pytest.fixture
def gpus(monkeypatch):
    """Four GPUs, of which number 0 is the current one."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)

    def set_device(number):
        monkeypatch.setattr(torch.cuda, "current_device", lambda: number)

    set_device(0)
    monkeypatch.setattr(torch.cuda, "set_device", set_device)


def test_torchrun_names_the_gpu(gpus, monkeypatch):
    monkeypatch.setenv("LOCAL_RANK", "3")
    # left over in the environment: there was no launch
    assert devices.default_device() == torch.device("cuda", 0)
    launch = {"WORLD_SIZE": "8", "RANK": "7", "MASTER_ADDR": "here", "MASTER_PORT": "1"}
    for name, value in launch.items():
        monkeypatch.setenv(name, value)
    assert devices.default_device() == torch.device("cuda", 3)
    for local_rank in ("4", "", "9" * 5000):
        monkeypatch.setenv("LOCAL_RANK", local_rank)
        with pytest.raises(BadDevice, match="torch sees 4 GPUs on this machine; start 4 processes"):
            devices.default_device()


@pytest.mark.parametrize("worker, gpu", [((), 0), ((1,), 0), ((4,), 3), ((5,), 0)])
def test_a_worker_trains_on_the_gpu_that_it_took(gpus, monkeypatch, worker, gpu):
    monkeypatch.setattr(multiprocessing.current_process(), "_identity", worker)
    devices.use_own_gpu()
    assert devices.default_device() == torch.device("cuda", gpu)


def test_a_driver_that_torch_cannot_use_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(devices, "DRIVER", tmp_path / "version")
    monkeypatch.setattr(devices, "NODES", tmp_path)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert devices.default_device() == torch.device("cpu")  # no driver: a machine without a GPU
    (tmp_path / "version").write_text("Kernel Module  535.1\nGCC version: 12\n")
    (tmp_path / "nvidiactl").touch()
    # a container that was given none of its machine's GPUs
    assert devices.default_device() == torch.device("cpu")
    (tmp_path / "nvidia0").touch()
    sentence = (
        r"CUDA 13.0\) cannot use it with the driver installed \(Kernel Module  535.1\); update"
    )
    with pytest.raises(BadDevice, match=sentence):
        devices.default_device()
    for hidden in ("", "-1"):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", hidden)
        assert devices.default_device() == torch.device("cpu")


def test_the_drivers_version_is_read_from_either_of_its_forms(tmp_path, monkeypatch):
    monkeypatch.setattr(devices, "DRIVER", tmp_path / "version")
    assert devices.driver_version() == ""
    for text, expected in (
        ("NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12\nGCC 12.2.0", "535.183.01"),
        ("NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release", "580.65.06"),
        ("something else", ""),
    ):
        (tmp_path / "version").write_text(text)
        assert devices.driver_version() == expected


def test_operations_are_deterministic_in_the_block_alone():
    torch.use_deterministic_algorithms(True, warn_only=True)
    with devices.deterministic_gpu(True):
        assert not torch.is_deterministic_algorithms_warn_only_enabled()
    assert torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(False)
    with devices.deterministic_gpu(True):
        assert torch.are_deterministic_algorithms_enabled()
        assert "CUBLAS_WORKSPACE_CONFIG" in os.environ  # else products refuse to work
    assert not torch.are_deterministic_algorithms_enabled()
    settings: Any = torch.utils.deterministic
    assert settings.fill_uninitialized_memory
