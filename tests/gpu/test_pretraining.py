"""Pre-training on a CUDA device, `make gpu`: losses next to the CPU's, captured and compiled or not,
and a run that is killed.

Rates come from benchmarks/pretrain_step.py. Without a CUDA device all of this is skipped.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from electra.pretraining.compiling import compile_parts
from electra.pretraining.step import CudaGraphs
from electra.pretraining.trainer import RunOptions, pretrain
from electra.storage import checkpoint
from tests.support.pretraining import config, data, state
from tests.support.project import ROOT, environment
from tests.support.steps import MODERN_TOKENS, QUIET, TWIN, train_steps

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA device"),
]
# In bf16 a few samples of the generator differ, which changes the discriminator's input.
LIMITS = {"fp32": 1e-3, "bf16": 3e-2}


@pytest.mark.parametrize("captured", [False, True])
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("precision", LIMITS)
@pytest.mark.parametrize("changes", [{}, TWIN, MODERN_TOKENS])
def test_losses_are_those_of_the_cpu(changes, precision, compiled, captured):
    settings = config(**QUIET | changes)
    expected, _ = train_steps(settings, 2)
    device = torch.device("cuda", 0)
    graphs = CudaGraphs(device) if captured else None
    before = compile_parts if compiled else lambda model: None
    numbers, _ = train_steps(settings, 2, before, device=device, precision=precision, graphs=graphs)
    assert graphs is None or (not graphs.failed and len(graphs.captured) == 3)
    losses = [step[-1].item() for step in numbers]
    assert losses == pytest.approx([step[-1].item() for step in expected], rel=LIMITS[precision])


STAGES = {"objective__sharing": "none", "generator__width": 1.0}


@pytest.mark.parametrize("deterministic", [True, False])
@pytest.mark.parametrize("training", ["joint", "two_stage"])
def test_a_killed_run_ends_as_an_undisturbed_one(deterministic, training, tmp_path):
    runs = [("whole", -1, 0), ("killed", 11, -signal.SIGKILL), ("killed", -1, 0)]
    for name, kill_at, code in runs:
        words = [str(tmp_path / name), str(int(deterministic)), training, str(kill_at)]
        done = subprocess.run(
            [sys.executable, __file__, *words],
            env=os.environ | environment(ROOT),  # keeps LD_LIBRARY_PATH and CUDA_VISIBLE_DEVICES
            capture_output=True,
            text=True,
        )
        assert done.returncode == code, done.stderr
    if deterministic:
        assert state(tmp_path / "whole") == state(tmp_path / "killed")
    ends = [
        checkpoint.read_progress(tmp_path / name / "step-20")["history"][-1]["loss"]
        for name in ("whole", "killed")
    ]
    assert ends[1] == pytest.approx(ends[0], rel=0.02), "sums have no fixed order"


def main(folder, deterministic, training, kill_at):
    """Train on the GPU; the process kills itself after the step `kill_at`, if any."""

    def log(step, numbers):
        if step == int(kill_at):
            os.kill(os.getpid(), signal.SIGKILL)

    changes = {"pretrain__deterministic": deterministic == "1", "objective__training": training}
    settings = config(**STAGES, **changes, pretrain__log_every=1)
    options = RunOptions(device=torch.device("cuda", 0))
    pretrain(settings, data(), Path(folder), {}, log=log, options=options)


if __name__ == "__main__":
    main(*sys.argv[1:])
