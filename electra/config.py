"""Settings as frozen dataclasses, and the one strict way from plain mappings (params.yaml) to them.

Each dataclass checks itself when built; its error names the key to change. `build` refuses unknown keys (naming the
nearest valid one), wrong types and missing values, and says where in the file they stand.
"""

import dataclasses
import difflib
import hashlib
import json
import types
import typing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from electra.errors import BadConfig

T = TypeVar("T")


def build(kind: type[T], values: Any, where: str) -> T:
    """Build dataclass `kind` from a mapping found at `where` (a dotted path such as `models.tiny.pretrain`)."""
    if not isinstance(values, dict):
        raise BadConfig(where, f"is {values!r}", "a section of keys and values")
    fields = {field.name: field for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    for key in values:
        if key not in fields:
            raise BadConfig(
                f"{where}.{key}", "is not a parameter", f"one of {', '.join(fields)}", nearest(str(key), fields)
            )
    hints = typing.get_type_hints(kind)
    arguments = {key: _convert(hints[key], value, f"{where}.{key}") for key, value in values.items()}
    for name, field in fields.items():
        if name not in values and field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise BadConfig(f"{where}.{name}", "is missing", describe(hints[name]))
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
            _convert(inner[0], key, where): _convert(inner[1], item, f"{where}.{key}") for key, item in value.items()
        }
    elif hint is Any:
        return value
    elif hint is float and isinstance(value, int | float) and not isinstance(value, bool):
        if value == value and abs(value) != float("inf"):
            return float(value)
    elif (hint is int and type(value) is int) or (hint in {bool, str, type(None)} and isinstance(value, hint)):
        return value
    advice = nearest(value, map(str, inner)) if origin is Literal and isinstance(value, str) else ""
    raise BadConfig(where, f"is {value!r}", describe(hint), advice)


def _convert_union(options: tuple[Any, ...], value: Any, where: str, hint: Any) -> Any:
    sections = [option for option in options if dataclasses.is_dataclass(option)]
    if isinstance(value, dict) and len(sections) == 1:
        return _convert(sections[0], value, where)
    if isinstance(value, dict) and sections:  # alternatives tell themselves apart by their `kind`
        kinds = {typing.get_args(typing.get_type_hints(section)["kind"])[0]: section for section in sections}
        if (kind := value.get("kind")) in kinds:
            return _convert(kinds[kind], value, where)
        found = f"is {kind!r}" if "kind" in value else "is missing"
        raise BadConfig(f"{where}.kind", found, f"one of {', '.join(kinds)}", nearest(str(kind), kinds))
    for option in options:
        try:
            return _convert(option, value, where)
        except BadConfig:
            continue
    raise BadConfig(where, f"is {value!r}", describe(hint))


def require(condition: bool, key: str, found: object, expected: str, do: str = "") -> None:
    """Raise BadConfig for `key` unless the condition holds; `build` puts the section's path in front."""
    if not condition:
        raise BadConfig(key, f"is {found!r}", expected, do)


def plain(config: Any) -> Any:
    """A config as plain JSON values."""
    return json.loads(json.dumps(dataclasses.asdict(config)))


def digest(*values: Any) -> str:
    """A short, stable hash of plain values or configs: equal settings, equal digest."""
    flat = [
        plain(value) if dataclasses.is_dataclass(value) and not isinstance(value, type) else value for value in values
    ]
    return hashlib.sha256(json.dumps(flat, sort_keys=True).encode()).hexdigest()[:16]


def code_digest(*paths: Path) -> str:
    """A hash of source files (folders are walked for *.py): part of a run's fingerprint, so changed code starts afresh."""
    state = hashlib.sha256()
    for path in paths:
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            state.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return state.hexdigest()[:16]


@dataclass(frozen=True, kw_only=True)
class EncoderConfig:
    """One Transformer encoder (BERT's, post-LN). Paper, Table 6; vocabulary size comes from the tokenizer."""

    layers: int
    hidden: int
    heads: int
    ffn: int
    embedding: int
    positions: int = 512
    token_types: int = 2
    dropout: float = 0.1
    attention_dropout: float = 0.1
    layer_norm_eps: float = 1e-12
    init_std: float = 0.02
    init: Literal["published", "normal"] = "published"  # truncated normal and Glorot, or N(0, init_std) everywhere

    def __post_init__(self) -> None:
        for key in ("layers", "hidden", "heads", "ffn", "embedding", "positions", "token_types"):
            require(getattr(self, key) > 0, key, getattr(self, key), "a number above 0")
        require(self.hidden % self.heads == 0, "heads", self.heads, f"a divisor of hidden ({self.hidden})")
        for key in ("dropout", "attention_dropout"):
            require(0 <= getattr(self, key) < 1, key, getattr(self, key), "a probability below 1")


@dataclass(frozen=True, kw_only=True)
class GeneratorConfig:
    """The generator relative to the discriminator. `width` scales hidden, FFN and heads; `depth` scales layers."""

    kind: Literal["network", "unigram", "uniform"] = "network"
    width: float = 0.25
    depth: float = 1.0

    def __post_init__(self) -> None:
        require(0 < self.width <= 1, "width", self.width, "a fraction above 0 and at most 1")
        require(0 < self.depth <= 1, "depth", self.depth, "a fraction above 0 and at most 1")

    def encoder(self, discriminator: EncoderConfig) -> EncoderConfig:
        """The generator's own encoder: rounded width, heads of 64 where the width allows, FFN 4 × hidden.

        The embedding size stays the discriminator's (electra: generator keeps E and projects to its hidden size).
        """
        hidden = max(1, round(discriminator.hidden * self.width))
        heads = max(1, hidden // 64) if self.width < 1 else discriminator.heads
        ffn = 4 * hidden if self.width < 1 else discriminator.ffn
        layers = max(1, round(discriminator.layers * self.depth))
        return dataclasses.replace(discriminator, hidden=hidden, heads=heads, ffn=ffn, layers=layers)


Objective = Literal["electra", "electra_15", "replace_mlm", "all_tokens_mlm", "mlm"]


@dataclass(frozen=True, kw_only=True)
class ObjectiveConfig:
    """What is trained: paper sections 2, 3.2 to 3.4 and appendix. Defaults are the published system."""

    name: Objective = "electra"
    mask_rate: float = 0.15
    mask_token_rate: float = 0.85  # the rest of the chosen positions keeps its token (electra: 85/15/0)
    random_token_rate: float = 0.0  # BERT's 80/10/10 is mask_token_rate 0.8 and random_token_rate 0.1
    faithful_masking: bool = False  # draw positions with replacement as the original does
    discriminator_weight: float = 50.0
    generator_weight: float = 1.0
    temperature: float = 1.0
    disallow_correct: bool = False
    sharing: Literal["none", "tokens", "embeddings", "all", "gradient_disentangled"] = "embeddings"
    training: Literal["joint", "two_stage", "adversarial"] = "joint"

    def __post_init__(self) -> None:
        require(0 < self.mask_rate < 1, "mask_rate", self.mask_rate, "a fraction between 0 and 1")
        require(0 <= self.mask_token_rate <= 1, "mask_token_rate", self.mask_token_rate, "a probability")
        require(
            0 <= self.random_token_rate <= 1 - self.mask_token_rate,
            "random_token_rate",
            self.random_token_rate,
            "a probability that leaves mask_token_rate its share",
        )
        require(self.temperature > 0, "temperature", self.temperature, "a number above 0")
        require(self.discriminator_weight > 0, "discriminator_weight", self.discriminator_weight, "a number above 0")
        if self.training != "joint":
            require(self.name == "electra", "training", self.training, "joint, unless the objective is electra")


@dataclass(frozen=True, kw_only=True)
class Flops:
    """A training budget in floating point operations, by the authors' convention (electra/flops.py)."""

    flops: float


@dataclass(frozen=True, kw_only=True)
class PretrainConfig:
    """How long and how fast. Paper, Table 6; `steps` is a count or a budget `{flops: 8.9e16}`."""

    length: int
    batch: int
    steps: int | Flops
    learning_rate: float
    warmup: int = 10_000
    weight_decay: float = 0.01
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-6
    bias_correction: bool = False
    schedule: Literal["product", "warmup_then_decay"] = "product"
    clip: float = 1.0
    accumulate: int = 1  # slices of a batch, computed one after the other; several processes share them
    parallel: Literal["ddp", "fsdp"] = "ddp"  # with several processes: whole networks in each, or sharded (for large)
    seed: int = 1
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    threads: int = 2
    compile: Literal["auto", "on", "off"] = "auto"
    log_every: int = 100
    eval_every: int = 1000
    eval_batches: int = 16
    save_every: int = 1000
    keep: int = 2
    init_from: str | None = None

    def __post_init__(self) -> None:
        for key in (
            "length",
            "batch",
            "accumulate",
            "threads",
            "log_every",
            "eval_every",
            "eval_batches",
            "save_every",
        ):
            require(getattr(self, key) > 0, key, getattr(self, key), "a number above 0")
        require(self.keep >= 2, "keep", self.keep, "at least 2, so that a damaged checkpoint has one to fall back to")
        require(self.learning_rate > 0, "learning_rate", self.learning_rate, "a number above 0")
        require(self.batch % self.accumulate == 0, "accumulate", self.accumulate, f"a divisor of batch ({self.batch})")
        if isinstance(self.steps, int):
            require(self.steps > 0, "steps", self.steps, "a number above 0")
            require(0 <= self.warmup <= self.steps, "warmup", self.warmup, f"at most steps ({self.steps})")


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
        if self.objective.sharing == "all":
            same = self.generator.kind == "network" and self.generator.width == 1 and self.generator.depth == 1
            require(same, "objective.sharing", "all", "generator width 1 and depth 1 with it")
        if self.objective.training == "two_stage":
            same = self.generator.kind == "network" and self.generator.width == 1 and self.generator.depth == 1
            expected = (
                "generator width 1, depth 1 and sharing none: the discriminator begins with the generator's weights"
            )
            require(same and self.objective.sharing == "none", "objective.training", "two_stage", expected)
        if self.generator.kind != "network":
            trains = self.objective.training == "joint" and self.objective.sharing in {"none", "embeddings"}
            require(
                trains, "generator.kind", self.generator.kind, "joint training and no other sharing: it has no weights"
            )
