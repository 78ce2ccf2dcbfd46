"""One line says what a run runs on and how long it will take."""

import re
from dataclasses import replace

import pytest
import torch

from electra import devices
from electra.pretraining.distributed import World
from electra.pretraining.phases import Phase
from electra.pretraining.trainer import Launch, StepDone, pretrain
from pipelines.stages import announce as module
from pipelines.stages.announce import SETTLED, TIMED, Announcer, announce
from tests.electra.helpers import config, data

GPU = torch.device("cuda", 0)
PHASE = Phase(0, 1_000_000, 24, 8)


def test_a_run_says_once_what_it_runs_on(tmp_path, capsys):
    launch = Launch(title="demo", announce=Announcer())
    pretrain(config(), data(), tmp_path, {}, log=lambda step, numbers: None, launch=launch)
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "tokens/s," in line]
    assert re.fullmatch(
        r"demo: CPU with 1 thread, torch \S+, fp32; [\d,]+ tokens/s, 14 steps in about .+", line
    )


def step_done(*, world=None, captured=True, done=0, **changes):
    return StepDone(
        title="demo",
        settings=config(**{f"pretrain__{key}": value for key, value in changes.items()}).pretrain,
        world=world or World(0, 1, GPU),
        precision="bf16",
        captured=captured,
        phases=(PHASE,),
        phase=PHASE,
        tokens=8 * 24,
        phase_start=0,
        done=done,
        last=2_000_000,
    )


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, r"^demo: NVIDIA H100 80GB HBM3 \(driver 580\.65\.06\), torch \S+, bf16, compiled, CUDA graphs;"),
        ({}, r"; 19,200 tokens/s, 1,000,000 steps in about 2\.8 hours$"),
        ({"compiler": False}, r"not compiled \(no C compiler\)"),
        ({"compile": "off", "captured": False}, r"not compiled \(pretrain\.compile: off\), no CUDA graphs \(pretrain\.compile: off\)"),
        ({"captured": False}, r"compiled, no CUDA graphs \(the capture failed\)"),
        ({"world": World(0, 8, GPU)}, r"8 × NVIDIA"),
        ({"deterministic": True}, r"graphs, deterministic;"),
    ],
)  # fmt: skip
def test_a_gpu_run_says_what_it_does_and_what_it_does_not(changes, said, monkeypatch, tmp_path):
    compiler = changes.pop("compiler", True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "NVIDIA H100 80GB HBM3")
    monkeypatch.setattr(module, "lacks_to_compile", lambda: "" if compiler else "C compiler")
    (tmp_path / "version").write_text(
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sun Jul 27\nGCC version: 12"
    )
    monkeypatch.setattr(devices, "DRIVER", tmp_path / "version")
    assert re.search(said, announce(step_done(**changes), 0.01))


def test_a_phase_of_several_is_named_and_has_its_own_steps(monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "GPU")
    short, long = replace(PHASE, last=100), replace(PHASE, first=100, length=48)
    line = announce(replace(step_done(done=40), phases=(short, long), phase=short), 1.0)
    assert line.startswith("demo, phase 1 of 2 (rows of 24): GPU") and "60 steps in about" in line


def test_on_a_gpu_the_pace_is_taken_when_nothing_is_compiled_or_captured_any_more(monkeypatch):
    waits, told = [], []
    monkeypatch.setattr(torch.cuda, "synchronize", waits.append)
    monkeypatch.setattr(module, "announce", lambda step, pace: told.append(step.done) or "")
    announcer = Announcer()
    for done in range(1, 20):
        announcer(step_done(done=done))
    assert told == [SETTLED + TIMED] and waits == [GPU, GPU]
