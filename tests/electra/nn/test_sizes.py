"""Parameter counts of the published sizes (transformers' and the authors' figures)."""

import pytest
import torch

from electra.pretraining.corruption import SpecialIds
from electra.pretraining.model import Pretraining
from pipelines.config.params import load


@pytest.mark.parametrize(
    "size, backbone, joint",
    [
        ("small", 13.48, 14.2),
        ("small_plus", 13.48, 23.1),
        ("base", 108.89, 119.4),
        ("large", 334.09, 354.7),
    ],
)
def test_parameter_counts_are_the_published_ones(size, backbone, joint):
    with torch.device("meta"):
        model = Pretraining(load().models[size].electra(), 30522, SpecialIds(0, 101, 102, 103))
    for module, millions, places in ((model.discriminator.encoder, backbone, 2), (model, joint, 1)):
        count = sum(parameter.numel() for parameter in module.parameters())
        assert round(count / 1e6, places) == millions
