"""Digests of code, by which DVC and unfinished runs notice that a stage would compute something
else. A digest covers the executed code, without comments, docstrings, layout, and the text of
errors and prints. `write` leaves one digest per stage in build/code.json, on which
pipelines/dvc.yaml depends by `params`, so a stage runs again for a change of its own code alone.
"""

import ast
import functools
import hashlib
import json
from pathlib import Path
from typing import Any

from pipelines import ROOT

_PRINTING = ("print(", "self.notify(")
_WITH_DOCSTRING = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@functools.cache
def code_digest(paths: tuple[str, ...], root: Path = ROOT) -> str:
    """Return one digest (16 hex digits) of the Python files among `paths`, files and folders below
    `root`.
    """
    files: set[Path] = set()
    for path in paths:
        files.update([root / path] if path.endswith(".py") else (root / path).rglob("*.py"))
    shapes = [
        [file.relative_to(root).as_posix(), _shape(ast.parse(file.read_bytes()))]
        for file in sorted(files)
    ]
    return hashlib.sha256(json.dumps(shapes).encode()).hexdigest()[:16]


def _shape(node: Any) -> Any:
    """Return a syntax tree as JSON without positions, docstrings, messages and empty fields, which
    vary with Python.
    """
    if isinstance(node, list):
        return [_shape(part) for part in node]
    if not isinstance(node, ast.AST):
        return repr(node)
    if isinstance(node, ast.Raise) or (
        isinstance(node, ast.Expr) and ast.unparse(node).startswith(_PRINTING)
    ):
        return type(node).__name__
    fields = dict(ast.iter_fields(node))
    if isinstance(node, _WITH_DOCSTRING) and ast.get_docstring(node, clean=False) is not None:
        fields["body"] = node.body[1:]
    return [
        type(node).__name__,
        *([name, _shape(value)] for name, value in fields.items() if value not in (None, [])),
    ]
