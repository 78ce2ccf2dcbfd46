"""Syntax trees of the project's files, and what they import."""

import ast
import functools

from tests.support.project import ROOT


@functools.cache
def parse(*folders):
    """Return the syntax tree of each file of some folders."""
    paths = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    return {str(path.relative_to(ROOT)): ast.parse(path.read_text()) for path in paths}


def imports(tree):
    """Return the dotted names of all imported modules."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(str(node.module))
    return names
