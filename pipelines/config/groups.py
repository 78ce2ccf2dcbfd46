"""Named groups of params.yaml, inserted where they are used.

models.M.encoder: E       the contents of encoders.E
tokens.T.tokenizer: Z     the contents of tokenizers.Z
ablations.A               `base` flattened; protocols.M of its model, overridden by its own `protocol`
label                     of an arm, or of a grid's value: an entry of `labels`
corpora.C.sources         a list; the names by which `dvc exp run -S` reaches its sections are dropped
models.M.pretrain.phases  likewise
"""

from collections.abc import Mapping
from typing import Any

from electra.config import build, merge, nearest
from electra.errors import BadConfig, shown
from pipelines.config.ablation_config import Entry

NAMED = {"models": ("encoder", "encoders"), "tokens": ("tokenizer", "tokenizers")}


def with_groups(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of params.yaml with every name of a group replaced by its contents.

    Groups come first, so that a mistake within one is reported there. Raises BadConfig for a name
    that is not there.
    """
    groups = {key: values[key] for key in ("encoders", "tokenizers", "protocols") if key in values}
    resolved = groups | {key: value for key, value in values.items() if key not in groups}
    for section, (key, group) in NAMED.items():
        entries, of = values.get(section), groups.get(group, {})
        if isinstance(entries, dict) and isinstance(of, dict):
            resolved[section] = {
                name: _named(entry, key, of, f"{section}.{name}") for name, entry in entries.items()
            }
    for section, *path in (("corpora", "sources"), ("models", "pretrain", "phases")):
        if isinstance(entries := resolved.get(section), dict):
            resolved[section] = {name: _unnamed(entry, path) for name, entry in entries.items()}
    if isinstance(ablations := values.get("ablations"), dict):
        for name, entry in ablations.items():
            build(Entry, entry, f"ablations.{name}")
        resolved["ablations"] = {name: spread(entry, values) for name, entry in ablations.items()}
    return resolved


def spread(ablation: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """An ablation (a valid `Entry`) with its base, its model's protocol and its labels in one
    section.
    """
    base: dict[str, Any] = ablation["base"]
    protocols = values.get("protocols")
    shared = protocols.get(base["model"]) if isinstance(protocols, dict) else None
    flat = {key: value for key, value in ablation.items() if key not in {"base", "protocol"}} | base
    flat |= merge(shared if isinstance(shared, dict) else {}, ablation.get("protocol", {}))
    labels: dict[str, Any] = {}
    grid = flat.get("grid", {}).items()
    axes = {axis: _unlabelled(of, labels) if isinstance(of, dict) else of for axis, of in grid}
    flat |= {"arms": _unlabelled(flat.get("arms", {}), labels), "grid": axes}
    return flat | {"labels": labels | flat.get("labels", {})}


def _unnamed(values: Any, path: list[str]) -> Any:
    """Return a section with the named sections at `path` as a list."""
    key, *rest = path
    if not isinstance(values, dict) or not isinstance(inner := values.get(key), dict):
        return values
    return values | {key: _unnamed(inner, rest) if rest else list(inner.values())}


def _unlabelled(arms: Mapping[str, Any], labels: dict[str, Any]) -> dict[str, Any]:
    labels |= {name: settings["label"] for name, settings in arms.items() if "label" in settings}
    return {
        name: {key: settings[key] for key in settings if key != "label"}
        for name, settings in arms.items()
    }


def _named(entry: Any, key: str, group: Mapping[str, Any], where: str) -> Any:
    if not isinstance(entry, dict) or key not in entry:
        return entry  # which `build` refuses
    name = entry[key]
    if not isinstance(name, str) or name not in group:
        known = f"there are {', '.join(map(str, group))}" if group else "there are none"
        do = nearest(str(name), map(str, group)) or known
        raise BadConfig(f"{where}.{key}: is {shown(name)}, should be a name under {key}s; {do}")
    return entry | {key: group[name]}
