"""The short training on a task, and the pass that reads its outputs.

As published: batches of one global shuffle, Adam without bias correction, layer-wise decay of the
rate, warm-up × linear decay, the loss summed over the batch and then clipped to norm 1, the last
step evaluated (no best checkpoint is chosen). A batch is processed in parts of rows of similar
length. Gradients add up, so parts affect only memory and time.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.optim import AdamW

from electra.finetuning.batches import Examples, PaddedBatch, parts, training_order
from electra.finetuning.heads import Network
from electra.finetuning.tasks import FinetuneConfig
from electra.optim.adamw import (
    build_optimizer,
    clip_gradients,
    layer_scale,
    set_learning_rate,
)
from electra.optim.precision import PrecisionChoice, autocast, choose
from electra.optim.schedule import learning_rate

# tokens x hidden size of one part: enough to keep a core busy, or a GPU
ROOM = {"cpu": 2**17, "cuda": 2**23}
# tokens of padding that take about as long as a part of its own
PADDING = {"cpu": 40, "cuda": 4096}
READ_AT_ONCE = 4096  # tokens of one part where nothing is learned
_CURVE_POINTS = 20
# steps between two looks at the loss: reading it makes the host wait for the device
CHECK_EVERY = 50


@dataclass(frozen=True)
class Training:
    """The course of a training: whether weights and losses stayed finite, and the mean loss per row
    along the way.
    """

    finite: bool
    curve: list[tuple[int, float]]  # (updates done, mean loss per row since the point before)


def count_steps(rows: int, config: FinetuneConfig) -> int:
    """Return the number of updates (electra: finetune/preprocessing.py): epochs of ceil(rows /
    batch), truncated.
    """
    return max(1, int(-(-rows // config.batch) * config.epochs))


def train(
    model: Network,
    examples: Examples,
    config: FinetuneConfig,
    *,
    seed: int,
    stream: str,
    device: torch.device | str = "cpu",
) -> Training:
    """Train one model in place. Batches follow from (seed, stream). Dropout draws from torch's
    global generator.

    Training ends early when the loss is no longer finite.
    """
    device = torch.device(device)
    optimizer = finetuning_optimizer(model, config)
    precision = choose(config.precision, device)
    # that go through the network at once
    tokens = max(256, ROOM[device.type] // model.encoder.config.hidden)
    padding = PADDING[device.type]
    steps = count_steps(len(examples), config)
    warmup = int(steps * config.warmup)
    order = training_order(len(examples), config.batch, seed, stream)
    curve: list[Tensor] = []
    model.train()
    for step in range(steps):
        set_learning_rate(
            optimizer, learning_rate(step, peak=config.learning_rate, warmup=warmup, steps=steps)
        )
        rows_B = next(order)
        total = torch.zeros((), device=device)
        for rows_R in parts(rows_B, examples.length_N, tokens, padding):
            batch = examples.batch(rows_R, device)
            with autocast(precision, device):
                loss = model.losses(batch).sum()
            loss.backward()  # type: ignore[no-untyped-call]
            total += loss.detach()
        clip_gradients(model.parameters(), config.max_grad_norm)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        curve.append(total / len(rows_B))
        if (step + 1) % CHECK_EVERY == 0 and not total.isfinite():
            break
    loss_S = torch.stack(curve)
    finite = all(bool(values.isfinite().all()) for values in (loss_S, *model.parameters()))
    return Training(finite, downsample(loss_S.cpu().numpy()) if finite else [])


def finetuning_optimizer(model: Network, config: FinetuneConfig) -> AdamW:
    """Return Adam as published, each layer with its share of the rate."""
    published = config.layer_decay_exponent == "published"
    layers = model.encoder.config.layers - config.new_layers
    return build_optimizer(
        model.named_parameters(),
        weight_decay=config.weight_decay,
        beta1=config.beta1,
        beta2=config.beta2,
        eps=config.eps,
        bias_correction=config.bias_correction,
        scale=layer_scale(layers, config.layer_decay, published=published),
    )


def downsample(loss_S: NDArray[np.float32]) -> list[tuple[int, float]]:
    """Return the mean loss of each of a few stretches of the training."""
    parts = np.array_split(loss_S.astype(np.float64), min(_CURVE_POINTS, len(loss_S)))
    ends = np.cumsum([len(part) for part in parts])
    return [(int(end), float(f"{part.mean():.6g}")) for end, part in zip(ends, parts, strict=True)]


def read_outputs(
    model: Network,
    examples: Examples,
    device: torch.device | str = "cpu",
    precision: PrecisionChoice = "auto",
) -> dict[str, NDArray[Any]]:
    """Return every output for every row, in the order of the rows."""
    model.eval()
    return read_batches(model.outputs, examples, device, precision)


@torch.inference_mode()
def read_batches(
    read: Callable[[PaddedBatch], dict[str, Tensor]],
    examples: Examples,
    device: torch.device | str,
    precision: PrecisionChoice,
) -> dict[str, NDArray[Any]]:
    """Return the outputs of a function of batches for every row, in the order of the rows."""
    device = torch.device(device)
    chosen = choose(precision, device)
    pieces: dict[str, list[Tensor]] = {}
    order: list[NDArray[np.int64]] = []
    every_N = np.arange(len(examples))
    for rows_B in parts(every_N, examples.length_N, READ_AT_ONCE, PADDING[device.type]):
        order.append(rows_B)
        with autocast(chosen, device):
            for name, value in read(examples.batch(rows_B, device)).items():
                pieces.setdefault(name, []).append(
                    value.float() if value.is_floating_point() else value
                )
    back_N = torch.from_numpy(np.argsort(np.concatenate(order))).to(device)
    return {
        name: torch.cat(values).index_select(0, back_N).cpu().numpy()
        for name, values in pieces.items()
    }
