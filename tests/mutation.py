"""Draw a fault of a file of the project (a changed operator, constant or condition, swapped
arguments, or a dropped statement), and find a test that sees it.
"""

import ast
import re
import subprocess
import sys
from pathlib import Path

from tests.support.project import ROOT

PYTEST = [sys.executable, "-m", "pytest", "-m", "not slow"]
OPERATORS = {
    ast.Add: "-", ast.Sub: "+", ast.Mult: "+", ast.Div: "*", ast.FloorDiv: "*", ast.Mod: "*",
    ast.Pow: "*", ast.And: "or", ast.Or: "and", ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=",
    ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==", ast.Is: "is not", ast.IsNot: "is",
    ast.In: "not in", ast.NotIn: "in",
}  # fmt: skip
Mutant = tuple[Path, range, bytes]  # a file, the lines of the statement, and its text with a fault


def faults(tree):
    """Yield every part of a module that can be replaced, with its replacement."""
    for node in ast.walk(tree):
        match node:
            case ast.BinOp(left, operator, right) if type(operator) in OPERATORS:
                yield node, join(operator, left, right)
            case ast.BoolOp(operator, values):
                yield node, join(operator, *values)
            case ast.Compare(left, [operator], [right]):
                yield node, join(operator, left, right)
            case ast.UnaryOp(ast.USub() | ast.Not(), operand):
                yield node, f"({ast.unparse(operand)})"
            case ast.Constant(bool() | int() | float() as value):
                yield node, repr(not value if isinstance(value, bool) else value + 1)
            case ast.Call(function, [first, second], keywords):
                yield node, ast.unparse(ast.Call(function, [second, first], keywords))
            case ast.If(test) | ast.IfExp(test) | ast.While(test):
                yield test, "False"
                yield test, "True"
            case ast.Raise() | ast.AugAssign() | ast.Expr(ast.Call()):
                yield node, "pass"


def join(operator, *values):
    """Return an expression with the operator that is used instead of another."""
    return "(" + f" {OPERATORS[type(operator)]} ".join(f"({ast.unparse(v)})" for v in values) + ")"


def draw(chance):
    """Return a fault in a file that is drawn by its size, or None if the code means the same."""
    paths = sorted(path for top in ("electra", "pipelines") for path in (ROOT / top).rglob("*.py"))
    (path,) = chance.choices(paths, [path.stat().st_size for path in paths])
    lines = path.read_bytes().splitlines(keepends=True)
    tree = ast.parse(b"".join(lines))
    node, new = chance.choice([*faults(tree), (tree.body[0], "")])
    last = node.end_lineno or node.lineno
    before = b"".join(lines[: node.lineno - 1]) + lines[node.lineno - 1][: node.col_offset]
    after = lines[last - 1][node.end_col_offset :] + b"".join(lines[last:])
    text = before + new.encode() + after
    old = b"".join(lines)[len(before) : -len(after) or None]
    try:  # before Python 3.12 the parts of an f-string have wrong places
        is_there = ast.unparse(ast.parse(old)) == ast.unparse(node)
        if not new or not is_there or ast.dump(ast.parse(text)) == ast.dump(tree):
            return None
    except SyntaxError:
        return None
    statements = [part.lineno for part in ast.walk(tree) if isinstance(part, ast.stmt)]
    first = max(number for number in statements if number <= node.lineno)
    name = path.relative_to(ROOT)
    what = f"{name}:{node.lineno}: {ast.unparse(node)} -> {new}"
    return what, (name, range(first, last + 1), text)


def killer(folder, mutant, tests):
    """Return the first of the tests that sees a mutant in a copy of the project, or "nothing"."""
    name, _, text = mutant
    whole = (folder / name).read_bytes()
    (folder / name).write_bytes(text)
    command = [*PYTEST, "--exitfirst", "--tb=no", "--timeout=300", *tests]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, errors="backslashreplace"
    )
    (folder / name).write_bytes(whole)
    if not done.returncode or not tests:
        return "nothing"
    failed = re.search(r"^(?:FAILED|ERROR) ([^ [\n]+)", done.stdout, re.MULTILINE)
    return failed[1] if failed else "no test starts"
