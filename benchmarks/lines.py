"""Count code lines by folder: `python benchmarks/lines.py [FOLDER ...]`. Comments, docstrings and blanks are none."""

import ast
import io
import sys
import tokenize
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("electra", "pipelines", "tests", "benchmarks")
BLANK = {*(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)}
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def code_lines(text: str) -> int:
    """The lines of a Python file that hold code."""
    lines = set[int]()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in BLANK:
            lines |= set(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            lines -= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    return len(lines)


def main() -> None:
    for top in sys.argv[1:] or FOLDERS:
        counts, files = Counter[str](), Counter[str]()
        for path in sorted((ROOT / top).rglob("*.py")):
            folder = path.relative_to(ROOT / top).parts[:-1]
            counts[folder[0] if folder else ""] += code_lines(path.read_text(encoding="utf-8"))
            files[folder[0] if folder else ""] += 1
        print(f"{counts.total():7,} lines {files.total():4} files  {top}")
        for name, lines in sorted(counts.items()):
            print(f"{lines:7,} lines {files[name]:4} files    {name or '.'}")


if __name__ == "__main__":
    main()
