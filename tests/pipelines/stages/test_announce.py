"""One line about the device of a run."""

import re
from dataclasses import replace

import pytest
import torch

from electra import devices
from electra.pretraining.distributed import World
from electra.pretraining.phases import Phase
from electra.pretraining.trainer import RunOptions, StepDone, pretrain
from pipelines.stages import announce as module
from pipelines.stages.announce import SETTLED, announce, describe
from tests.support.pretraining import config, data

GPU = torch.device("cuda", 0)
ONE = World(0, 1, GPU)
PHASE = Phase(0, 1_000_000, 24, 8)


def test_a_run_says_once_what_it_runs_on(tmp_path, capsys):
    options = RunOptions(title="demo", on_step=announce)
    pretrain(config(), data(), tmp_path, {}, log=lambda step, numbers: None, options=options)
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "CPU" in line]
    assert re.fullmatch(r"demo: CPU with 1 thread, torch \S+, fp32", line)


def step_done(*, world=ONE, captured=True, done=0, **changes):
    return StepDone(
        title="demo",
        settings=config(**changes).pretrain,
        world=world,
        precision="bf16",
        captured=captured,
        phases=(PHASE,),
        phase=PHASE,
        phase_start=0,
        done=done,
    )


@pytest.fixture
def gpu(monkeypatch, tmp_path):
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "NVIDIA H100 80GB HBM3")
    monkeypatch.setattr(module, "missing_for_compile", lambda: "")
    (tmp_path / "version").write_text(
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sun Jul 27\nGCC version: 12"
    )
    monkeypatch.setattr(devices, "DRIVER", tmp_path / "version")


@pytest.mark.parametrize(
    "changes, said",
    [
        ({}, r"^demo: NVIDIA H100 80GB HBM3 \(driver 580\.65\.06\), torch \S+, bf16, compiled, CUDA graphs$"),
        ({"pretrain__compile": "off", "captured": False}, r"not compiled \(pretrain\.compile: off\), no CUDA graphs \(pretrain\.compile: off\)"),
        ({"captured": False}, r"compiled, no CUDA graphs \(the capture failed\)"),
        ({"world": World(0, 8, GPU)}, r"8 × NVIDIA"),
        ({"pretrain__deterministic": True}, r"graphs, deterministic"),
    ],
)  # fmt: skip
def test_a_gpu_run_says_what_it_does_and_what_it_does_not(gpu, changes, said):
    assert re.search(said, describe(step_done(**changes)))


def test_a_missing_compiler_and_a_phase_of_several_are_named(gpu, monkeypatch):
    monkeypatch.setattr(module, "missing_for_compile", lambda: "C compiler")
    short = replace(PHASE, last=100)
    long = replace(PHASE, first=100, length=48)
    line = describe(replace(step_done(), phases=(short, long), phase=short))
    assert line.startswith("demo, phase 1 of 2 (rows of 24): NVIDIA")
    assert "not compiled (no C compiler)" in line


def test_on_a_gpu_it_is_said_when_nothing_is_compiled_or_captured_any_more(gpu, capsys):
    for done in range(1, SETTLED):
        announce(step_done(done=done))
    assert capsys.readouterr().err == ""
    announce(step_done(done=SETTLED))
    announce(step_done(done=SETTLED + 1))
    assert capsys.readouterr().err.count("demo: ") == 1
