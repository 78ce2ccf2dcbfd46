"""The padded arm is the same network: without dropout it gives the hidden states of the unpadded one."""

import numpy as np
import torch

from benchmarks.padding_scores import padded
from electra.config import EncoderConfig
from electra.export import fresh_encoder
from electra.finetuning.batches import stack
from electra.finetuning.unpadded import first_hidden


def test_padding_changes_no_hidden_state_beyond_rounding():
    encoder = fresh_encoder(
        EncoderConfig(layers=2, hidden=32, heads=2, ffn=64, embedding=16, positions=16), 40, 1
    ).eval()
    rows = [[2, 7, 3], [2, 3], [2, 8, 9, 11, 3]]
    batch = stack(rows, [2, 2, 3], {}, ["a", "b", "c"]).batch(np.array([2, 0, 1]))
    with torch.no_grad():
        assert torch.allclose(padded(16)(encoder, batch), first_hidden(encoder, batch), atol=1e-5)
