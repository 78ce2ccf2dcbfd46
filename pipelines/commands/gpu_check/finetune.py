"""A short fine-tuning of both encoders on made-up rows of all lengths, beside the CPU in fp32."""

import dataclasses
from typing import Any

import numpy as np
import torch

from electra.finetuning.batches import Examples
from electra.finetuning.heads import Classifier
from electra.finetuning.tasks import FinetuneConfig
from electra.finetuning.training import train
from electra.nn.factory import fresh_encoder
from pipelines.commands.gpu_check.losses import CPU, difference
from pipelines.commands.gpu_check.sample import Size, networks, record

ROWS, BATCH, CLOSE = 64, 16, 0.02


def check(device: torch.device) -> list[dict[str, Any]]:
    """A record for each encoder; the mean losses along the way are compared."""
    records = []
    for kind in ("bert", "modern"):
        shape = networks(device)[f"{kind}, tokens"]
        (plain, _), (ours, finite) = (curve(shape, place) for place in (CPU, device))
        apart = difference(ours, plain) if finite else float("inf")
        found = f"losses differ by {apart:.1e} in {len(plain)} steps"
        records.append(record(f"finetune: {kind}, {device.type}", found, f"{CLOSE:.0e}", apart <= CLOSE, losses=ours))
    return records


def curve(shape: Size, device: torch.device) -> tuple[list[float], bool]:
    """The mean loss a row at each step, and whether all is finite."""
    config = FinetuneConfig(seeds=(1,), batch=BATCH, length=shape.config.pretrain.length, epochs=3.0, dropout=0.0)
    config = dataclasses.replace(config, precision="fp32") if device.type == "cpu" else config
    encoder = fresh_encoder(shape.config.encoder, shape.vocab_size, 1)
    model = Classifier(encoder, 2, 0.0).to(device)
    torch.manual_seed(1)
    found = train(model, examples(shape), config, seed=1, stream="gpu-check", device=device)
    return [loss for _, loss in found.curve], found.finite


def examples(shape: Size) -> Examples:
    """Rows of one segment; the label says whether the first token is in the upper half of the vocabulary."""
    numbers = np.random.default_rng(0)
    length_N = numbers.integers(shape.config.pretrain.length // 4, shape.config.pretrain.length, ROWS)
    ids_S = numbers.integers(104, shape.vocab_size, int(length_N.sum())).astype(np.int32)
    first_N = ids_S[np.cumsum(length_N) - length_N]
    labels = {"label": (first_N > shape.vocab_size // 2).astype(np.int64)}
    return Examples(ids_S, length_N, length_N.copy(), labels, [str(number) for number in range(ROWS)])
