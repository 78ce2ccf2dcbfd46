"""Estimate the cost of a training from its settings: memory of a GPU, and time on several GPUs.

Time is floating point operations / (the maker's peak × the share of it that training reaches). The
share is a range of published ones, 21 to 46 % (Chowdhery et al. 2022, Table 3: GPT-3 and PaLM). On
a GPU it falls with the width below 768 hidden units, as the operations per byte of memory do.
Times measured on an H200 are within the range (docs/gpu.md).

Memory is 18 bytes a parameter (weights, bf16 copy, gradient, two moments), 34 for each token, layer
and hidden unit of a slice of the batch (Korthikanti et al. 2022, attention not stored), 8 a logit,
and CUDA's own memory.
"""

import functools
import math
import time
from dataclasses import dataclass, replace

import torch
from torch.utils.benchmark import Timer
from torch.utils.benchmark.utils.timer import timer as default_timer

from electra.data.tokenizer import HubTokenizer, TrainTokenizer, VocabTokenizer
from electra.nn.config import EncoderConfig
from electra.pretraining.config import ElectraConfig
from electra.pretraining.corruption import SpecialIds, slots
from electra.pretraining.flops import training_steps
from electra.pretraining.model import Pretraining
from electra.pretraining.phases import make_phases
from electra.workers import worker_count
from pipelines.stages.announce import duration

UTILISATION = (0.46, 0.21)  # share of the peak: the fastest first
WIDE = 768  # hidden units from which a GPU reaches it
PUBLISHED_VOCABULARY = 30_522  # BERT's vocab.txt
PUBLISHED_JSON = 50_368  # ModernBERT's tokenizer.json
CONTEXT = 0.6e9  # bytes that CUDA itself takes
USABLE = 0.9  # share of a GPU's memory that tensors can have: the allocator leaves gaps


@dataclass(frozen=True)
class Gpu:
    """A GPU by its maker's figures: dense operations per second in its training format, bytes of
    memory (a CPU: 0).
    """

    name: str
    flops: float
    memory: float


GPUS = {
    "h100": Gpu("H100", 989e12, 80e9),
    "h200": Gpu("H200", 989e12, 141e9),
    "a100": Gpu("A100", 312e12, 80e9),
    "rtx_4090": Gpu("RTX 4090", 165e12, 24e9),
    "t4": Gpu("T4", 8.1e12, 16e9),  # in fp32: it has no bf16
}


def this_machine() -> Gpu:
    """Return this machine's GPU by its maker's figures. Without known figures, time a matrix
    product now.
    """
    count = worker_count()
    name = f"{count} CPU cores"
    device = "cpu"
    clock = time.process_time  # so that other work on the machine does not count
    if torch.cuda.is_available():
        count = 1
        name = torch.cuda.get_device_name()
        device = "cuda"
        clock = default_timer
        for gpu in GPUS.values():
            if gpu.name.removeprefix("RTX ") in name:
                return replace(gpu, name=f"this machine's {gpu.name}")
    values = {"left": torch.ones(2048, 256, device=device)}
    values["right"] = torch.ones(256, 512, device=device)
    seconds = Timer("left @ right", timer=clock, globals=values).timeit(20).mean
    return Gpu(f"this machine's {name}", count * 2 * 2048 * 256 * 512 / seconds, 0)


def vocabulary(tokenizer: TrainTokenizer | VocabTokenizer | HubTokenizer) -> int:
    """Return the size of a vocabulary: as it is to be trained, else as the published ones."""
    if isinstance(tokenizer, TrainTokenizer):
        return tokenizer.vocab_size
    return PUBLISHED_JSON if tokenizer.file.endswith(".json") else PUBLISHED_VOCABULARY


def utilisation(gpu: Gpu, hidden: int) -> tuple[float, float]:
    """Return the share of a GPU's peak that training reaches with so many hidden units, the
    highest first.
    """
    width = 1.0 if gpu.memory == 0 else min(1.0, hidden / WIDE)
    return UTILISATION[0] * width, UTILISATION[1] * width


def span(flops: float, gpu: Gpu, hidden: int) -> str:
    """Return how long so many operations take on a GPU, as two durations."""
    first, last = (duration(flops / (gpu.flops * share)) for share in utilisation(gpu, hidden))
    if first == last:
        return last
    number, unit = first.split()
    same = unit.rstrip("s") == last.split()[1].rstrip("s")
    return f"{number if same else first} to {last}"


@functools.cache
def parameters(config: ElectraConfig, vocab_size: int) -> int:
    """Return the number of parameters of both networks, shared ones once."""
    # other initialisations compute with the weights
    encoder = replace(config.encoder, init="published")
    special = SpecialIds(pad=0, cls=1, sep=2, mask=3)
    with torch.device("meta"):
        model = Pretraining(
            replace(config, encoder=encoder), vocab_size, special, torch.ones(vocab_size)
        )
    return sum(parameter.numel() for parameter in model.parameters())


def pretraining_memory(config: ElectraConfig, vocab_size: int, accumulate: int) -> float:
    """Return the bytes of a GPU that a step needs, in the phase with the largest slices."""
    networks: list[EncoderConfig] = [config.encoder]
    if config.objective.name != "mlm" and config.generator.kind == "network":
        networks.append(config.generator.encoder(config.encoder))
    units = sum(network.layers * network.hidden for network in networks)
    largest = 0.0
    for phase in make_phases(config.pretrain, training_steps(config, vocab_size)):
        rows = -(-phase.batch // accumulate)
        logits = rows * slots(config.objective.mask_rate, phase.length) * vocab_size
        largest = max(largest, 34 * rows * phase.length * units + 8 * logits)
    return CONTEXT + 18.0 * parameters(config, vocab_size) + largest


def fitting_accumulate(config: ElectraConfig, vocab_size: int, memory: float) -> int:
    """Return the least `pretrain.accumulate` with which a step fits into so many bytes; 0 if none
    does.
    """
    batch = math.gcd(*(phase.batch for phase in make_phases(config.pretrain, 1)))
    for count in range(config.pretrain.accumulate, batch + 1):
        if batch % count == 0 and pretraining_memory(config, vocab_size, count) <= USABLE * memory:
            return count
    return 0
