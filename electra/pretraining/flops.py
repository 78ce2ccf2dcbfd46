"""Count the floating point operations of any configuration, in two conventions. Every figure is
printed with the name of its convention.

- `authors`: the original's counting script. Every operation (softmax 5, dropout 4, LayerNorm 5,
  gelu 8 a number; dense one-hot embedding lookups), output softmax on 15.625 % of tokens, training
  = 2 × forward. Budgets (`steps: {flops: …}`) and the paper's tables are in this one.
- `matmul`: matrix products only (2mnk), sparse lookups, head on the chosen slots, training = 3 ×
  forward. Utilisation (share of a device's peak) is in this one.

A modern generator's word table, a product of two matrices, is multiplied once a step for lookup and
once for the output; that is not counted: 2 V E H operations a step, below a hundredth of one.

Symbols: T positions, V vocabulary, H hidden, E embedding, F feed-forward, A heads.
"""

from typing import Literal

from electra.errors import BadConfig
from electra.nn.config import GELU, NORM, SOFTMAX, EncoderConfig
from electra.pretraining.config import ElectraConfig, Flops
from electra.pretraining.corruption import slots
from electra.pretraining.phases import Phase, make_phases

Convention = Literal["authors", "matmul"]
_OUTPUT_FRACTION = 0.15625


def encoder_flops(
    config: EncoderConfig, length: int, vocab_size: int, convention: Convention
) -> float:
    """Return the forward operations of embedding block and layers for one row.

    Attention to a window counts as attention to the whole row, which masked attention computes.
    """
    T = length
    H = config.hidden
    E = config.embedding
    F = config.ffn
    products = 8 * H * H + 4 * H * T + 2 * config.ffn_matrices * H * F
    projection = 0 if H == E else 2 * H * E
    if convention == "matmul":
        return float(T * (config.layers * products + projection))
    layer, around = config.pointwise_flops(T)
    return float(
        T * (config.layers * (products + layer) + 2 * E * vocab_size + around + projection)
    )


def token_head_flops(
    config: EncoderConfig, positions: float, vocab_size: int, convention: Convention
) -> float:
    """Return the forward operations of the vocabulary head at a number of positions."""
    H = config.hidden
    E = config.embedding_width
    V = vocab_size
    if convention == "matmul":
        return float(positions * 2 * (H * E + E * V))
    return float(positions * (2 * E * V + 2 * H * E + E + (GELU + NORM) * E + (SOFTMAX + 2) * V))


def binary_head_flops(config: EncoderConfig, length: int, convention: Convention) -> float:
    """Return the forward operations of the replaced-token head for one row."""
    H = config.hidden
    pointwise = GELU + (NORM if config.norm_in_disc_head else 0) + (1 if config.biases else 0)
    return float(length * (2 * H * H + 2 * H + (0 if convention == "matmul" else pointwise * H)))


def row_flops(
    config: ElectraConfig, T: int, vocab_size: int, convention: Convention
) -> tuple[float, float]:
    """Return the forward operations of generator and discriminator for one row."""
    objective = config.objective
    share = (
        _OUTPUT_FRACTION * T if convention == "authors" else float(slots(objective.mask_rate, T))
    )
    generator = 0.0
    if objective.name != "mlm" and config.generator.kind == "network":
        small = config.generator.encoder(config.encoder)
        generator = encoder_flops(small, T, vocab_size, convention)
        generator += token_head_flops(small, share, vocab_size, convention)
    main = encoder_flops(config.encoder, T, vocab_size, convention)
    if objective.name in {"electra", "electra_15"}:
        main += binary_head_flops(config.encoder, T, convention)
    else:
        predicted = T if objective.name == "all_tokens_mlm" else share
        main += token_head_flops(config.encoder, predicted, vocab_size, convention)
    return generator, main


def phase_flops(
    config: ElectraConfig, phase: Phase, vocab_size: int, convention: Convention = "authors"
) -> float:
    """Return the operations of one optimizer step on a phase's batch.

    Two-stage training spends half its steps on each network.
    """
    generator, discriminator = row_flops(config, phase.length, vocab_size, convention)
    factor = 2 if convention == "authors" else 3  # forward and backward
    if config.objective.training == "two_stage":
        again = generator / factor  # frozen: forward only
        return phase.batch * factor * (generator + again + discriminator) / 2
    return phase.batch * ((generator + discriminator) * factor)


def step_flops(config: ElectraConfig, vocab_size: int, convention: Convention = "authors") -> float:
    """Return the operations of one optimizer step; over several phases their mean, weighted by
    their steps.
    """
    shares = [phase.weight for phase in config.pretrain.phases] or [1.0]
    phases = zip(shares, make_phases(config.pretrain, 1), strict=True)
    return sum(
        share * phase_flops(config, phase, vocab_size, convention) for share, phase in phases
    ) / sum(shares)


def training_steps(config: ElectraConfig, vocab_size: int) -> int:
    """Return the steps of a run: the count itself, or as many as a budget of operations (authors'
    convention) pays for.

    Raises BadConfig for a budget that ends before the warm-up does.
    """
    steps = config.pretrain.steps
    if not isinstance(steps, Flops):
        return steps
    count = max(1, round(steps.flops / step_flops(config, vocab_size)))
    stage = config.stage_steps(count)
    warmup = config.pretrain.warmup
    if warmup > stage:
        half = f", {stage:,} in each stage" if stage < count else ""
        raise BadConfig(
            f"pretrain.steps.flops {steps.flops:g}: pays for {count:,} steps{half}, fewer than the "
            f"{warmup:,} of pretrain.warmup: raise the budget or shorten the warm-up"
        )
    return count


def training_flops(
    config: ElectraConfig, vocab_size: int, convention: Convention = "authors"
) -> float:
    """Return the operations of the whole pre-training."""
    phases = make_phases(config.pretrain, training_steps(config, vocab_size))
    return sum(
        (phase.last - phase.first) * phase_flops(config, phase, vocab_size, convention)
        for phase in phases
    )
