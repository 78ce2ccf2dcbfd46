"""A table once, three forms: HTML for the page (templates/table.html), Markdown to paste, CSV with every digit.

A column with `under` is shown in small type below another column of the HTML, so that wide tables still fit a phone;
in CSV and Markdown it is a column like any other.
"""

import csv
import io
import math
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

from electra.finetuning.runs.summary import sd
from pipelines.report.comparison import mean

MISSING = "–"
TEXTS = tomllib.loads(Path(__file__).with_name("texts.toml").read_text(encoding="utf-8"))
NOTES, CAPTIONS = TEXTS["notes"], TEXTS["captions"]


@dataclass(frozen=True)
class Spread:
    """Scores of several seeds: shown as mean ± standard deviation, three columns in CSV."""

    scores: tuple[float, ...]

    def text(self, digits: int = 1) -> str:
        """71.2 ± 0.6, or 71.2 from one seed, or – from none."""
        middle, width = mean(self.scores), sd(self.scores)
        if middle is None:
            return MISSING
        text = f"{middle:.{digits}f}".replace("-", "−")
        return text if width is None else f"{text} ± {width:.{digits}f}"


@dataclass(frozen=True)
class Mark:
    """Words with a tone: good, bad, or neutral."""

    text: str
    tone: Literal["good", "bad", "neutral"] = "neutral"


Cell = str | int | float | Spread | Mark | None


@dataclass(frozen=True)
class Column:
    """`digits`: places after the point; `under`: the column below which HTML shows this one, `suffix` behind it."""

    title: str
    digits: int | None = None
    under: str = ""
    suffix: str = ""
    align: Literal["left", "right"] = "right"
    group: str = ""  # a heading over neighbouring columns of the same group

    @property
    def full_title(self) -> str:
        """The title with its group in front."""
        return f"{self.group} {self.title}".strip()

    def text(self, cell: Cell) -> str:
        """One cell as plain text."""
        if cell is None:
            return MISSING
        if isinstance(cell, Spread):
            return cell.text(1 if self.digits is None else self.digits)
        if isinstance(cell, float) and self.digits is not None and abs(cell) < 1e6:
            return f"{cell:.{self.digits}f}".replace("-", "−")
        if isinstance(cell, float):
            return flops(cell)
        return integer(cell) if isinstance(cell, int) else cell.text if isinstance(cell, Mark) else cell


def left(*titles: str, under: str = "", group: str = "") -> tuple[Column, ...]:
    """Columns of words."""
    return tuple(Column(title, under=under, align="left", group=group) for title in titles)


@dataclass(frozen=True)
class Table:
    """Rows of cells under named columns; `strong` rows are set apart by a rule and weight; notes stand below."""

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: Sequence[tuple[Cell, ...]]
    notes: tuple[str, ...] = ()
    strong: frozenset[int] = field(default_factory=frozenset)

    def __post_init__(self) -> None:
        for row in self.rows:
            assert len(row) == len(self.columns), f"{self.name}: {len(row)} cells under {len(self.columns)} columns"

    @property
    def layout(self) -> dict[int, list[int]]:
        """The columns that HTML shows side by side, each with those below it (unless empty), by index."""
        filled = [i for i in range(len(self.columns)) if any(row[i] is not None for row in self.rows)]
        shown = [(i, column.title) for i, column in enumerate(self.columns) if not column.under]
        return {i: [j for j in filled if self.columns[j].under == title] for i, title in shown}

    @property
    def groups(self) -> list[tuple[str, int]]:
        """The headings over the columns of `layout`, each with the number of columns it spans; [] if none has one."""
        spans = groupby(self.layout, key=lambda i: self.columns[i].group or i)
        groups = [(str(group) if isinstance(group, str) else "", len(list(columns))) for group, columns in spans]
        return groups if any(group for group, _ in groups) else []

    def csv(self) -> str:
        """Every digit; a Spread fills `… mean`, `… sd`, `… seeds`."""
        spreads = [any(isinstance(row[i], Spread) for row in self.rows) for i in range(len(self.columns))]
        lines: list[list[str]] = [[]]
        for column, spread in zip(self.columns, spreads, strict=True):
            lines[0] += [f"{column.full_title}{part}" for part in ((" mean", " sd", " seeds") if spread else ("",))]
        for row in self.rows:
            lines.append([])
            for cell, spread in zip(row, spreads, strict=True):
                scores = cell.scores if isinstance(cell, Spread) else ()
                lines[-1] += [_exact(mean(scores)), _exact(sd(scores)), str(len(scores))] if spread else [_exact(cell)]
        out = io.StringIO()
        csv.writer(out, lineterminator="\n").writerows(lines)
        return out.getvalue()

    def markdown(self) -> str:
        """A pipe table with its title and notes."""
        grid = [[column.full_title for column in self.columns]]
        for index, row in enumerate(self.rows):
            cells = [column.text(cell).replace("|", "\\|") for cell, column in zip(row, self.columns, strict=True)]
            grid.append([f"**{cell}**" if index in self.strong and cell else cell for cell in cells])
        widths = [max(3, *map(len, column)) for column in zip(*grid, strict=True)]
        sides = ["<" if column.align == "left" else ">" for column in self.columns]
        lines = [
            [f"{cell:{side}{width}}" for cell, side, width in zip(row, sides, widths, strict=True)] for row in grid
        ]
        rule = [
            "-" * width if side == "<" else "-" * (width - 1) + ":" for side, width in zip(sides, widths, strict=True)
        ]
        lines.insert(1, rule)
        notes = ["", *(f"{note}  " for note in self.notes)] if self.notes else []
        text = "\n".join([f"**{self.title}**", "", *(f"| {' | '.join(line)} |" for line in lines), *notes, ""])
        return escape(text, quote=False)  # Markdown lets HTML through, and names are the user's


def _exact(cell: Cell) -> str:
    if isinstance(cell, float):
        return f"{cell:.6g}" if math.isfinite(cell) else ""
    return "" if cell is None else cell.text if isinstance(cell, Mark) else str(cell)


def flops(value: float | None) -> str:
    """1.23e+15 as 1.2 × 10¹⁵; small numbers as they are."""
    if value is None:
        return MISSING
    if 0.001 <= abs(value) < 1e6 or value == 0:
        return f"{value:.4g}".replace("-", "−")
    digits, power = f"{value:.1e}".split("e")
    raised = str(int(power)).translate(str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻"))
    return f"{digits.replace('-', '−')} × 10{raised}"


def signed(value: float, digits: int = 1) -> str:
    """A number with its sign, a true minus, and no negative zero."""
    text = f"{value:+.{digits}f}"
    return text.replace("-", "−") if float(text) else f"{0:.{digits}f}"


def integer(value: Any) -> str:
    """A whole number with thin spaces between thousands."""
    return MISSING if value is None else f"{round(value):,}".replace(",", "\u202f")
