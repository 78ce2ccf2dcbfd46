"""Parameter counts of the published sizes (transformers' and the authors' figures)."""

import math
from dataclasses import replace

import pytest
import torch

from electra.pretraining.corruption import SpecialIds
from electra.pretraining.dataloader import BatchLoader
from electra.pretraining.model import Pretraining
from pipelines.config.params import load
from tests.electra.helpers import MadeUpRows

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


def test_the_first_loss_of_small_is_the_published_45():
    """ln 30522 + 50 ln 2 = 44.98, as in the logs of the original."""
    torch.manual_seed(0)
    small = load().models["small"].electra()
    small = replace(small, pretrain=replace(small.pretrain, batch=8))
    model = Pretraining(small, 30522, SpecialIds(pad=0, cls=2, sep=3, mask=4))
    with torch.no_grad():
        loss = model(
            BatchLoader(MadeUpRows(8, 128), small, torch.device("cpu"), "noise").batch(0)
        ).loss.item()
    assert loss == pytest.approx(
        math.log(30522) + 50 * math.log(2), abs=2.5
    )  # the original's logs start at 44.2 to 47.1
