"""What a step needs of a GPU by its settings: time by a roofline, and memory.

time     each matrix product, and each pass over memory between them, takes as long as its operations or its bytes at
         the rate that one large kernel reaches on the card, whichever is longer; forward and backward pass of a
         compiled step, and the update. Hardly a step is faster than that; a good one takes bound / 0.7
memory   18 bytes a parameter (weights, their bf16 copy, gradient, two moments), 34 for each token, layer and hidden
         unit of one slice (Korthikanti et al. 2022, attention not stored), and 8 a logit

Bytes of a product are its operands' and its result's, each once, and its result's gradient once more for the bias.
Between the products a layer moves (S bytes a number): residual sum, dropout and norm 38 + 5 S a hidden unit and twice a
layer (the residual stream is fp32), the activation 5 S for each unit of a plain feed-forward layer and 8 S of a gated
one, attention 4 S forward and 8 S backward. The update moves 44 bytes a parameter.
"""

import functools
import math
from dataclasses import dataclass, replace

import torch

from electra.nn.config import AnyEncoderConfig
from electra.pretraining.config import ElectraConfig
from electra.pretraining.corruption import SpecialIds, slots
from electra.pretraining.flops import training_steps
from electra.pretraining.model import TOKEN_OBJECTIVES, Pretraining
from electra.pretraining.phases import Phase, phases_of

GOOD = 0.7  # share of the bound that a good step reaches
# What one large kernel reaches of its maker's figure: a product, FlashAttention 2, a pass over memory.
PRODUCT, ATTENTION, PASS = 0.75, 0.35, 0.9
CONTEXT = 0.6e9  # bytes that CUDA itself takes
UPDATE = 44  # bytes a parameter: gradient, weight and two moments read and written, the norm, the bf16 copy
USABLE = 0.9  # share of a card's memory that tensors can have: the allocator leaves gaps


@dataclass(frozen=True)
class Card:
    """A GPU by its maker's figures: dense matrix products a second in its training format, bytes a second, bytes."""

    name: str
    flops: float
    bandwidth: float
    memory: float
    number: int = 2  # bytes of a number in a product: 2 is bf16, 4 is fp32


CARDS = {
    "h100": Card("H100", 989e12, 3.35e12, 80e9),
    "h200": Card("H200", 989e12, 4.8e12, 141e9),
    "a100": Card("A100", 312e12, 2.04e12, 80e9),
    "l40s": Card("L40S", 362e12, 0.864e12, 48e9),
    "rtx_4090": Card("RTX 4090", 165e12, 1.008e12, 24e9),
    "rtx_3090": Card("RTX 3090", 71e12, 0.936e12, 24e9),
    "t4": Card("T4 (fp32)", 8.1e12, 0.32e12, 16e9, number=4),  # which has no bf16
}


UNITS = (("minutes", 60.0, 90), ("hours", 3600.0, 72), ("days", 86400.0, 1000), ("years", 365 * 86400.0, math.inf))


def duration(seconds: float) -> str:
    """A duration to plan with."""
    if seconds < 90:
        return "a minute"
    unit, size = next((unit, size) for unit, size, most in UNITS if seconds < most * size)
    count = seconds / size
    return f"{count:.0f} {unit}" if count >= 10 or unit == "minutes" else f"{count:.1f} {unit}"


def measured_card(name: str, rates: dict[str, float]) -> Card:
    """A card by the rates that gpu-check probed: what large kernels reached there."""
    return Card(name, rates["flops"] / PRODUCT, rates["bandwidth"] / PASS, rates["memory"], int(rates.get("number", 2)))


class Bound:
    """Adds up the least seconds of work on a card; `backward`: gradients are made, too."""

    def __init__(self, card: Card, *, backward: bool = True) -> None:
        self.card, self.backward, self.seconds = card, backward, 0.0

    def work(self, flops: float, moved: float, reached: float = PRODUCT) -> None:
        """Operations that read and write so many bytes."""
        self.seconds += max(flops / (reached * self.card.flops), moved / (PASS * self.card.bandwidth))

    def product(self, rows: float, inner: int, columns: int) -> None:
        """A linear layer; its backward pass is two more products of the same size, and the sum for the bias."""
        moved = self.card.number * (rows * inner + inner * columns + rows * columns)
        for _ in range(3 if self.backward else 1):
            self.work(2 * rows * inner * columns, moved)
        self.passes(rows * columns, 0, self.card.number)

    def passes(self, count: float, forward: float, backward: float) -> None:
        """Bytes moved for each of `count` numbers between products."""
        self.work(0, count * (forward + (backward if self.backward else 0)))

    def norm(self, count: float) -> None:
        """Residual sum, dropout and norm; the residual stream is fp32."""
        size = self.card.number
        self.passes(count, 13 + 2 * size, 25 + 3 * size)

    def encoder(self, config: AnyEncoderConfig, tokens: float, length: int) -> None:
        """Embeddings and layers on so many tokens, in rows of `length`."""
        H, E, F, size = config.hidden, config.embedding, config.ffn, self.card.number
        gated = config.ffn_matrices == 3
        self.passes(tokens * E, 20, 20)
        if H != E:
            self.product(tokens, E, H)
        for layer in range(config.layers):
            self.product(tokens, H, 3 * H)
            pairs = tokens * config.reach(layer, length) * H
            self.work(4 * pairs, 4 * size * tokens * H, ATTENTION)
            if self.backward:  # the kernel computes the scores again: five products for two
                self.work(10 * pairs, 8 * size * tokens * H, ATTENTION)
            self.product(tokens, H, H)
            self.norm(tokens * H)
            self.product(tokens, H, (1 + gated) * F)
            self.passes(tokens * F, (3 if gated else 2) * size, (5 if gated else 3) * size)
            self.product(tokens, F, H)
            self.norm(tokens * H)

    def token_head(self, config: AnyEncoderConfig, positions: float, vocab_size: int) -> None:
        """The vocabulary head, and loss and samples from its logits."""
        self.product(positions, config.hidden, config.table)
        self.product(positions, config.table, vocab_size)
        self.passes(positions * vocab_size, 2 * self.card.number, 2 * self.card.number)


def step_bound(config: ElectraConfig, phase: Phase, vocab_size: int, weights: float, card: Card) -> float:
    """Least seconds of an optimizer step on a phase's batch; two-stage training's mean over both stages."""
    objective, tokens = config.objective, float(phase.batch * phase.length)
    chosen = float(phase.batch * slots(objective.mask_rate, phase.length))
    stages = [(True, False), (False, True)] if objective.training == "two_stage" else [(True, True)]
    seconds = 0.0
    for generator, main in stages:  # whether it learns
        if proposer := proposing(config):
            bound = Bound(card, backward=generator)
            bound.encoder(proposer, tokens, phase.length)
            bound.token_head(proposer, chosen, vocab_size)
            seconds += bound.seconds
        if main:
            bound = Bound(card)
            bound.encoder(config.encoder, tokens, phase.length)
            if objective.name in TOKEN_OBJECTIVES:
                asked = tokens if objective.name == "all_tokens_mlm" else chosen
                bound.token_head(config.encoder, asked, vocab_size)
            else:
                bound.product(tokens, config.encoder.hidden, config.encoder.hidden)
                bound.norm(tokens * config.encoder.hidden)
            seconds += bound.seconds
    return seconds / len(stages) + UPDATE * weights / (PASS * card.bandwidth)


def proposing(config: ElectraConfig) -> AnyEncoderConfig | None:
    """The generator's encoder, if a network proposes tokens."""
    wanted = config.objective.name != "mlm" and config.generator.kind == "network"
    return config.generator.encoder(config.encoder) if wanted else None


def training_bound(config: ElectraConfig, vocab_size: int, card: Card) -> float:
    """Least seconds of a whole pre-training."""
    weights = parameters(config, vocab_size)
    phases = phases_of(config.pretrain, training_steps(config, vocab_size))
    return sum((p.last - p.first) * step_bound(config, p, vocab_size, weights, card) for p in phases)


def finetuning_bound(config: AnyEncoderConfig, rows: float, batch: int, length: int, weights: int, card: Card) -> float:
    """Least seconds of fine-tuning on so many rows, all of full length."""
    bound = Bound(card)
    bound.encoder(config, float(batch * length), length)
    return (bound.seconds + UPDATE * weights / (PASS * card.bandwidth)) * rows / batch


@functools.cache
def parameters(config: ElectraConfig, vocab_size: int) -> int:
    """Parameters of both networks, shared ones once."""
    encoder = replace(config.encoder, init="published")  # other initialisations compute with the weights
    config, special = replace(config, encoder=encoder), SpecialIds(pad=0, cls=1, sep=2, mask=3)
    with torch.device("meta"):
        model = Pretraining(config, vocab_size, special)
    return sum(parameter.numel() for parameter in model.parameters())


def memory(config: ElectraConfig, weights: int, vocab_size: int, accumulate: int | None = None) -> float:
    """Bytes of a GPU that a step needs, in the phase with the largest slices, of which a batch has `accumulate`."""
    settings, networks, most = config.pretrain, [config.encoder], 0
    if proposer := proposing(config):
        networks.append(proposer)
    for phase in phases_of(settings, training_steps(config, vocab_size)):
        rows = -(-phase.batch // (accumulate or settings.accumulate))
        activations = sum(34 * rows * phase.length * each.layers * each.hidden for each in networks)
        most = max(most, activations + 8 * rows * slots(config.objective.mask_rate, phase.length) * vocab_size)
    return CONTEXT + 18.0 * weights + most


def slices_that_fit(config: ElectraConfig, vocab_size: int, room: float, *, above: int = 0, processes: int = 1) -> int:
    """The least `pretrain.accumulate` above a number with which a step fits into so many bytes; 0 if none does."""
    batch, weights = math.gcd(*(p.batch for p in phases_of(config.pretrain, 1))), parameters(config, vocab_size)
    for count in range(above + 1, batch + 1):
        slices = math.lcm(count, processes)
        if batch % slices == 0 and memory(config, weights, vocab_size, slices) <= USABLE * room:
            return count
    return 0
