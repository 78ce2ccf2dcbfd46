"""A table once, three forms: HTML for the page, Markdown to paste, CSV with every digit for a machine.

A column with `under` is shown in small type below another column of the HTML, so that wide tables still fit a phone;
in CSV and Markdown it is a column like any other.
"""

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any, Literal

from electra.finetuning.runs.summary import sd
from pipelines.report.comparison import mean

MISSING = "–"


@dataclass(frozen=True)
class Column:
    """`digits`: places after the point; `under`: the column below which HTML shows this one, `suffix` behind it."""

    title: str
    digits: int | None = None
    under: str = ""
    suffix: str = ""
    align: Literal["left", "right"] = "right"
    group: str = ""  # a heading over neighbouring columns of the same group


@dataclass(frozen=True)
class Spread:
    """Scores of several seeds: shown as mean ± standard deviation, three columns in CSV."""

    scores: tuple[float, ...]


@dataclass(frozen=True)
class Mark:
    """Words with a tone: good, bad, or neutral."""

    text: str
    tone: Literal["good", "bad", "neutral"] = "neutral"


Cell = str | int | float | Spread | Mark | None


@dataclass(frozen=True)
class Table:
    """Rows of cells under named columns; `strong` rows are set apart by a rule and weight; notes stand below."""

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()
    strong: frozenset[int] = field(default_factory=frozenset)

    def __post_init__(self) -> None:
        for row in self.rows:
            assert len(row) == len(self.columns), f"{self.name}: {len(row)} cells under {len(self.columns)} columns"

    def csv(self) -> str:
        """Every digit; a Spread fills `… mean`, `… sd`, `… seeds`."""
        spreads = [any(isinstance(row[i], Spread) for row in self.rows) for i in range(len(self.columns))]
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        heads: list[str] = []
        for column, spread in zip(self.columns, spreads, strict=True):
            title = f"{column.group} {column.title}".strip()
            heads += [f"{title} mean", f"{title} sd", f"{title} seeds"] if spread else [title]
        writer.writerow(heads)
        for row in self.rows:
            cells: list[str] = []
            for cell, spread in zip(row, spreads, strict=True):
                if spread:
                    scores = cell.scores if isinstance(cell, Spread) else ()
                    cells += [_exact(mean(scores)), _exact(sd(scores)), str(len(scores))]
                else:
                    cells.append(_exact(cell))
            writer.writerow(cells)
        return out.getvalue()

    def markdown(self) -> str:
        """A pipe table with its title and notes."""
        grid = [[f"{column.group} {column.title}".strip() for column in self.columns]]
        for index, row in enumerate(self.rows):
            cells = [_text(cell, column).replace("|", "\\|") for cell, column in zip(row, self.columns, strict=True)]
            grid.append([f"**{cell}**" if index in self.strong and cell else cell for cell in cells])
        widths = [max(3, *map(len, column)) for column in zip(*grid, strict=True)]
        left = [column.align == "left" for column in self.columns]
        lines = [
            _pipes(
                [
                    f"{cell:{'<' if is_left else '>'}{width}}"
                    for cell, width, is_left in zip(row, widths, left, strict=True)
                ]
            )
            for row in grid
        ]
        rule = _pipes(
            ["-" * width if is_left else "-" * (width - 1) + ":" for width, is_left in zip(widths, left, strict=True)]
        )
        notes = ["", *(f"{note}  " for note in self.notes)] if self.notes else []
        text = "\n".join([f"**{self.title}**", "", lines[0], rule, *lines[1:], *notes, ""])
        return escape(text, quote=False)  # Markdown lets HTML through, and names are the user's

    def html(self, said: set[str] | None = None) -> str:
        """A `<figure>`: caption, scrollable table, and the notes that are not in `said` yet (they are added to it)."""
        said = set() if said is None else said
        upper = [i for i, column in enumerate(self.columns) if not column.under]
        filled = [j for j in range(len(self.columns)) if any(row[j] is not None for row in self.rows)]
        below = {i: [j for j in filled if self.columns[j].under == self.columns[i].title] for i in upper}
        rows = []
        for index, row in enumerate(self.rows):
            cells = []
            for i in upper:
                column = self.columns[i]
                inner = _html(row[i], column)
                small = [
                    _html(row[j], self.columns[j]) + self.columns[j].suffix for j in below[i] if row[j] is not None
                ]
                if small:
                    inner += f"<small>{', '.join(small)}</small>"
                tag = "th scope=row" if i == 0 else "td"
                cells.append(f'<{tag} class="{column.align}">{inner}</{tag.split()[0]}>')
            rows.append(f"<tr{' class=strong' if index in self.strong else ''}>{''.join(cells)}</tr>")
        heads = "".join(
            f'<th scope=col class="{self.columns[i].align}">{_unbroken(self.columns[i].title)}'
            + (f"<small>{escape(', '.join(self._below(i, j) for j in below[i]))}</small>" if below[i] else "")
            + "</th>"
            for i in upper
        )
        notes = "".join(f"<p>{escape(note)}</p>" for note in self.notes if note not in said)
        said.update(self.notes)
        return (
            f'<figure class="table" id="table-{escape(self.name)}"><figcaption>{escape(self.title)}</figcaption>'
            f'<div class="scroll" role="region" tabindex="0" aria-label="{escape(self.title)}">'
            f"<table{' class=wide' if len(upper) > 7 else ''}><thead>{self._groups(upper)}<tr>{heads}</tr></thead>"
            f"<tbody>{''.join(rows)}</tbody></table></div>"
            f'<div class="notes">{notes}</div></figure>'
        )

    def _below(self, i: int, j: int) -> str:
        """The name of a column below another, less what it repeats of it."""
        return self.columns[j].title.removeprefix(f"{self.columns[i].title}, ")

    def _groups(self, upper: Sequence[int]) -> str:
        if not any(self.columns[i].group for i in upper):
            return ""
        cells: list[tuple[str, int]] = []
        for i in upper:
            group = self.columns[i].group
            if cells and cells[-1][0] == group and group:
                cells[-1] = (group, cells[-1][1] + 1)
            else:
                cells.append((group, 1))
        inner = "".join(
            f'<th colspan="{span}"{" class=group" if group else ""}><span>{escape(group)}</span></th>'
            for group, span in cells
        )
        return f'<tr class="groups">{inner}</tr>'


def _exact(cell: Cell) -> str:
    if cell is None:
        return ""
    if isinstance(cell, float):
        return f"{cell:.6g}" if math.isfinite(cell) else ""
    return cell.text if isinstance(cell, Mark) else str(cell)


def _text(cell: Cell, column: Column) -> str:
    """One cell as plain text."""
    if cell is None or (isinstance(cell, Spread) and not cell.scores):
        return MISSING
    if isinstance(cell, Spread):
        digits = 1 if column.digits is None else column.digits
        spread = sd(cell.scores)
        middle = _minus(f"{mean(cell.scores):.{digits}f}")
        return middle if spread is None else f"{middle} ± {spread:.{digits}f}"
    if isinstance(cell, float):
        return flops(cell) if column.digits is None or abs(cell) >= 1e6 else _minus(f"{cell:.{column.digits}f}")
    if isinstance(cell, int):
        return f"{cell:,}".replace(",", "\u202f")
    return cell.text if isinstance(cell, Mark) else cell


def _unbroken(title: str) -> str:
    """Short names such as SST-2 keep to one line."""
    return " ".join(
        f"<span class=nb>{escape(word)}</span>" if "-" in word and len(word) < 7 else escape(word)
        for word in title.split()
    )


def _html(cell: Cell, column: Column) -> str:
    text = escape(_text(cell, column)).replace(" %", "&nbsp;%")
    if isinstance(cell, Spread) and " ± " in text:
        middle, spread = text.split(" ± ")
        return f'{middle}<span class="sd"> ± {spread}</span>'
    if isinstance(cell, Mark):
        return f'<span class="mark {cell.tone}">{text}</span>'
    return text


def flops(value: float | None) -> str:
    """1.23e+15 as 1.2 × 10¹⁵; small numbers as they are."""
    if value is None:
        return MISSING
    if 0.001 <= abs(value) < 1e6 or value == 0:
        return _minus(f"{value:.4g}")
    digits, power = f"{value:.1e}".split("e")
    raised = str(int(power)).translate(str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻"))
    return f"{_minus(digits)} × 10{raised}"


def signed(value: float, digits: int = 1) -> str:
    """A number with its sign, a true minus, and no negative zero."""
    text = f"{value:+.{digits}f}"
    return text.replace("-", "−") if float(text) else f"{0:.{digits}f}"


def integer(value: Any) -> str:
    """A whole number with thin spaces between thousands."""
    return MISSING if value is None else f"{round(value):,}".replace(",", "\u202f")


def _minus(text: str) -> str:
    return text.replace("-", "−")


def _pipes(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
