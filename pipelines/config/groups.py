"""What params.yaml says once, under a name, put where it is used.

models.M.encoder: E       what stands in encoders.E
tokens.T.tokenizer: Z     what stands in tokenizers.Z
ablations.A               its `base` spread out; over protocols.M of its model, its own `protocol`
label                     of an arm, or of a grid's value: an entry of `labels`
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from electra.config import build, merge, nearest
from electra.data.tokenizer import HubTokenizer, TrainTokenizer, VocabTokenizer
from electra.errors import BadConfig, shown
from electra.nn.config import AnyEncoderConfig
from pipelines.config.ablation_config import Protocol, Settings

AnyTokenizer = TrainTokenizer | VocabTokenizer | HubTokenizer
NAMED = {"models": ("encoder", "encoders"), "tokens": ("tokenizer", "tokenizers")}


@dataclass(frozen=True, kw_only=True)
class Groups:
    """The sections that others name."""

    encoders: dict[str, AnyEncoderConfig] = field(default_factory=dict)
    tokenizers: dict[str, AnyTokenizer] = field(default_factory=dict)
    protocols: dict[str, Protocol] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Base:
    """What the arms of an ablation change: `tokens` repeats the model's, so that dvc.yaml can name the files."""

    model: str
    tokens: str
    data: str
    recipe: str


@dataclass(frozen=True, kw_only=True)
class Entry:
    """An ablation as params.yaml has it; `AblationConfig` documents the keys."""

    title: str
    base: Base
    protocol: Protocol = field(default_factory=Protocol)
    arms: dict[str, Settings] = field(default_factory=dict)
    grid: dict[str, dict[str, Settings] | tuple[Any, ...]] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    reference: str = ""


def with_groups(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of params.yaml with what they name in the place of its name; BadConfig names the place as written."""
    groups = {key: values[key] for key in ("encoders", "tokenizers", "protocols") if key in values}
    build(Groups, groups, "")
    resolved = dict(values)
    for section, (key, group) in NAMED.items():
        if isinstance(entries := values.get(section), dict):
            of = groups.get(group, {})
            resolved[section] = {name: _named(entry, key, of, f"{section}.{name}") for name, entry in entries.items()}
    if isinstance(ablations := values.get("ablations"), dict):
        for name, entry in ablations.items():
            build(Entry, entry, f"ablations.{name}")
        resolved["ablations"] = {name: spread(entry, values) for name, entry in ablations.items()}
    return resolved


def spread(ablation: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """An ablation with its base, its model's protocol and its labels in one section."""
    base: dict[str, Any] = ablation.get("base", {})
    shared = values.get("protocols", {}).get(base.get("model"), {})
    flat = {key: value for key, value in ablation.items() if key not in {"base", "protocol"}} | base
    flat |= merge(shared, ablation.get("protocol", {}))
    labels: dict[str, Any] = {}
    grid = flat.get("grid", {}).items()
    axes = {axis: _unlabelled(of, labels) if isinstance(of, dict) else of for axis, of in grid}
    flat |= {"arms": _unlabelled(flat.get("arms", {}), labels), "grid": axes}
    return flat | {"labels": labels | flat.get("labels", {})}


def _unlabelled(arms: Mapping[str, Any], labels: dict[str, Any]) -> dict[str, Any]:
    labels |= {name: settings["label"] for name, settings in arms.items() if "label" in settings}
    return {name: {key: settings[key] for key in settings if key != "label"} for name, settings in arms.items()}


def _named(entry: Any, key: str, group: Mapping[str, Any], where: str) -> Any:
    if not isinstance(entry, dict) or key not in entry:
        return entry  # which `build` refuses
    name = entry[key]
    if not isinstance(name, str) or name not in group:
        expected = f"one of {', '.join(map(str, group))}" if group else f"a name under {key}s"
        found = f"has no {name!r}" if isinstance(name, str) else f"is {shown(name)}"
        raise BadConfig(f"{where}.{key}", found, expected, nearest(str(name), map(str, group)))
    return entry | {key: group[name]}
