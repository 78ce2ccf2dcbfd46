"""Faults that the tests should see: `python -m tests.mutants --count 200 --seed 1`.

A mutant is one fault in a copy of the project: a changed operator, constant or condition, swapped
arguments, or a dropped statement. The tests of the mirror path, then of its folder, then all quick
ones run until one fails, golden digests last. A survivor lacks a test, or its code can go.
"""

import argparse
import ast
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.harness import ROOT, provenance, write_record

GOLDEN = "tests/test_golden.py"
SECONDS = 1_800  # of all quick tests; an endless loop counts as seen
OPERATORS = {
    ast.Add: "-", ast.Sub: "+", ast.Mult: "+", ast.Div: "*", ast.FloorDiv: "*", ast.Mod: "*",
    ast.Pow: "*", ast.And: "or", ast.Or: "and", ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=",
    ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==", ast.Is: "is not", ast.IsNot: "is",
    ast.In: "not in", ast.NotIn: "in",
}  # fmt: skip


def faults(tree: ast.Module) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
    """Yield every part of a module that can be replaced, with what replaces it."""
    for node in ast.walk(tree):
        match node:
            case ast.BinOp(left, operator, right) if type(operator) in OPERATORS:
                yield node, f"({join(operator, left, right)})"
            case ast.BoolOp(operator, values):
                yield node, f"({join(operator, *values)})"
            case ast.Compare(left, [operator], [right]):
                yield node, f"({join(operator, left, right)})"
            case ast.UnaryOp(ast.USub() | ast.Not(), operand):
                yield node, f"({ast.unparse(operand)})"
            case ast.Constant(bool() as value):
                yield node, repr(not value)
            case ast.Constant(int() | float() as value):
                yield node, repr(value + 1)
            case ast.Call(function, [first, second]):
                arguments = [second, first, *(ast.unparse(each) for each in node.keywords)]
                texts = [each if isinstance(each, str) else ast.unparse(each) for each in arguments]
                yield node, f"{ast.unparse(function)}({', '.join(texts)})"
            case ast.If(test) | ast.IfExp(test) | ast.While(test):
                yield test, "False"
                yield test, "True"
            case ast.Raise() | ast.AugAssign() | ast.Expr(ast.Call()):
                yield node, "pass"


def join(operator: ast.AST, *values: ast.expr) -> str:
    """Return an expression with the operator that is used instead of another."""
    return f" {OPERATORS[type(operator)]} ".join(f"({ast.unparse(value)})" for value in values)


def draw(chance: random.Random, paths: list[Path]) -> tuple[Path, str, str]:
    """Return a file, a description of a fault in it, and the text with the fault."""
    (path,) = chance.choices(paths, [path.stat().st_size for path in paths])
    lines = path.read_bytes().splitlines(keepends=True)
    node, new = chance.choice(list(faults(ast.parse(path.read_bytes()))))
    start = sum(map(len, lines[: node.lineno - 1])) + node.col_offset
    end = sum(map(len, lines[: (node.end_lineno or 0) - 1])) + (node.end_col_offset or 0)
    text = b"".join(lines)
    old = " ".join(text[start:end].decode().split())
    what = f"{path.relative_to(ROOT)}:{node.lineno}: {old} -> {new}"
    return path.relative_to(ROOT), what, (text[:start] + new.encode() + text[end:]).decode()


def killer(folder: Path, name: Path) -> str:
    """Return the tests that see the fault in a file of a copy of the project, or "nothing"."""
    mirror = Path("tests") / name.parent / f"test_{name.stem}.py"
    near = [str(path) for path in (mirror, mirror.parent) if (ROOT / path).exists()]
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-m", "not slow and not lock"]
    for words in (*([path] for path in near), ["tests", "--ignore", GOLDEN], [GOLDEN]):
        try:
            done = subprocess.run(
                [*command, *words], cwd=folder, env={**os.environ, "CI": "true"},
                capture_output=True, timeout=SECONDS, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return words[0]
        if done.returncode not in {0, 5}:  # 5: no test was selected
            return words[0]
    return "nothing"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, default=ROOT / "benchmarks/results/mutants.json")
    options = parser.parse_args()
    origin = provenance("pytest")
    chance = random.Random(options.seed)
    paths = sorted(path for top in ("electra", "pipelines") for path in (ROOT / top).rglob("*.py"))
    killed_by: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "project"
        subprocess.run(["git", "clone", "--quiet", "--shared", ROOT, folder], check=True)
        for _ in range(options.count):
            name, what, text = draw(chance, [path for path in paths if path.stat().st_size])
            whole = (folder / name).read_bytes()
            (folder / name).write_text(text, encoding="utf-8")
            killed_by[what] = killer(folder, name)
            (folder / name).write_bytes(whole)
            print(f"{killed_by[what]:40} {what}", flush=True)
            by = list(killed_by.values())
            counts = {"tried": len(by), "survive": by.count("nothing"), "golden": by.count(GOLDEN)}
            record = {**counts, "seed": options.seed, "killed_by": killed_by}
            write_record(options.output, record, origin)


if __name__ == "__main__":
    main()
