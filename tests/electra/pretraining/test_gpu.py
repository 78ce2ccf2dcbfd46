"""On a GPU every way to compute a step gives the plain one's losses on the CPU, and a run resumes:
`pytest -m gpu`.
"""

import pytest
import torch

from electra.pretraining.compiling import compile_parts
from electra.pretraining.step import Graphs
from electra.pretraining.trainer import Launch, pretrain
from tests.electra.helpers import config, data, state
from tests.electra.pretraining.test_step import MODERN_TOKENS, QUIET, TWIN, train

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
GPU = torch.device("cuda", 0)
# In bf16 a few samples of the generator fall otherwise, which changes what the discriminator reads.
LIMITS = {"fp32": 1e-3, "bf16": 3e-2}


@pytest.mark.parametrize("captured", [False, True])
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("precision", LIMITS)
@pytest.mark.parametrize("changes", [{}, TWIN, MODERN_TOKENS])
def test_losses_are_those_of_the_cpu(changes, precision, compiled, captured):
    settings = config(**QUIET | changes)
    expected, _ = train(settings, 2)
    graphs = Graphs(GPU) if captured else None
    before = compile_parts if compiled else lambda model: None
    found, _ = train(settings, 2, before, device=GPU, precision=precision, graphs=graphs)
    assert graphs is None or (not graphs.failed and len(graphs.captured) == 3)
    assert [step[-1] for step in found] == pytest.approx(
        [step[-1] for step in expected], rel=LIMITS[precision]
    )


@pytest.mark.parametrize("training", ["joint", "two_stage"])
def test_a_deterministic_run_resumes_with_the_same_bytes(tmp_path, training):
    stages = {
        "objective__training": training,
        "objective__sharing": "none",
        "generator__width": 1.0,
    }
    settings = config(**stages, pretrain__deterministic=True)
    for run, stops in {"whole": [None], "cut": [7, 13, None]}.items():
        for until in stops:
            launch = Launch(device=GPU, until=until)
            pretrain(
                settings, data(), tmp_path / run, {}, log=lambda step, numbers: None, launch=launch
            )
    assert state(tmp_path / "whole") == state(tmp_path / "cut")
