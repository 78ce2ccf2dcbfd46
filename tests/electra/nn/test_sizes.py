"""Parameter counts of the published sizes (transformers' and the authors' figures)."""

import pytest
import torch

from electra.pretraining.corruption import SpecialIds
from electra.pretraining.model import Pretraining
from pipelines.config.params import load

SIZES = [
    ("small", 13.48, 14.2),
    ("small_plus", 13.48, 23.1),
    ("base", 108.89, 119.4),
    ("large", 334.09, 354.7),
]


@pytest.mark.parametrize("size, backbone, joint", SIZES)
def test_parameter_counts_are_the_published_ones(size, backbone, joint):
    with torch.device("meta"):
        model = Pretraining(load().models[size].electra(), 30522, SpecialIds(0, 101, 102, 103))
    millions = lambda module: sum(p.numel() for p in module.parameters()) / 1e6  # noqa: E731
    assert round(millions(model.discriminator.encoder), 2) == backbone
    assert round(millions(model), 1) == joint
