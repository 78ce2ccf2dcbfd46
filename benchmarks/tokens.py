"""Count tokens of code by folder: `python benchmarks/tokens.py [FOLDER ...]`.

Tokens are those of Python's `tokenize` without comments, docstrings and line ends. Neither longer
lines nor shorter names change this measure.
"""

import ast
import io
import sys
import tokenize
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
IGNORED = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


def count_tokens(source: str) -> tuple[int, int]:
    """Return the number of tokens of code in a source text, and of lines with code."""
    docstrings = set()
    for node in ast.walk(ast.parse(source)):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and isinstance(body[0], ast.Expr):
            value = body[0].value
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                docstrings.add((value.lineno, value.col_offset))
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    kept = [
        token for token in tokens if token.type not in IGNORED and token.start not in docstrings
    ]
    return len(kept), len({token.start[0] for token in kept})


def main(folders: list[str]) -> None:
    """Print the tokens of each folder and its subfolders, and the tokens per line."""
    for folder in folders:
        totals: Counter[str] = Counter()
        lines = 0
        for path in sorted((ROOT / folder).rglob("*.py")):
            tokens, code_lines = count_tokens(path.read_text(encoding="utf-8"))
            totals["/".join(path.relative_to(ROOT).parts[:2])] += tokens
            lines += code_lines
        total = sum(totals.values())
        print(f"{folder:<24}{total:>9,}  {total / max(lines, 1):.1f} a line")
        for room, tokens in sorted(totals.items()):
            print(f"  {room:<22}{tokens:>9,}")


if __name__ == "__main__":
    main(sys.argv[1:] or ["electra", "pipelines", "tests", "benchmarks"])
