"""Pre-training on a CUDA device, `make gpu`: losses beside the CPU's, compiled or not, and a run
that is killed.

Rates come from benchmarks/pretrain_step.py. Without a CUDA device all of this is skipped.
"""

import dataclasses
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from electra.files import read_json, sha256_file
from electra.nn.config import EncoderConfig
from electra.pretraining.config import ElectraConfig, GeneratorConfig, PretrainConfig
from electra.pretraining.dataloader import Data
from electra.pretraining.made_up_rows import SPECIAL, MadeUpRows
from electra.pretraining.trainer import Launch, pretrain
from tests.conftest import ROOT, environment

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA device"),
]
STEPS = 24
SAVED = 10
VOCABULARY = 30_522
# The largest relative difference of a step's loss from the CPU's in fp32. In bf16 a few samples of
# the generator fall otherwise, which changes what the discriminator reads.
LIMITS = {"fp32": 1e-3, "bf16": 3e-2}


def settings(**changes: Any) -> ElectraConfig:
    """The small preset's width in two layers, a batch in two slices, without dropout: a GPU draws
    other numbers.
    """
    encoder = EncoderConfig(
        layers=2, hidden=256, heads=4, ffn=1024, embedding=128, dropout=0.0, attention_dropout=0.0
    )
    schedule: dict[str, Any] = {
        "length": 128,
        "batch": 16,
        "accumulate": 2,
        "steps": STEPS,
        "warmup": 4,
    }
    schedule |= {
        "learning_rate": 5e-4,
        "log_every": 1,
        "eval_every": STEPS,
        "eval_batches": 1,
        "save_every": SAVED,
    }
    schedule |= {"min_save_interval_minutes": 0, "threads": 1, **changes}
    return ElectraConfig(
        encoder=encoder, pretrain=PretrainConfig(**schedule), generator=GeneratorConfig(width=0.25)
    )


def train(config: ElectraConfig, folder: Path, device: str, kill_at: int = 0) -> list[float]:
    """The loss of each step; the process kills itself after the step `kill_at`."""
    losses: list[float] = []

    def log(step: int, numbers: dict[str, float]) -> None:
        if "train/loss" in numbers:
            losses.append(numbers["train/loss"])
        if step == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    rows = MadeUpRows(512, config.pretrain.length, VOCABULARY)
    data = Data(rows, MadeUpRows(64, config.pretrain.length, VOCABULARY), SPECIAL, VOCABULARY)
    pretrain(config, data, folder, {}, log=log, launch=Launch(device=torch.device(device)))
    return losses


def difference(losses: list[float], expected: list[float]) -> float:
    return max(
        abs(ours - theirs) / abs(theirs) for ours, theirs in zip(losses, expected, strict=True)
    )


@pytest.fixture(scope="module")
def on_cpu(tmp_path_factory: pytest.TempPathFactory) -> list[float]:
    losses = train(settings(precision="fp32"), tmp_path_factory.mktemp("cpu"), "cpu")
    assert losses[-1] < losses[0], "the weights learn"
    return losses


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("compile_mode", ["off", "auto"])
def test_losses_are_those_of_the_cpu(
    precision: Any, compile_mode: Any, on_cpu: list[float], tmp_path: Path
) -> None:
    losses = train(settings(precision=precision, compile=compile_mode), tmp_path, "cuda")
    assert difference(losses[:1], on_cpu[:1]) < LIMITS[precision] / 10
    assert difference(losses, on_cpu) < LIMITS[precision]


@pytest.mark.parametrize("deterministic", [True, False])
def test_a_killed_run_ends_as_an_undisturbed_one(deterministic: bool, tmp_path: Path) -> None:
    for name, kill_at, code in (
        ("whole", 0, 0),
        ("killed", SAVED + 5, -signal.SIGKILL),
        ("killed", 0, 0),
    ):
        words = [
            sys.executable,
            __file__,
            str(tmp_path / name),
            str(int(deterministic)),
            str(kill_at),
        ]
        done = subprocess.run(
            words, env=environment(ROOT), capture_output=True, text=True, check=False
        )
        assert done.returncode == code, done.stderr
    whole, killed = (tmp_path / name / f"step-{STEPS}" for name in ("whole", "killed"))
    if deterministic:
        for file in ("model.safetensors", "optimizer.safetensors"):
            assert sha256_file(whole / file) == sha256_file(killed / file)
    ends = [[read_json(end / "progress.json")["history"][-1]["loss"]] for end in (whole, killed)]
    assert difference(*ends) < 0.02, "sums have no fixed order"


if __name__ == "__main__":
    folder, deterministic, kill_at = sys.argv[1:]
    config = settings()
    changed = dataclasses.replace(config.pretrain, deterministic=bool(int(deterministic)))
    train(dataclasses.replace(config, pretrain=changed), Path(folder), "cuda", int(kill_at))
