"""The settings of a pre-training: networks, objective, schedule, and which of them affect its
result.
"""

import dataclasses
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError
from pydantic.dataclasses import dataclass

from electra.config import (
    Amount,
    BelowOne,
    Count,
    Fraction,
    Positive,
    Probability,
    Rate,
    Seed,
    Settings,
    Size,
    Weight,
    faults,
    require,
    to_jsonable,
)
from electra.errors import BadConfig
from electra.nn.config import EncoderConfig


@dataclass(frozen=True, kw_only=True)
class GeneratorConfig(Settings):
    """The generator relative to the discriminator. `width` scales hidden, FFN and heads; `depth`
    scales layers.
    """

    kind: Literal["network", "unigram"] = "network"
    width: Rate = 0.25
    depth: Rate = 1.0

    def encoder(self, discriminator: EncoderConfig) -> EncoderConfig:
        """Return the generator's encoder: rounded width, heads of 64 where it allows, FFN 4 ×
        hidden (modern: scaled, in eights where the discriminator's is, for GPUs' matrix units).

        The embedding size stays the discriminator's (electra: generator keeps E and projects to its
        hidden size).
        """
        hidden = max(1, round(discriminator.hidden * self.width))
        heads = max(1, hidden // 64) if self.width < 1 else discriminator.heads
        ffn = discriminator.scaled_ffn(self.width)
        layers = max(1, round(discriminator.layers * self.depth))
        return dataclasses.replace(
            discriminator, hidden=hidden, heads=heads, ffn=ffn, layers=layers, init="published"
        )


Objective = Literal["electra", "electra_15", "replace_mlm", "all_tokens_mlm", "mlm"]


@dataclass(frozen=True, kw_only=True)
class ObjectiveConfig(Settings):
    """The objective (paper, sections 2, 3.2 to 3.4, appendix). Defaults are as published."""

    name: Objective = "electra"
    mask_rate: Fraction = 0.15
    # of the chosen positions; null: as published, see `replacement_shares`
    mask_token_rate: Probability | None = None
    random_token_rate: Probability | None = None
    discriminator_weight: Positive = 50.0
    generator_weight: Weight = 1.0
    temperature: Positive = 1.0
    disallow_correct: bool = False
    sharing: Literal["none", "tokens", "embeddings", "all", "gradient_disentangled"] = "embeddings"
    training: Literal["joint", "two_stage", "adversarial"] = "joint"

    def __post_init__(self) -> None:
        masked, random = self.replacement_shares
        require(
            random <= 1 - masked,
            f"random_token_rate: is {random}, should leave mask_token_rate its share ({masked})",
        )
        if self.training != "joint":
            require(
                self.name == "electra",
                f"training: is {self.training}, should be joint with objective {self.name}",
            )

    @property
    def replacement_shares(self) -> tuple[float, float]:
        """Return the shares of the chosen positions that become [MASK] and any token at random. The
        rest keep theirs.

        Published: 85 % and none (electra: mask); for `mlm`, which is BERT, its 80 % and 10 %
        (Devlin et al., section 3.1).
        """
        masked, random = (0.8, 0.1) if self.name == "mlm" else (0.85, 0.0)
        masked = masked if self.mask_token_rate is None else self.mask_token_rate
        return masked, random if self.random_token_rate is None else self.random_token_rate


@dataclass(frozen=True, kw_only=True)
class Flops(Settings):
    """A training budget in floating point operations, by the authors' convention
    (electra/pretraining/flops.py).
    """

    flops: Annotated[float, Field(gt=0, le=1e30)]


@dataclass(frozen=True, kw_only=True)
class PhaseConfig(Settings):
    """A stretch of a run on rows of one length. Its part of the run is a share of all steps, or a
    number of them.
    """

    length: Size
    share: Rate | None = None
    steps: Count | None = None
    batch: Count | None = None  # null: pretrain's

    def __post_init__(self) -> None:
        require(
            (self.share is None) != (self.steps is None),
            "share: should be set, or `steps` instead of it",
        )

    @property
    def weight(self) -> float:
        """Return its part, in relation to the other phases'."""
        return self.share or self.steps or 0


# Keys of PretrainConfig that bear on no result: how a run is computed, logged and saved. They may
# change in mid-run; some then change the rounding of sums, or which points the curve has
# (min_eval_interval_minutes). The hashes of the weights in `init_from` stand for its path.
NOT_IN_FINGERPRINT = {
    "threads",
    "compile",
    "deterministic",
    "log_every",
    "min_eval_interval_minutes",
    "save_every",
    "min_save_interval_minutes",
    "keep_checkpoints",
    "init_from",
}


@dataclass(frozen=True, kw_only=True)
class PretrainConfig(Settings):
    """Length and speed of training. Paper, Table 6. `steps` is a count or `{flops: 8.9e16}`.

    With `phases` the length of rows changes in mid-run (phases.py): `length` is then the last
    one's, which held-out rows also have, and `steps` the sum of the phases' own; neither need be
    written. Phases with shares leave `steps` to stand.
    """

    length: Size = None  # type: ignore[assignment]  # never after __post_init__, nor is steps
    batch: Count
    steps: Count | Flops = None  # type: ignore[assignment]
    phases: tuple[PhaseConfig, ...] = ()
    learning_rate: Rate
    # of the generator's own weights; those it shares learn at learning_rate
    generator_lr_scale: Positive = 1.0
    warmup: Amount = 10_000
    weight_decay: Probability = 0.01
    beta1: BelowOne = 0.9
    beta2: BelowOne = 0.999
    eps: Fraction = 1e-6
    bias_correction: bool = False
    schedule: Literal["product", "warmup_stable_decay"] = "product"
    decay_share: Fraction = 0.1  # of the steps, at the end of warmup_stable_decay
    max_grad_norm: Positive = 1.0
    # slices of a batch, one after the other; processes, and a CPU's threads, share them
    accumulate: Count = 1
    seed: Seed = 1
    # auto: bf16 on GPUs that have it, otherwise fp32
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    # torch ends the process where it is asked for a million
    threads: Annotated[int, Field(ge=1, le=1024)] = 2
    compile: Literal["auto", "off"] = "auto"  # the networks, on GPUs
    # on a GPU: the same bytes in every run of one machine, by slower kernels
    deterministic: bool = False
    log_every: Count = 100
    eval_every: Count = 1000  # steps
    min_eval_interval_minutes: Annotated[float, Field(ge=0, le=10_000)] = 0.0
    eval_batches: Count = 16
    save_every: Count = 1000  # steps
    min_save_interval_minutes: Annotated[float, Field(ge=0, le=10_000)] = 0.0
    # a damaged one has another to fall back to
    keep_checkpoints: Annotated[int, Field(ge=2, le=10**9)] = 2
    init_from: str | None = None

    def __post_init__(self) -> None:
        self._take_from_phases()
        for batch in {self.batch, *(phase.batch or self.batch for phase in self.phases)}:
            require(
                batch % self.accumulate == 0,
                f"accumulate: is {self.accumulate}, should divide batch ({batch})",
            )
        if isinstance(self.steps, int):
            require(
                self.warmup <= self.steps,
                f"warmup: is {self.warmup}, should be at most steps ({self.steps})",
            )
        if self.schedule == "product":
            require(
                self.decay_share == PretrainConfig.decay_share,
                f"decay_share: is {self.decay_share}, which needs schedule warmup_stable_decay",
            )

    @property
    def lengths(self) -> tuple[int, ...]:
        """Return the lengths of rows that a run reads, each once. That of held-out rows is last."""
        others = dict.fromkeys(phase.length for phase in self.phases)
        others.pop(self.length, None)
        return *others, self.length

    def _take_from_phases(self) -> None:
        """Set `length` and `steps` where phases say them. Refuse phases that do not fit."""
        if self.phases:
            counts = [phase.steps for phase in self.phases]
            shares = [phase.share for phase in self.phases]
            consistent = None not in counts or None not in shares
            require(consistent, "phases: should all have a share, or all have steps")
            total = sum(phase.weight for phase in self.phases)
            if None in counts:
                sentence = f"phases: have shares {shares}, which should sum to 1"
                require(abs(total - 1) < 1e-6, sentence)
            else:
                self._take("steps", total, f"the sum of the phases' steps ({total})")
            last = self.phases[-1].length
            self._take("length", last, f"the last phase's ({last}) or left out")
        for key in ("length", "steps"):
            require(getattr(self, key) is not None, f"{key}: is missing")

    def _take(self, key: str, value: float, should_be: str) -> None:
        """Set a key that phases decide. Refuse another value."""
        given = getattr(self, key)
        require(given in {None, value}, f"{key}: is {given}, should be {should_be}")
        object.__setattr__(self, key, value)


@dataclass(frozen=True, kw_only=True)
class ElectraConfig(Settings):
    """Everything that defines one pre-training: `models.<name>` of params.yaml, without the
    settings that only pipelines use.
    """

    encoder: EncoderConfig
    pretrain: PretrainConfig
    generator: GeneratorConfig = GeneratorConfig()
    objective: ObjectiveConfig = ObjectiveConfig()

    def __post_init__(self) -> None:
        objective = self.objective
        pretrain = self.pretrain
        network = self.generator.kind == "network"
        twin = network and self.generator.width == 1 and self.generator.depth == 1
        for length in pretrain.lengths:
            require(
                length <= self.encoder.positions,
                f"pretrain.length: is {length}, should be at most encoder.positions "
                f"({self.encoder.positions})",
            )
        if network and objective.name != "mlm":
            self._check_generator()
        require(
            objective.sharing != "all" or twin,
            "objective.sharing: is all, which needs generator.width 1 and generator.depth 1",
        )
        if objective.training == "two_stage":
            require(
                len(pretrain.phases) < 2,
                "objective.training: is two_stage, should be joint with pretrain.phases",
            )
            require(
                twin and objective.sharing == "none",
                "objective.training: is two_stage, which needs generator.width 1, generator.depth "
                "1 and objective.sharing none: the discriminator starts from the generator's "
                "weights",
            )
            if isinstance(pretrain.steps, int):
                half = pretrain.steps // 2
                require(
                    pretrain.warmup <= half,
                    f"pretrain.warmup: is {pretrain.warmup}, should be at most half of steps "
                    f"({half}), since each stage warms up",
                )
        trains = objective.training == "joint" and objective.sharing in {"none", "embeddings"}
        require(
            network or trains,
            f"generator.kind: is {self.generator.kind}, which has no weights to share or to train "
            "in stages",
        )

    def _check_generator(self) -> None:
        width = self.generator.width
        try:
            self.generator.encoder(self.encoder)
        except ValidationError as error:
            faulty = "; ".join(faults(error, None))
            raise BadConfig(f"generator.width: {width:g} makes a generator with {faulty}") from None
        shares = self.encoder.shareable_embeddings or width == 1
        require(
            shares or self.objective.sharing != "embeddings",
            "objective.sharing: is embeddings, should be tokens: a modern encoder's embedding norm "
            "is as wide as its layers, so only words can be shared",
        )

    def stage_steps(self, steps: int) -> int:
        """Return how many of a run's steps one stage has: in two-stage training half of them, else
        all.
        """
        return steps // 2 if self.objective.training == "two_stage" else steps


def fingerprinted_settings(config: ElectraConfig) -> dict[str, Any]:
    """Return the settings that bear on the result of a pre-training."""
    values: dict[str, Any] = to_jsonable(config)
    for key in NOT_IN_FINGERPRINT:
        del values["pretrain"][key]
    return values
