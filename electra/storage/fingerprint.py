"""What a result is a function of, as plain values: settings, data, first weights, code. Equal values, equal bytes.

How a run is computed, shown and kept is no part of it (`electra.pretraining.config.NO_BEARING`, torch's build,
comments): that may change in mid-run. Everything that is kept carries its fingerprint inside, so that nothing
is taken for what it is not.
"""

import ast
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from electra.config import digest

Fingerprint = dict[str, Any]
Changes = dict[str, list[Any]]  # dotted key -> [old, new]; None where one of them has no such key
_SHOWN = 12  # characters of a hash


def of_code(root: Path, rooms: Iterable[str]) -> dict[str, str]:
    """A hash for each room: a Python file, or all those in a folder, named relative to `root`.

    Only what is executed counts: comments, docstrings and the layout of the text do not.
    """
    return {room: _digest_of(root / room) for room in rooms}


def _digest_of(room: Path) -> str:
    state = hashlib.sha256()
    for file in sorted(room.rglob("*.py")) if room.is_dir() else [room]:
        tree = ast.parse(file.read_bytes())
        state.update(str(file.relative_to(room.parent)).encode() + b"\0" + json.dumps(_shape(tree)).encode() + b"\0")
    return state.hexdigest()[:16]


def _shape(node: Any) -> Any:
    """A syntax tree as JSON without positions and docstrings; empty fields, which vary with Python, are left out."""
    if isinstance(node, list):
        return [_shape(part) for part in node]
    if not isinstance(node, ast.AST):
        return repr(node)
    fields = dict(ast.iter_fields(node))
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and _is_text(node.body[:1]):
        fields["body"] = node.body[1:]
    return [type(node).__name__, *([name, _shape(value)] for name, value in fields.items() if value not in (None, []))]


def _is_text(body: list[ast.stmt]) -> bool:
    return any(
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for node in body
    )


def short(*values: Any) -> str:
    """Eight digits that stand for a fingerprint in the name of a folder."""
    return digest(*values)[:8]


def differences(old: Fingerprint, new: Fingerprint) -> Changes:
    """Every key in which two fingerprints differ."""
    before, after = dict(_flat(old)), dict(_flat(new))
    keys = [*before, *(key for key in after if key not in before)]
    return {key: [before.get(key), after.get(key)] for key in keys if before.get(key) != after.get(key)}


def describe(changes: Changes) -> str:
    """`pretrain.steps 800 -> 600, other code in electra/nn`: what a user reads of changes."""
    rooms = [key.removeprefix("code.") for key in changes if key.startswith("code.")]
    said = [f"{key} {_show(old)} -> {_show(new)}" for key, (old, new) in changes.items() if not key.startswith("code.")]
    return ", ".join([*said, *([f"other code in {', '.join(rooms)}"] if rooms else [])])


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        name = f"{prefix}{key}".removeprefix("config.")
        if isinstance(value, dict) and value:
            yield from _flat(value, f"{name}.")
        else:
            yield name, value


def _show(value: Any) -> str:
    if value is None:
        return "none"
    text = value if isinstance(value, str) else json.dumps(value)
    return f"{text[:_SHOWN]}…" if len(text) > 3 * _SHOWN else text
