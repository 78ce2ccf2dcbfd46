"""The same steps in every way to compute them: losses agree with the plain ones, dropout with its seed.

So do those of both encoders with every sharing, as a device trains them by default, and of a short fine-tuning.

Batches are drawn on the CPU, since generators of random numbers differ by device. The first step shows the forward pass
alone; the later ones, in which weights have moved, the backward pass, the update and (from the fourth on) the
recording.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from operator import le
from typing import Any

import numpy as np
import torch
from torch.utils._pytree import tree_map

from electra.finetuning import training
from electra.finetuning.batches import Examples
from electra.finetuning.heads import Classifier
from electra.finetuning.tasks import FinetuneConfig
from electra.nn.factory import fresh_encoder
from electra.optim.adamw import build_optimizer, set_rate
from electra.optim.precision import Precision
from electra.pretraining.compiling import compile_parts, lacks_to_compile
from electra.pretraining.dataloader import Feed, part
from electra.pretraining.distributed import World
from electra.pretraining.model import Batch, Pretraining
from electra.pretraining.step import WARM_UP, Graphs, Step
from pipelines.commands.gpu_check.sample import SPECIAL, MadeUpRows, Size, networks, record, size

STEPS, RATE, BATCHES = WARM_UP + 5, 2e-4, 2
CPU = torch.device("cpu")
# Largest relative difference of a loss from the plain one: at the first step, and at any. In bf16 a few samples of the
# generator fall otherwise, which changes what the discriminator reads.
LIMITS: dict[Precision, tuple[float, float]] = {"fp32": (2e-5, 1e-3), "bf16": (2e-3, 1e-2)}

# Of networks and fine-tunings: the modern encoder learns faster, so it drifts further.
NETWORK_LIMITS, FINETUNING_LIMIT = (5e-3, 3e-2), 0.02
ROWS, BATCH = 64, 16  # of the fine-tuning

# How far two ways to run the same kernels may differ: sums have no fixed order.
SAME: dict[Precision, float] = {"fp32": 1e-5, "bf16": 1e-4}


@dataclass(frozen=True)
class Mode:
    """A way to compute a step."""

    device: torch.device
    precision: Precision
    compiled: bool = False
    record: Callable[[], Graphs] | None = None  # makes what captures CUDA graphs

    @property
    def name(self) -> str:
        """`cuda fp32 compiled recorded`."""
        ways = [word for word, on in (("compiled", self.compiled), ("recorded", self.record)) if on]
        return " ".join([self.device.type, self.precision, *(ways or ["eager"])])


def modes(device: torch.device) -> list[Mode]:
    """The plain one on the CPU, and all that the device has."""
    if device.type == "cpu":  # the compiler's capture without its code: building that takes minutes
        return [Mode(CPU, "fp32"), Mode(CPU, "fp32", compiled=True), Mode(CPU, "bf16")]
    compilers = (False,) if lacks_to_compile() else (False, True)
    records = (None, lambda: Graphs(device))
    return [Mode(CPU, "fp32"), *[Mode(device, p, c, r) for p in LIMITS for c in compilers for r in records]]


def train(mode: Mode, size: Size, *, rate: float, seeds: list[int]) -> list[float]:
    """The loss of each step; `seeds` are those of dropout, a step each."""
    config, device = size.config, mode.device
    torch.manual_seed(0)
    model = Pretraining(config, size.vocab_size, SPECIAL).to(device).train()
    if mode.compiled:
        compile_parts(model, **({"backend": "aot_eager"} if device.type == "cpu" else {}))
    optimizer = build_optimizer(model.named_parameters(), weight_decay=0.01)
    set_rate(optimizer, rate)
    graphs = mode.record() if mode.record else None
    update = Step(model, optimizer, World(0, 1, device), precision=mode.precision, graphs=graphs)
    rows = MadeUpRows(BATCHES * config.pretrain.batch, config.pretrain.length, size.vocab_size)
    feed = Feed(rows, config, CPU, "noise")
    batches = [moved(feed.batch(number), device) for number in range(BATCHES)]
    slices = config.pretrain.accumulate
    cut = [[part(batch, index, slices) for index in range(slices)] for batch in batches]
    sums = [update(cut[at % BATCHES], [seed] * slices, "joint")[0]["loss"].clone() for at, seed in enumerate(seeds)]
    if graphs is not None and graphs.failed:
        raise RuntimeError("the step was not recorded; the warning above says why")
    return [loss.item() for loss in sums]


def moved(batch: Batch, device: torch.device) -> Batch:
    """Return a batch on another device."""
    there: Batch = tree_map(lambda tensor: tensor.to(device), batch)
    return there


def difference(found: list[float], expected: list[float]) -> float:
    """The largest relative difference; a loss of 0 is wrong, too, but divides nothing."""
    return max(abs(ours - theirs) / max(abs(theirs), 1e-9) for ours, theirs in zip(found, expected, strict=True))


def check(device: torch.device) -> list[dict[str, Any]]:
    """A record for each way, beside the plain one."""
    shape, (plain, *others) = size(device), modes(device)
    quiet = replace(shape.config.encoder, dropout=0.0, attention_dropout=0.0)
    quiet_shape = Size(replace(shape.config, encoder=quiet), shape.vocab_size)
    seeds = list(range(STEPS))
    expected = train(plain, quiet_shape, rate=RATE, seeds=seeds)
    moved_by = difference(expected[-1:], expected[-1 - BATCHES : -BATCHES])
    told = f"{expected[0]:.4f} to {expected[-1]:.4f}"
    records = [record(f"losses: {plain.name}", told, "the weights learn", moved_by > 1e-4)]
    for mode in others:
        found = train(mode, quiet_shape, rate=RATE, seeds=seeds)
        records.append(compared(f"losses: {mode.name}", found, expected, LIMITS[mode.precision]))
    for precision, compiled in sorted({(mode.precision, mode.compiled) for mode in others if mode.record}):
        records.append(dropout(device, shape, precision, compiled))
    return records


def compared(name: str, found: list[float], expected: list[float], limits: tuple[float, float]) -> dict[str, Any]:
    """A record on losses beside those of the plain way; `limits` are of the first step, and of any."""
    apart = difference(found[:1], expected[:1]), difference(found, expected)
    told, right = f"differ by {apart[0]:.1e}, {apart[1]:.1e} in {len(found)} steps", all(map(le, apart, limits))
    return record(name, told, f"{limits[0]:.0e}, {limits[1]:.0e}", right, losses=found)


def dropout(device: torch.device, shape: Size, precision: Precision, compiled: bool) -> dict[str, Any]:
    """At rate 0 losses differ by dropout alone: the recorded step's must be the unrecorded one's, by seed."""
    seeds = [1] * WARM_UP + [1, 1, 2, 2, 1, 1]  # pairs, since batches alternate
    recorder = next(mode.record for mode in modes(device) if mode.record)
    plain, ours = (train(Mode(device, precision, compiled, r), shape, rate=0.0, seeds=seeds) for r in (None, recorder))
    at_any = difference(ours, plain)
    new = difference(ours[-6:-5], ours[-4:-3])
    name = " ".join(["dropout:", device.type, precision, *(["compiled"] if compiled else []), "recorded"])
    found, most = f"differs by {at_any:.1e} from unrecorded, by {new:.1e} from seed to seed", SAME[precision]
    return record(name, found, f"{most:.0e}, more than {most:.0e}", at_any <= most < new, losses=ours)


def check_networks(device: torch.device) -> list[dict[str, Any]]:
    """A record for each network as a device trains it by default; one that fails does not hide the others."""
    records, own = [], default(device)
    seeds = list(range(STEPS if own.record else 3))
    for name, shape in networks(device).items():
        title = f"networks: {name}, {own.name}"
        try:
            expected, found = (train(mode, shape, rate=RATE, seeds=seeds) for mode in (Mode(CPU, "fp32"), own))
        except RuntimeError as error:
            records.append(record(title, str(error).splitlines()[0], "an end", "FAILED"))
        else:
            records.append(compared(title, found, expected, NETWORK_LIMITS))
    return records


def default(device: torch.device) -> Mode:
    """How a device trains: bf16 if it has it, and on a GPU in CUDA graphs; uncompiled, which takes seconds here."""
    last = [mode for mode in modes(device) if not mode.compiled][-1]
    bf16 = device.type == "cpu" or torch.cuda.is_bf16_supported(including_emulation=False)
    return last if bf16 else Mode(device, "fp32", record=last.record)


def check_finetuning(device: torch.device) -> list[dict[str, Any]]:
    """A record for each encoder: the mean losses along a short fine-tuning beside those of the CPU."""
    records = []
    for kind in ("bert", "modern"):
        shape = networks(device)[f"{kind}, tokens"]
        (plain, _), (ours, finite) = (finetuned(shape, place) for place in (CPU, device))
        apart = difference(ours, plain) if finite else float("inf")
        found = f"losses differ by {apart:.1e} in {len(plain)} steps"
        right, title = apart <= FINETUNING_LIMIT, f"finetune: {kind}, {device.type}"
        records.append(record(title, found, f"{FINETUNING_LIMIT:.0e}", right, losses=ours))
    return records


def finetuned(shape: Size, device: torch.device) -> tuple[list[float], bool]:
    """The mean loss a row at each step, and whether all is finite.

    Rows are of one segment and of all lengths; a label says whether the first token is of the vocabulary's upper half.
    """
    length, numbers = shape.config.pretrain.length, np.random.default_rng(0)
    length_N = numbers.integers(length // 4, length, ROWS)
    ids_S = numbers.integers(104, shape.vocab_size, int(length_N.sum())).astype(np.int32)
    labels = {"label": (ids_S[np.cumsum(length_N) - length_N] > shape.vocab_size // 2).astype(np.int64)}
    rows = Examples(ids_S, length_N, length_N.copy(), labels, [str(number) for number in range(ROWS)])
    config = FinetuneConfig(seeds=(1,), batch=BATCH, length=length, epochs=3.0, dropout=0.0)
    config = replace(config, precision="fp32") if device.type == "cpu" else config
    model = Classifier(fresh_encoder(shape.config.encoder, shape.vocab_size, 1), 2, 0.0).to(device)
    torch.manual_seed(1)
    found = training.train(model, rows, config, seed=1, stream="gpu-check", device=device)
    return [loss for _, loss in found.curve], found.finite
