"""Parameter counts of the published sizes (transformers' and the authors' figures)."""

import math

import pytest
import torch

from electra.config import build
from electra.pretraining.config import ElectraConfig
from electra.pretraining.corruption import SpecialIds
from electra.pretraining.dataloader import Feed
from electra.pretraining.model import Pretraining
from tests.electra.helpers import MadeUpRows

SIZES = {
    "small": ((12, 256, 4, 1024, 128), 0.25, 13.48, 14.2),
    "small_plus": ((12, 256, 4, 1024, 128), 1.0, 13.48, 23.1),
    "base": ((12, 768, 12, 3072, 768), 1 / 3, 108.89, 119.4),
    "large": ((24, 1024, 16, 4096, 1024), 0.25, 334.09, 354.7),
}


def settings(size):
    shape, width, _, _ = SIZES[size]
    encoder = dict(zip(("layers", "hidden", "heads", "ffn", "embedding"), shape, strict=True))
    pretrain = {"length": 128, "batch": 8, "steps": 10, "warmup": 1, "learning_rate": 1e-4}
    return build(ElectraConfig, {"encoder": encoder, "generator": {"width": width}, "pretrain": pretrain}, size)


@pytest.mark.parametrize("size", SIZES)
def test_parameter_counts_are_the_published_ones(size):
    _, _, backbone, joint = SIZES[size]
    with torch.device("meta"):
        model = Pretraining(settings(size), 30522, SpecialIds(0, 101, 102, 103))
    millions = lambda module: sum(p.numel() for p in module.parameters()) / 1e6  # noqa: E731
    assert round(millions(model.discriminator.encoder), 2) == backbone
    assert round(millions(model), 1) == joint


def test_the_first_loss_of_small_is_the_published_45():
    """ln 30522 + 50 ln 2 = 44.98, as in the logs of the original."""
    torch.manual_seed(0)
    model = Pretraining(settings("small"), 30522, SpecialIds(pad=0, cls=2, sep=3, mask=4))
    with torch.no_grad():
        loss = model(Feed(MadeUpRows(8, 128), settings("small"), torch.device("cpu"), "noise").batch(0)).loss.item()
    assert loss == pytest.approx(
        math.log(30522) + 50 * math.log(2), abs=2.5
    )  # the original's logs start at 44.2 to 47.1
