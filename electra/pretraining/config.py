"""The settings of a pre-training: networks, objective, schedule, and which of them bear on its result."""

import dataclasses
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from electra.config import plain, require
from electra.domains import (
    Amount,
    BelowOne,
    Checked,
    Count,
    Fraction,
    Interval,
    Positive,
    Probability,
    Rate,
    Seed,
    Size,
    Weight,
)
from electra.errors import BadConfig
from electra.nn.config import AnyEncoderConfig, ModernConfig


@dataclass(frozen=True, kw_only=True)
class GeneratorConfig(Checked):
    """The generator relative to the discriminator. `width` scales hidden, FFN and heads; `depth` scales layers."""

    kind: Literal["network", "unigram", "uniform"] = "network"
    width: Rate = 0.25
    depth: Rate = 1.0

    def encoder(self, discriminator: AnyEncoderConfig) -> AnyEncoderConfig:
        """The generator's own encoder: rounded width, heads of 64 where the width allows, FFN 4 × hidden (modern: scaled).

        The embedding size stays the discriminator's (electra: generator keeps E and projects to its hidden size).
        """
        hidden = max(1, round(discriminator.hidden * self.width))
        heads = max(1, hidden // 64) if self.width < 1 else discriminator.heads
        ffn = 4 * hidden if self.width < 1 else discriminator.ffn
        if isinstance(discriminator, ModernConfig):
            ffn = max(1, round(discriminator.ffn * self.width))
        layers = max(1, round(discriminator.layers * self.depth))
        init: Any = "published" if discriminator.init == "mimetic" else discriminator.init
        return dataclasses.replace(discriminator, hidden=hidden, heads=heads, ffn=ffn, layers=layers, init=init)


Objective = Literal["electra", "electra_15", "replace_mlm", "all_tokens_mlm", "mlm"]


@dataclass(frozen=True, kw_only=True)
class ObjectiveConfig(Checked):
    """What is trained: paper sections 2, 3.2 to 3.4 and appendix. Defaults are the published system."""

    name: Objective = "electra"
    mask_rate: Fraction = 0.15
    mask_token_rate: Probability | None = None  # of the chosen positions; null: as published, see `written`
    random_token_rate: Probability | None = None
    faithful_masking: bool = False  # draw positions with replacement as the original does
    discriminator_weight: Positive = 50.0
    generator_weight: Weight = 1.0
    temperature: Positive = 1.0
    disallow_correct: bool = False
    sharing: Literal["none", "tokens", "embeddings", "all", "gradient_disentangled"] = "embeddings"
    training: Literal["joint", "two_stage", "adversarial"] = "joint"

    def __post_init__(self) -> None:
        super().__post_init__()
        masked, random = self.written
        require(
            random <= 1 - masked, "random_token_rate", random, "a probability that leaves mask_token_rate its share"
        )
        if self.training != "joint":
            require(self.name == "electra", "training", self.training, "joint, unless the objective is electra")

    @property
    def written(self) -> tuple[float, float]:
        """The shares of the chosen positions that become [MASK] and any token at random; the rest keep theirs.

        Published: 85 % and none (electra: mask); for `mlm`, which is BERT, its 80 % and 10 % (Devlin et al., section 3.1).
        """
        masked, random = (0.8, 0.1) if self.name == "mlm" else (0.85, 0.0)
        return (
            masked if self.mask_token_rate is None else self.mask_token_rate,
            random if self.random_token_rate is None else self.random_token_rate,
        )


@dataclass(frozen=True, kw_only=True)
class Flops(Checked):
    """A training budget in floating point operations, by the authors' convention (electra/pretraining/flops.py)."""

    flops: Annotated[float, Interval(0, 1e30, "(]")]


# Keys of PretrainConfig that bear on no result: how a run is computed, printed and kept. They may change in mid-run, up to
# the rounding of sums (threads, parallel, compile, deterministic). The hashes of the weights in `init_from` stand for its path.
NO_BEARING = frozenset(
    {"parallel", "threads", "compile", "deterministic", "log_every", "save_every", "save_minutes", "keep", "init_from"}
)


@dataclass(frozen=True, kw_only=True)
class PretrainConfig(Checked):
    """How long and how fast. Paper, Table 6; `steps` is a count or a budget `{flops: 8.9e16}`."""

    length: Size
    batch: Count
    steps: Count | Flops
    learning_rate: Rate
    generator_rate: Positive = (
        1.0  # the generator's share of that; what it shares with the discriminator learns at the whole
    )
    warmup: Amount = 10_000
    weight_decay: Probability = 0.01
    beta1: BelowOne = 0.9
    beta2: BelowOne = 0.999
    eps: Fraction = 1e-6
    bias_correction: bool = False
    schedule: Literal["product", "warmup_then_decay"] = "product"
    clip: Positive = 1.0
    accumulate: Count = 1  # slices of a batch, computed one after the other; several processes share them
    parallel: Literal["ddp", "fsdp"] = "ddp"  # with several processes: whole networks in each, or sharded (for large)
    seed: Seed = 1
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    threads: Annotated[int, Interval(1, 1024)] = 2  # torch ends the process where it is asked for a million
    compile: Literal["auto", "on", "off"] = "auto"
    deterministic: bool = False  # on a GPU: the same bytes in every run of one machine, by slower kernels
    log_every: Count = 100
    eval_every: Count = 1000
    eval_batches: Count = 16
    save_every: Count = 1000  # steps
    save_minutes: Annotated[float, Interval(0, 10_000)] = 0.0  # and no sooner than so long after the last one
    keep: Annotated[int, Interval(2, 10**9)] = 2  # so that a damaged checkpoint has one to fall back to
    init_from: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.batch % self.accumulate == 0, "accumulate", self.accumulate, f"a divisor of batch ({self.batch})")
        if isinstance(self.steps, int):
            require(self.warmup <= self.steps, "warmup", self.warmup, f"at most steps ({self.steps})")


@dataclass(frozen=True, kw_only=True)
class ElectraConfig:
    """Everything that defines one pre-training: the section `models.<name>` of params.yaml, less what only pipelines use."""

    encoder: AnyEncoderConfig
    pretrain: PretrainConfig
    generator: GeneratorConfig = GeneratorConfig()
    objective: ObjectiveConfig = ObjectiveConfig()

    def __post_init__(self) -> None:
        require(
            self.pretrain.length <= self.encoder.positions,
            "pretrain.length",
            self.pretrain.length,
            f"at most encoder.positions ({self.encoder.positions})",
        )
        network = self.generator.kind == "network"
        if network and self.objective.name != "mlm":
            try:
                self.generator.encoder(self.encoder)
            except BadConfig as error:
                found = f"makes a generator whose {error.where} {error.found}"
                raise BadConfig("generator.width", f"{self.generator.width:g} {found}", error.expected) from None
        narrow = network and self.objective.name != "mlm" and self.generator.width != 1
        if isinstance(self.encoder, ModernConfig) and narrow and self.objective.sharing == "embeddings":
            found = f"embeddings with generator.width {self.generator.width:g}"
            expected = "tokens: a modern encoder's embedding norm is as wide as its layers, so only words can be shared"
            raise BadConfig("objective.sharing", f"is {found}", expected, "set objective.sharing: tokens")
        if self.objective.sharing == "all":
            same = self.generator.kind == "network" and self.generator.width == 1 and self.generator.depth == 1
            require(same, "objective.sharing", "all", "generator width 1 and depth 1 with it")
        if self.objective.training == "two_stage":
            same = self.generator.kind == "network" and self.generator.width == 1 and self.generator.depth == 1
            expected = (
                "generator width 1, depth 1 and sharing none: the discriminator begins with the generator's weights"
            )
            require(same and self.objective.sharing == "none", "objective.training", "two_stage", expected)
            if isinstance(steps := self.pretrain.steps, int):
                room = f"at most half of steps ({steps // 2}): each stage has its own"
                require(self.pretrain.warmup <= steps // 2, "pretrain.warmup", self.pretrain.warmup, room)
        if self.generator.kind != "network":
            trains = self.objective.training == "joint" and self.objective.sharing in {"none", "embeddings"}
            require(
                trains, "generator.kind", self.generator.kind, "joint training and no other sharing: it has no weights"
            )

    def stage_steps(self, steps: int) -> int:
        """How many of a run's steps its shortest stage has."""
        return steps // 2 if self.objective.training == "two_stage" else steps


def of_config(config: ElectraConfig) -> dict[str, Any]:
    """The settings that bear on the result of a pre-training."""
    values: dict[str, Any] = plain(config)
    for key in NO_BEARING:
        del values["pretrain"][key]
    return values
