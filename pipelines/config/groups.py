"""Named groups of params.yaml, inserted where they are used.

models.M.encoder: E       the contents of encoders.E
tokens.T.tokenizer: Z     the contents of tokenizers.Z
ablations.A.protocol      protocols.M of its model, below the ablation's own `protocol`
corpora.C.sources         a list, without the names by which `dvc exp run -S` reaches its sections
models.M.pretrain.phases  likewise
"""

import copy
from collections.abc import Iterator, Mapping
from typing import Any

from electra.config import merge, nearest
from electra.errors import BadConfig, shown

NAMED = {"models": ("encoder", "encoders"), "tokens": ("tokenizer", "tokenizers")}
GROUPS = ("encoders", "tokenizers", "protocols")
Section = dict[str, Any]


def with_groups(values: Mapping[str, Any]) -> Section:
    """Return the values of params.yaml with every name of a group replaced by its contents.

    Groups come first, so that a mistake within one is reported there. What is no section stays as
    it is, since `build` refuses it. Raises BadConfig for a name that is not there.
    """
    resolved = {key: values[key] for key in GROUPS if key in values} | copy.deepcopy(dict(values))
    for section, (key, group) in NAMED.items():
        contents = resolved.get(group, {})
        for name, entry in _sections(resolved.get(section)):
            if key not in entry or not isinstance(contents, dict):
                continue
            named = entry[key]
            if not isinstance(named, str) or named not in contents:
                known = list(map(str, contents))
                advice = nearest(str(named), known) or f"there are {', '.join(known) or 'none'}"
                fault = f"is {shown(named)}, should be a name under {group}"
                raise BadConfig(f"{section}.{name}.{key}: {fault}; {advice}")
            entry[key] = contents[named]
    for _, corpus in _sections(resolved.get("corpora")):
        _drop_names(corpus, "sources")
    for _, model in _sections(resolved.get("models")):
        _drop_names(model.get("pretrain"), "phases")
    protocols = dict(_sections(values.get("protocols")))
    for _, ablation in _sections(resolved.get("ablations")):
        match ablation:
            case {"base": {"model": str(model)}} if model in protocols:
                changes = ablation.get("protocol", {})
                if isinstance(changes, dict):
                    ablation["protocol"] = merge(protocols[model], changes)
    return resolved


def _sections(values: Any) -> Iterator[tuple[str, Section]]:
    """Yield the entries of a section that are sections themselves."""
    if isinstance(values, dict):
        yield from ((name, entry) for name, entry in values.items() if isinstance(entry, dict))


def _drop_names(section: Any, key: str) -> None:
    """Make a list of the named sections under a key."""
    if isinstance(section, dict) and isinstance(section.get(key), dict):
        section[key] = list(section[key].values())
