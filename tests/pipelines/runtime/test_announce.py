"""One line says what a run runs on and how long it will take."""

import re
import types

import pytest
import torch

from electra import devices
from electra.pretraining.distributed import World
from electra.pretraining.step import SETTLED
from electra.pretraining.trainer import Launch, pretrain
from pipelines.runtime import announce as module
from pipelines.runtime.announce import TIMED, Announcer, announce
from tests.electra.helpers import config, data

GPU = torch.device("cuda", 0)


def test_a_run_says_once_what_it_runs_on(tmp_path, capsys):
    launch = Launch(title="demo", announce=Announcer())
    pretrain(config(), data(), tmp_path, {}, log=lambda step, numbers: None, launch=launch)
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "tokens/s," in line]
    assert re.fullmatch(r"demo: CPU with 1 thread, torch \S+, fp32; [\d,]+ tokens/s, 14 steps in about a minute", line)


def line(monkeypatch, tmp_path, *, world=None, record=True, resident=True, compiler=True, **changes):
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "NVIDIA H100 80GB HBM3")
    monkeypatch.setattr(module, "lacks_to_compile", lambda: "" if compiler else "C compiler")
    (tmp_path / "version").write_text(
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sun Jul 27\nGCC version: 12"
    )
    monkeypatch.setattr(devices, "DRIVER", tmp_path / "version")
    settings = config(**{f"pretrain__{key}": value for key, value in changes.items()}).pretrain
    feed = types.SimpleNamespace(resident=resident, nbytes=2 * 10**9, tokens=8 * 24)
    step = types.SimpleNamespace(record=object() if record else None, precision="bf16")
    return announce(settings, world or World(0, 1, GPU), step, feed, 0.01, 1_000_000)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, r"^NVIDIA H100 80GB HBM3 \(driver 580\.65\.06\), torch \S+, bf16, compiled, recorded, rows on the GPU \(2 GB\);"),  # noqa: E501
        ({}, r"; 19,200 tokens/s, 1,000,000 steps in about 2\.8 hours$"),
        ({"resident": False}, "rows streamed from the disk"),
        ({"compiler": False}, r"not compiled \(no C compiler\)"),
        ({"compile": "off", "record": False}, r"not compiled \(pretrain\.compile: off\), not recorded \(pretrain\.compile: off\)"),  # noqa: E501
        ({"record": False}, r"compiled, not recorded \(it failed\)"),
        ({"world": World(0, 8, GPU)}, r"8 × NVIDIA"),
        ({"deterministic": True}, r"GB\), deterministic;"),
    ],
)  # fmt: skip
def test_a_gpu_run_says_what_it_does_and_what_it_does_not(changes, said, monkeypatch, tmp_path):
    assert re.search(said, line(monkeypatch, tmp_path, **changes))


def test_on_a_gpu_the_pace_is_taken_when_nothing_is_compiled_or_recorded_any_more(monkeypatch):
    waits, left = [], []
    monkeypatch.setattr(torch.cuda, "synchronize", waits.append)
    monkeypatch.setattr(module, "announce", lambda *of: left.append(of[-1]) or "")
    phase, none = types.SimpleNamespace(last=99), dict.fromkeys(("title", "world", "step", "feed"))
    settings = types.SimpleNamespace(pretrain=None)
    trainer = types.SimpleNamespace(begun=0, device=GPU, phase=phase, phases=[phase], end=99, config=settings, **none)
    announcer = Announcer()
    for done in range(1, 20):
        announcer(trainer, done)
    assert left == [99 - SETTLED - TIMED] and waits == [GPU, GPU]
