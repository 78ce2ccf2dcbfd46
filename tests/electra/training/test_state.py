"""What a checkpoint holds is all that a run goes on from."""

import pytest
import torch

from electra import files
from electra.training.loop import pretrain
from tests.electra.helpers import config, data


@pytest.mark.parametrize("sharing", ["embeddings", "gradient_disentangled"])
def test_a_generator_of_another_rate_resumes_to_the_same_bytes(tmp_path, sharing):
    torch.set_num_threads(1)
    changes = {"encoder__init": "mimetic", "pretrain__generator_rate": 4.0, "objective__sharing": sharing}
    settings = config(**changes, pretrain__steps=8, pretrain__save_every=4, pretrain__eval_every=4)
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    for run in (whole, cut):
        pretrain(settings, data(), run, {}, log=lambda step, numbers: None)
    files.remove(cut / "step-8")
    pretrain(settings, data(), cut, {}, log=lambda step, numbers: None)
    for name in ("model.safetensors", "optimizer.safetensors"):
        assert (cut / "step-8" / name).read_bytes() == (whole / "step-8" / name).read_bytes()
