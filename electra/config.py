"""Settings as frozen dataclasses, and the one strict way from plain mappings (params.yaml) to them.

Each dataclass checks itself when built; its error names the key to change. `build` refuses unknown keys (naming the
nearest valid one), wrong types and missing values, and says where they are in the file. A dataclass may have a table
`RETIRED` of keys that older files still use: each maps to its new name, or to what became of it (`Removed`).
"""

import contextlib
import dataclasses
import difflib
import functools
import hashlib
import json
import math
import sys
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, TypeVar

from electra.errors import BadConfig, shown

T = TypeVar("T")
type_hints: Callable[[Any], dict[str, Any]] = functools.cache(typing.get_type_hints)


class Removed(NamedTuple):
    """A key, or a value of one, that was removed. Other values of a removed key are refused."""

    ignored: tuple[Any, ...]  # values without which the run is the same: dropped with a warning
    reason: str
    do: str


def build(kind: type[T], values: Any, where: str) -> T:
    """Build dataclass `kind` from a mapping found at `where` (a dotted path such as `models.tiny.pretrain`)."""
    if not isinstance(values, dict):
        raise BadConfig(where, f"is {shown(values)}", "a section of keys and values")
    fields = {field.name: field for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    values = current_keys(kind, values, where)
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


def current_keys(kind: type[Any], values: dict[str, Any], where: str) -> dict[str, Any]:
    """The section by today's keys; if it has both the old and the new name of a key, the later entry wins."""
    fields = {field.name for field in dataclasses.fields(kind)}
    retired: Mapping[str, str | Removed] = getattr(kind, "RETIRED", {})
    current = {}
    for key, value in values.items():
        change, place = retired.get(key), f"{where}.{key}"
        if isinstance(change, str):
            warn_once(f"{place} is now called {change}: rename it")
            key = change
        elif change and value in change.ignored:
            warn_once(f"{place}: {value} is ignored: {change.reason}; {change.do}")
            continue
        elif change and key not in fields:
            raise BadConfig(place, f"is {shown(value)}", f"no such key: {change.reason}", change.do)
        current[key] = value
    return current


@functools.cache
def warn_once(sentence: str) -> None:
    """Print a warning once per process."""
    print(f"warning: {sentence}", file=sys.stderr, flush=True)


def original_names(kind: Any) -> dict[str, str]:
    """Renamed fields of a dataclass and their old names, which identities of runs still use."""
    return {now: old for old, now in getattr(kind, "RETIRED", {}).items() if isinstance(now, str)}


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
    elif origin is tuple and isinstance(value, dict) and _is_section(inner[0]):  # sections of a list may have names
        return tuple(_convert(inner[0], item, f"{where}.{name}") for name, item in value.items())
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


def _is_section(hint: Any) -> bool:
    return dataclasses.is_dataclass(hint) or any(map(dataclasses.is_dataclass, typing.get_args(hint)))


def _convert_union(options: tuple[Any, ...], value: Any, where: str, hint: Any) -> Any:
    sections = [option for option in options if dataclasses.is_dataclass(option)]
    if isinstance(value, dict) and len(sections) == 1:
        return _convert(sections[0], value, where)
    if isinstance(value, dict) and sections:  # alternatives differ by their `kind`
        kinds = {kind: section for section in sections for kind in typing.get_args(type_hints(section)["kind"])}
        usual = next((name for name, section in kinds.items() if getattr(section, "kind", None) == name), None)
        if isinstance(kind := value.get("kind", usual), str) and kind in kinds:
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
    """Raise BadConfig for a list with an entry twice, and for an empty one."""
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


def written(config: Any) -> Any:
    """A config as plain values less its defaults, for a digest: a setting that is added or renamed changes nothing."""
    if dataclasses.is_dataclass(config) and not isinstance(config, type):
        names = original_names(config)
        fields = {field.name: (getattr(config, field.name), field) for field in dataclasses.fields(config)}
        return {
            names.get(name, name): written(value) for name, (value, field) in fields.items() if value != _default(field)
        }
    if isinstance(config, dict):
        return {key: written(value) for key, value in config.items()}
    return [written(value) for value in config] if isinstance(config, list | tuple) else config


def _default(field: "dataclasses.Field[Any]") -> Any:
    factory = field.default_factory
    return field.default if factory is dataclasses.MISSING else factory()


def digest(*values: Any) -> str:
    """A short, stable hash of plain values or configs: equal settings, equal digest."""
    flat = [
        plain(value) if dataclasses.is_dataclass(value) and not isinstance(value, type) else value for value in values
    ]
    return hashlib.sha256(json.dumps(flat, sort_keys=True).encode()).hexdigest()[:16]
