"""Settings as frozen dataclasses, and the one strict way from plain mappings (params.yaml) to them.

Each dataclass checks itself when built; its error names the key to change. `build` refuses unknown keys (naming the
nearest valid one), wrong types and missing values, and says where in the file they stand.
"""

import contextlib
import dataclasses
import difflib
import functools
import hashlib
import json
import math
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar

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
from electra.errors import BadConfig, shown

T = TypeVar("T")
type_hints: Callable[[Any], dict[str, Any]] = functools.cache(typing.get_type_hints)


def build(kind: type[T], values: Any, where: str) -> T:
    """Build dataclass `kind` from a mapping found at `where` (a dotted path such as `models.tiny.pretrain`)."""
    if not isinstance(values, dict):
        raise BadConfig(where, f"is {shown(values)}", "a section of keys and values")
    fields = {field.name: field for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    for key in values:
        if key not in fields:
            place = f"{where}.{key}" if isinstance(key, str) else f"{where}[{shown(key)}]"
            raise BadConfig(place, "is not a parameter", f"one of {', '.join(fields)}", nearest(str(key), fields))
    hints = type_hints(kind)
    arguments = {key: _convert(hints[key], value, f"{where}.{key}") for key, value in values.items()}
    for name, field in fields.items():
        if name not in values and field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            kind_of = typing.get_origin(hints[name]) or hints[name]
            do = f"write `{name}: {{}}` if there is none" if kind_of is dict else ""
            raise BadConfig(f"{where}.{name}", "is missing", describe(hints[name]), do)
    try:
        return kind(**arguments)
    except BadConfig as error:
        raise BadConfig(f"{where}.{error.where}", error.found, error.expected, error.do) from None


def nearest(name: str, valid: typing.Iterable[str]) -> str:
    """`did you mean ...?` for a misspelt name, or nothing."""
    close = difflib.get_close_matches(name, list(valid), n=1)
    return f"did you mean {close[0]}?" if close else ""


def describe(hint: Any) -> str:
    """A type hint in a user's words."""
    if typing.get_origin(hint) is Literal:
        return "one of " + ", ".join(map(str, typing.get_args(hint)))
    if typing.get_origin(hint) in {typing.Union, types.UnionType}:
        return " or ".join(describe(option) for option in typing.get_args(hint))
    if dataclasses.is_dataclass(hint):
        return "a section"
    names = {int: "a whole number", float: "a number", str: "text", bool: "true or false", type(None): "null"}
    return names.get(hint) or ("a list" if typing.get_origin(hint) in {list, tuple} else "a mapping")


def _convert(hint: Any, value: Any, where: str) -> Any:
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        if value in inner and type(value) in {type(option) for option in inner}:
            return value
    elif origin in {typing.Union, types.UnionType}:
        return _convert_union(inner, value, where, hint)
    elif dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return build(hint, value, where)
    elif origin is tuple and isinstance(value, list | tuple):
        return tuple(_convert(inner[0], item, f"{where}[{i}]") for i, item in enumerate(value))
    elif origin is dict and isinstance(value, dict):
        return {
            _convert(inner[0], key, f"{where}[{shown(key)}]"): _convert(inner[1], item, f"{where}.{key}")
            for key, item in value.items()
        }
    elif hint is Any:
        return value
    elif hint is float and isinstance(value, int | float) and not isinstance(value, bool):
        with contextlib.suppress(OverflowError):  # of a whole number beyond all floats
            if math.isfinite(number := float(value)):
                return number
    elif (hint is int and type(value) is int) or (hint in {bool, str, type(None)} and isinstance(value, hint)):
        return value
    advice = nearest(value, map(str, inner)) if origin is Literal and isinstance(value, str) else ""
    raise BadConfig(where, f"is {shown(value)}", describe(hint), advice)


def _convert_union(options: tuple[Any, ...], value: Any, where: str, hint: Any) -> Any:
    sections = [option for option in options if dataclasses.is_dataclass(option)]
    if isinstance(value, dict) and len(sections) == 1:
        return _convert(sections[0], value, where)
    if isinstance(value, dict) and sections:  # alternatives tell themselves apart by their `kind`
        kinds = {typing.get_args(type_hints(section)["kind"])[0]: section for section in sections}
        if isinstance(kind := value.get("kind"), str) and kind in kinds:
            return _convert(kinds[kind], value, where)
        found = f"is {shown(kind)}" if "kind" in value else "is missing"
        raise BadConfig(f"{where}.kind", found, f"one of {', '.join(kinds)}", nearest(str(kind), kinds))
    for option in options:
        try:
            return _convert(option, value, where)
        except BadConfig:
            continue
    raise BadConfig(where, f"is {shown(value)}", describe(hint))


def require(condition: bool, key: str, found: object, expected: str, do: str = "") -> None:
    """Raise BadConfig for `key` unless the condition holds; `build` puts the section's path in front."""
    if not condition:
        raise BadConfig(key, f"is {shown(found)}", expected, do)


def require_once(values: typing.Sequence[Any], key: str, *, empty: bool = False) -> None:
    """Raise BadConfig for a list in which an entry stands twice, and for an empty one."""
    fits = len(set(values)) == len(values) and (empty or bool(values))
    require(fits, key, list(values), "each entry once" if empty else "one entry or more, each once")


def merge(base: dict[str, Any], layer: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with the keys of `layer`; sections within are merged, not replaced."""
    merged = dict(base)
    for key, value in layer.items():
        old = merged.get(key)
        merged[key] = merge(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return merged


def plain(config: Any) -> Any:
    """A config as plain JSON values."""
    return json.loads(json.dumps(dataclasses.asdict(config)))


def digest(*values: Any) -> str:
    """A short, stable hash of plain values or configs: equal settings, equal digest."""
    flat = [
        plain(value) if dataclasses.is_dataclass(value) and not isinstance(value, type) else value for value in values
    ]
    return hashlib.sha256(json.dumps(flat, sort_keys=True).encode()).hexdigest()[:16]


@dataclass(frozen=True, kw_only=True)
class EncoderConfig(Checked):
    """One Transformer encoder (BERT's, post-LN). Paper, Table 6; vocabulary size comes from the tokenizer."""

    layers: Annotated[int, Interval(1, 1000)]
    hidden: Size
    heads: Size
    ffn: Size
    embedding: Size
    positions: Size = 512
    token_types: Size = 2
    dropout: BelowOne = 0.1
    attention_dropout: BelowOne = 0.1
    layer_norm_eps: Fraction = 1e-12
    init_std: Annotated[float, Interval(0, 10, "(]")] = 0.02
    init: Literal["published", "normal", "mimetic"] = "published"  # normal: N(0, init_std) everywhere; see `initialise`

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.hidden % self.heads == 0, "heads", self.heads, f"a divisor of hidden ({self.hidden})")


@dataclass(frozen=True, kw_only=True)
class GeneratorConfig(Checked):
    """The generator relative to the discriminator. `width` scales hidden, FFN and heads; `depth` scales layers."""

    kind: Literal["network", "unigram", "uniform"] = "network"
    width: Rate = 0.25
    depth: Rate = 1.0

    def encoder(self, discriminator: EncoderConfig) -> EncoderConfig:
        """The generator's own encoder: rounded width, heads of 64 where the width allows, FFN 4 × hidden.

        The embedding size stays the discriminator's (electra: generator keeps E and projects to its hidden size).
        """
        hidden = max(1, round(discriminator.hidden * self.width))
        heads = max(1, hidden // 64) if self.width < 1 else discriminator.heads
        ffn = 4 * hidden if self.width < 1 else discriminator.ffn
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
    """A training budget in floating point operations, by the authors' convention (electra/flops.py)."""

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

    encoder: EncoderConfig
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
