"""What a result is a function of: its fingerprint (settings, data, first weights), and the code that made it.

A fingerprint is a run's identity: how a run is computed, shown and kept is no part of it
(`electra.pretraining.config.NO_BEARING`, torch's build), and neither is code, which is recorded beside it as a hash for
each file. Everything that is kept carries both inside.
"""

import ast
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

Fingerprint = dict[str, Any]
Changes = dict[str, list[Any]]  # dotted key -> [old, new]; None where one of them has no such key
Code = dict[str, str]  # file -> hash of what it executes
_SHOWN, _FILES = 12, 4  # characters of a hash, files in a sentence


def of_code(root: Path, paths: Iterable[str]) -> Code:
    """A hash for each Python file among `paths`, files and folders below `root`, by its path.

    Comments, docstrings and the layout of the text do not count.
    """
    files = {file for path in paths for file in [root / path, *(root / path).rglob("*.py")] if file.is_file()}
    return {file.relative_to(root).as_posix(): _digest_of(file) for file in sorted(files)}


def _digest_of(file: Path) -> str:
    return hashlib.sha256(json.dumps(_shape(ast.parse(file.read_bytes()))).encode()).hexdigest()[:16]


def _shape(node: Any) -> Any:
    """Return a syntax tree as JSON without positions, docstrings and empty fields, which vary with Python."""
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


def changed_files(old: Code, new: Code) -> str:
    """`electra/nn/encoder.py, electra/seeds.py`: the files in which two versions differ; empty if in none."""
    files = sorted(file for file in {*old, *new} if old.get(file) != new.get(file))
    return ", ".join(files[:_FILES]) + (f" and {len(files) - _FILES} more" if len(files) > _FILES else "")


def differences(old: Fingerprint, new: Fingerprint) -> Changes:
    """Every key in which two fingerprints differ."""
    before, after = dict(_flat(old)), dict(_flat(new))
    keys = [*before, *(key for key in after if key not in before)]
    return {key: [before.get(key), after.get(key)] for key in keys if before.get(key) != after.get(key)}


def describe(changes: Changes) -> str:
    """`pretrain.steps 800 -> 600, train 1f0c52d3… -> 9a8b7c6d…`: what a user reads of changes."""
    return ", ".join(f"{key} {_show(old)} -> {_show(new)}" for key, (old, new) in changes.items())


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
