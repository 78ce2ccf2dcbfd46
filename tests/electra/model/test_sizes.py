"""Parameter counts of the published sizes (transformers' and the authors' figures)."""

import pytest
import torch

from electra.config import ElectraConfig, build
from electra.model.corruption import SpecialIds
from electra.model.pretraining import Pretraining

SIZES = {
    "small": ((12, 256, 4, 1024, 128), 0.25, 13.48, 14.2),
    "base": ((12, 768, 12, 3072, 768), 1 / 3, 108.89, 119.4),
    "large": ((24, 1024, 16, 4096, 1024), 0.25, 334.09, 354.7),
}


@pytest.mark.parametrize("size", SIZES)
def test_parameter_counts_are_the_published_ones(size):
    shape, width, backbone, joint = SIZES[size]
    encoder = dict(zip(("layers", "hidden", "heads", "ffn", "embedding"), shape, strict=True))
    pretrain = {"length": 128, "batch": 8, "steps": 10, "warmup": 1, "learning_rate": 1e-4}
    config = build(ElectraConfig, {"encoder": encoder, "generator": {"width": width}, "pretrain": pretrain}, size)
    with torch.device("meta"):
        model = Pretraining(config, 30522, SpecialIds(0, 101, 102, 103))
    millions = lambda module: sum(p.numel() for p in module.parameters()) / 1e6  # noqa: E731
    assert round(millions(model.discriminator.encoder), 2) == backbone
    assert round(millions(model), 1) == joint
