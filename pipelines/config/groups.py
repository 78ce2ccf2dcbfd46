"""Named groups of params.yaml, inserted where they are used.

models.M.encoder: E       the contents of encoders.E
tokens.T.tokenizer: Z     the contents of tokenizers.Z
ablations.A.protocol      protocols.M of its model, below the ablation's own `protocol`
corpora.C.sources         a list, without the names by which `dvc exp run -S` reaches its sections
models.M.pretrain.phases  likewise
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any

from electra.config import merge, nearest
from electra.errors import BadConfig, short_repr

NAMED = {"models": ("encoder", "encoders"), "tokens": ("tokenizer", "tokenizers")}
GROUPS = ("encoders", "tokenizers", "protocols")
Section = dict[str, Any]


def with_groups(values: Mapping[str, Any]) -> Section:
    """Return the values of params.yaml with every name of a group replaced by its contents.

    Groups come first, so that a mistake within one is reported there. Anything that isn't a section
    is left for `build` to refuse. Raises BadConfig for an unknown name.
    """
    resolved = {key: values[key] for key in GROUPS if key in values} | dict(values)
    for section, (key, group) in NAMED.items():
        contents = resolved.get(group, {})
        if isinstance(contents, dict):
            _change(resolved, section, functools.partial(_insert, key, contents))
    _change(resolved, "corpora", functools.partial(_drop_names, ["sources"]))
    _change(resolved, "models", functools.partial(_drop_names, ["pretrain", "phases"]))
    _change(resolved, "ablations", functools.partial(_add_protocol, resolved.get("protocols")))
    return resolved


def _change(values: Section, section: str, change: Callable[[Section, str], Section]) -> None:
    """Apply `change(entry, dotted key)` to each entry of a section."""
    entries = values.get(section)
    if isinstance(entries, dict):
        values[section] = {
            name: change(entry, f"{section}.{name}") if isinstance(entry, dict) else entry
            for name, entry in entries.items()
        }


def _insert(key: str, group: Section, entry: Section, where: str) -> Section:
    """Return an entry with the contents of the group that it names under `key`."""
    if key not in entry:
        return entry
    name = entry[key]
    if not isinstance(name, str) or name not in group:
        known = f"there are {', '.join(map(str, group))}" if group else "there are none"
        advice = nearest(str(name), map(str, group)) or known
        raise BadConfig(
            f"{where}.{key}: is {short_repr(name)}, should be a name under {key}s; {advice}"
        )
    return entry | {key: group[name]}


def _drop_names(path: list[str], entry: Section, where: str) -> Section:
    """Return an entry with the named sections at `path` as a list."""
    key, *rest = path
    inner = entry.get(key)
    if not isinstance(inner, dict):
        return entry
    return entry | {key: _drop_names(rest, inner, where) if rest else list(inner.values())}


def _add_protocol(protocols: Any, entry: Section, where: str) -> Section:
    """Return an ablation whose own protocol overrides its model's."""
    match entry:
        case {"base": {"model": str(model)}} if isinstance(protocols, dict):
            shared = protocols.get(model)
            changes = entry.get("protocol", {})
            if isinstance(shared, dict) and isinstance(changes, dict):
                return entry | {"protocol": merge(shared, changes)}
    return entry
