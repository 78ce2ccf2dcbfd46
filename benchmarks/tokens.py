"""Count tokens of code by folder: `python benchmarks/tokens.py [FOLDER ...]`.

Tokens are those of Python's `tokenize` without comments, docstrings and line ends. Neither longer
lines nor shorter names change this measure.
"""

import io
import sys
import tokenize
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BLANK = {tokenize.COMMENT, tokenize.NL}
ENDS = {tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}  # of statements


def count_tokens(source: str) -> tuple[int, int]:
    """Return the number of tokens of code in a source text, and of lines with code."""
    kept = []
    begins = True  # a statement; one that begins with a string is a docstring
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in BLANK:
            if token.type not in ENDS and not (begins and token.type == tokenize.STRING):
                kept.append(token)
            begins = token.type in ENDS
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
