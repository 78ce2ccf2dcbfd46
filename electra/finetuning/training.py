"""The short training on a task, and the pass that reads its outputs.

As published: batches of one global shuffle, Adam without bias correction, layer-wise decay of the rate, warm-up ×
linear decay, the loss summed over the batch and then clipped to norm 1, the last step evaluated (no best checkpoint is
chosen). A batch goes through in parts of bounded size; gradients add up, so parts bear on memory and on nothing else.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from electra.finetuning.batches import Examples, parts, training_order
from electra.finetuning.heads import Network
from electra.finetuning.step import Step
from electra.finetuning.tasks import FinetuneConfig
from electra.optim.adamw import AdamW, build_optimizer, layer_scale, set_rate
from electra.optim.cuda_graphs import CudaRecorder, Recorder
from electra.optim.precision import PrecisionChoice, autocast, choose
from electra.optim.schedule import learning_rate

ROOM = {"cpu": 2**17, "cuda": 2**23}  # tokens x hidden size of one part: enough to keep a core busy, or a GPU
_CURVE_POINTS = 20
CHECK_EVERY = 50  # steps between two looks at the loss: reading it makes the host wait for the device


@dataclass(frozen=True)
class Training:
    """How a training went: whether weights and losses stayed finite, and the mean loss a row along the way."""

    finite: bool
    curve: list[tuple[int, float]]  # (updates done, mean loss a row since the point before)


def count_steps(rows: int, config: FinetuneConfig) -> int:
    """Updates in all (electra: finetune/preprocessing.py): whole epochs of ceil(rows / batch), truncated."""
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
    """Train one model in place. Batches follow from (seed, stream); dropout draws from torch's global generator.

    Training ends early when the loss is no longer finite.
    """
    place = torch.device(device)
    optimizer = optimizer_for(model, config)
    tokens = max(256, ROOM[place.type] // model.encoder.config.hidden)  # that go through the network at once
    update = Step(model, optimizer, examples, config, tokens=tokens, record=recorder(place))
    steps = count_steps(len(examples), config)
    order = training_order(len(examples), config.batch, seed, stream)
    finite = torch.ones((), dtype=torch.bool, device=place)
    curve: list[Tensor] = []
    model.train()
    for step in range(steps):
        warmup = int(steps * config.warmup)
        set_rate(optimizer, learning_rate(step, peak=config.learning_rate, warmup=warmup, steps=steps))
        rows_B = next(order)
        total = update(rows_B)
        curve.append(total / len(rows_B))
        if (step + 1) % CHECK_EVERY == 0:
            finite &= total.isfinite()
            if not bool(finite):
                break
    for parameter in model.parameters():
        finite &= parameter.detach().isfinite().all()
    good = bool(finite)
    return Training(good, thinned(torch.stack(curve).cpu().numpy()) if good else [])


def recorder(place: torch.device) -> Recorder | None:
    """What records a step, on devices that can."""
    return CudaRecorder(place) if place.type == "cuda" else None


def optimizer_for(model: Network, config: FinetuneConfig) -> AdamW:
    """Adam as published, each layer with its share of the rate."""
    published = config.layer_decay_exponent == "published"
    layers = model.encoder.config.layers - config.fresh_layers
    return build_optimizer(
        model.named_parameters(),
        weight_decay=config.weight_decay,
        beta1=config.beta1,
        beta2=config.beta2,
        eps=config.eps,
        bias_correction=config.bias_correction,
        scale=layer_scale(layers, config.layer_decay, published=published),
    )


def thinned(loss_S: NDArray[np.float32]) -> list[tuple[int, float]]:
    """The mean loss of each of a few stretches of the training."""
    parts = np.array_split(loss_S.astype(np.float64), min(_CURVE_POINTS, len(loss_S)))
    ends = np.cumsum([len(part) for part in parts])
    return [(int(end), float(f"{part.mean():.6g}")) for end, part in zip(ends, parts, strict=True)]


@torch.inference_mode()
def read_outputs(
    model: Network,
    examples: Examples,
    device: torch.device | str = "cpu",
    tokens: int = 4096,
    precision: PrecisionChoice = "default",
) -> dict[str, NDArray[Any]]:
    """Every output for every row, in the order of the rows; `tokens` bounds a part."""
    place = torch.device(device)
    chosen = choose(precision, place)
    pieces: dict[str, list[Tensor]] = {}
    order: list[NDArray[np.int64]] = []
    model.eval()
    for rows_B in parts(np.arange(len(examples)), examples.length_N, tokens):
        order.append(rows_B)
        with autocast(chosen, place):
            for name, value in model.outputs(examples.batch(rows_B, place)).items():
                pieces.setdefault(name, []).append(value.float() if value.is_floating_point() else value)
    back_N = torch.from_numpy(np.argsort(np.concatenate(order))).to(place)
    return {name: torch.cat(values).index_select(0, back_N).cpu().numpy() for name, values in pieces.items()}
