"""Settings as frozen pydantic dataclasses, and the one strict way from plain mappings (params.yaml)
to them.

A class of settings is decorated with pydantic's `@dataclass(frozen=True, kw_only=True)` and
inherits from `Settings`. Types and intervals are checked however it is built. Checks across fields
are in `__post_init__` and use `require`, whose sentence begins with the key. `build` turns all
faults into one BadConfig that names the place of each in the file.
"""

import dataclasses
import difflib
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, TypeVar

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from electra.errors import BadConfig, short_repr

T = TypeVar("T")

# Upper ends are far above all use: a number beyond them can only be a mistake.
Count = Annotated[int, Field(ge=1, le=10**9)]
Amount = Annotated[int, Field(ge=0, le=10**9)]  # a count that may be 0
Size = Annotated[int, Field(ge=1, le=2**20)]  # a dimension of a network
Seed = Annotated[int, Field(ge=0, le=2**32 - 1)]
# products and quotients with it stay within 32 bits
Positive = Annotated[float, Field(ge=1e-6, le=1e9)]
Weight = Annotated[float, Field(ge=0, le=1e9)]
Probability = Annotated[float, Field(ge=0, le=1)]
Rate = Annotated[float, Field(gt=0, le=1)]  # a learning rate, or a share above 0
Fraction = Annotated[float, Field(gt=0, lt=1)]
BelowOne = Annotated[float, Field(ge=0, lt=1)]  # dropout, the betas of Adam


@dataclass(
    frozen=True, kw_only=True, config=ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)
)
class Settings:
    """The base of all settings. Do not add `before` validators: they turn off pydantic's JSON mode,
    in which lists are tuples and mappings are settings while numbers and text stay strict.
    """

    @classmethod
    def keys(cls) -> set[str]:
        """Return the names of all settings of this class and its subclasses."""
        names = {field.name for field in dataclasses.fields(cls)}
        return names.union(*(child.keys() for child in cls.__subclasses__()))


def build(kind: type[T], values: Any, where: str) -> T:
    """Build settings of a `kind` from plain values found at `where` (a dotted path such as
    `models.tiny.pretrain`).

    Raises BadConfig with the faults and their places.
    """
    try:
        return TypeAdapter(kind).validate_json(json.dumps(values))
    except ValidationError as error:
        raise BadConfig("; ".join(faults(error, values, where))) from None
    except (RecursionError, OverflowError, ValueError):  # Python writes no number of 4301 digits
        fault = "is nested too deeply, or a number in it is too long"
        raise BadConfig(f"{where}: {fault}".removeprefix(": ")) from None


def faults(error: ValidationError, values: Any, where: str = "") -> Iterator[str]:
    """Yield a sentence for each place in `values` at which pydantic found a fault."""
    messages: dict[str, list[str]] = {}
    for fault in error.errors(include_url=False):
        path = ".".join(filter(None, [where, *_path(fault, values)])).replace(".[", "[")
        context = fault.get("ctx", {})
        cause = context.get("error")
        if fault["type"] == "missing":
            sentence = f"{path}: is missing"
        # the key `kind` selects the class in every union of settings
        elif fault["type"] == "union_tag_not_found":
            sentence = f"{path}.kind: is missing"
        elif fault["type"] == "union_tag_invalid":
            tag = short_repr(context["tag"])
            sentence = f"{path}.kind: is {tag}, should be one of {context['expected_tags']}"
        elif fault["type"] == "unexpected_keyword_argument":
            key = str(fault["loc"][-1])
            known = Settings.keys()  # of all sections: pydantic does not say which
            advice = (
                "it belongs to another section"
                if key in known
                else nearest(key, known, cutoff=0.75)
            )
            sentence = f"{path}: no such setting; {advice}".removesuffix("; ")
        elif isinstance(cause, ValueError):  # of a check in __post_init__: it begins with the key
            inner = (
                list(faults(cause, None)) if isinstance(cause, ValidationError) else [str(cause)]
            )
            sentence = f"{path}.{'; '.join(inner)}".removeprefix(".")
        else:
            should_be = fault["msg"].removeprefix("Input ")
            sentence = f"{path}: is {short_repr(fault['input'])}, {should_be}"
        messages.setdefault(path, []).append(sentence)
    for sentences in messages.values():
        first, *others = sentences  # of a union, one for each member
        yield " or ".join([first, *(other.rpartition(", should ")[2] for other in others)])


def _path(fault: Any, values: Any) -> Iterator[str]:
    """Yield the keys and list indices that lead to a fault, without pydantic's names for the
    members of unions.
    """
    no_values = values is None
    for key in fault["loc"]:
        if isinstance(values, dict) and key in values:
            yield key
        elif isinstance(values, list) and isinstance(key, int):
            yield f"[{key}]"
        elif (fault["type"] == "missing" and key == fault["loc"][-1]) or no_values:
            yield str(key)
            continue
        else:
            continue
        values = values[key]


def require(condition: bool, sentence: str) -> None:
    """Raise BadConfig with a sentence, which begins with the key, unless the condition holds."""
    if not condition:
        raise BadConfig(sentence)


def require_unique(values: Sequence[Any], key: str, *, empty: bool = False) -> None:
    """Raise BadConfig for a list with a repeated entry, and for an empty list."""
    if len(set(values)) < len(values):
        raise BadConfig(f"{key}: is {short_repr(list(values))}, should name each entry once")
    require(empty or bool(values), f"{key}: should have at least one entry")


def nearest(name: str, valid: Iterable[str], cutoff: float = 0.6) -> str:
    """Return `did you mean ...?` for a misspelt name, or nothing."""
    close = difflib.get_close_matches(name, list(valid), n=1, cutoff=cutoff)
    return f"did you mean {close[0]}?" if close else ""


def merge(base: dict[str, Any], layer: Mapping[str, Any]) -> dict[str, Any]:
    """Return `base` with the keys of `layer`; sections within are merged, not replaced."""
    merged = dict(base)
    for key, value in layer.items():
        old = merged.get(key)
        merged[key] = (
            merge(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
        )
    return merged


def leaves(
    values: Mapping[str, Any], dot: str = ".", prefix: str = ""
) -> Iterator[tuple[str, Any]]:
    """Yield every value of nested sections with its dotted key. An empty section is a value."""
    for key, value in values.items():
        if isinstance(value, dict) and value:
            yield from leaves(value, dot, f"{prefix}{key}{dot}")
        else:
            yield f"{prefix}{key}", value


def to_jsonable(config: Any) -> Any:
    """Return settings as plain JSON values."""
    return json.loads(json.dumps(dataclasses.asdict(config)))


def without_defaults(config: Any) -> Any:
    """Return settings as plain values without defaults, so that a digest of them stays the same
    when a setting is added.
    """
    return TypeAdapter(type(config)).dump_python(config, mode="json", exclude_defaults=True)


def digest(*values: Any) -> str:
    """Return a short, stable hash of plain values or settings: equal settings, equal digest."""
    flat = [to_jsonable(value) if dataclasses.is_dataclass(value) else value for value in values]
    return hashlib.sha256(json.dumps(flat, sort_keys=True).encode()).hexdigest()[:16]
