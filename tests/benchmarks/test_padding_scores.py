"""The padded arm is the unpadded one's network: the same hidden states, and with shared draws the same gradients."""

import numpy as np
import pytest
import torch

from benchmarks.padding_scores import padded, shared_draws
from electra.finetuning.batches import stack
from electra.finetuning.unpadded import first_hidden
from electra.nn.config import EncoderConfig
from electra.nn.scratch_init import fresh_encoder

ROWS = [[2, 7, 3], [2, 3], [2, 8, 9, 11, 3]]
CONFIG = EncoderConfig(
    layers=3, hidden=32, heads=2, ffn=64, embedding=16, positions=16, dropout=0.3, attention_dropout=0.3
)


@pytest.fixture
def encoder():
    return fresh_encoder(CONFIG, 40, 1)


@pytest.fixture(params=[[2, 0, 1], [0]], ids=["padded", "full"])
def batch(request):
    return stack(ROWS, [2, 2, 3], {}, ["a", "b", "c"]).batch(np.array(request.param))


def test_padding_changes_no_hidden_state_beyond_rounding(encoder, batch):
    encoder.eval()
    with torch.no_grad():
        assert torch.allclose(padded(16)(encoder, batch), first_hidden(encoder, batch), atol=1e-5)


def test_with_shared_draws_dropout_drops_the_same_with_and_without_padding(encoder, batch):
    found = []
    for first in (padded(16), first_hidden):
        with shared_draws(16) as wrapper:
            torch.manual_seed(7)
            hidden_BH = wrapper(first)(encoder.train(), batch)
            grads = torch.autograd.grad(hidden_BH.square().sum(), tuple(encoder.parameters()))
            after = torch.rand(())
        found.append((hidden_BH, *grads, after))
    for theirs, ours in zip(*found, strict=True):
        assert torch.allclose(ours, theirs, atol=1e-4)  # fp32: gradients add up the tokens in another order
    torch.manual_seed(7)
    assert not torch.allclose(first_hidden(encoder, batch), found[1][0], atol=1e-2), "shared draws are left behind"
