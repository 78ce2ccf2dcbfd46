"""One table, three formats: HTML for the page (templates/table.html), Markdown to paste, CSV at
full precision.

A row is a dict from column to cell, so a column is written beside its value, and a table has the
columns of all its rows. A column with `under` is shown in small type below another column of the
HTML, so that wide tables still fit a phone; in CSV and Markdown it is a column like any other.
"""

import csv
import io
import math
import tomllib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

from pipelines.finetuning_runs.summary import sd
from pipelines.report.comparison import Difference, mean

MISSING = "–"
TEXTS = tomllib.loads(Path(__file__).with_name("texts.toml").read_text(encoding="utf-8"))
NOTES, CAPTIONS = TEXTS["notes"], TEXTS["captions"]
TONES = {"higher": "good", "lower": "bad"}


@dataclass(frozen=True)
class Spread:
    """Scores of several seeds: mean ± standard deviation in a text, three columns in CSV."""

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
    tone: str = "neutral"


Cell = str | int | float | Spread | Mark | None


@dataclass(frozen=True)
class Column:
    """`digits` after the point; `under`: the title of the column below which HTML shows this one,
    `suffix` behind it.

    `group` is a heading over neighbouring columns that share it.
    """

    title: str
    digits: int | None = None
    under: str = ""
    suffix: str = ""
    align: Literal["left", "right"] = "right"
    group: str = ""

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
        return (
            integer(cell)
            if isinstance(cell, int)
            else cell.text
            if isinstance(cell, Mark)
            else cell
        )


Row = dict[Column, Cell]


def left(title: str, under: str = "", group: str = "") -> Column:
    """A column of words."""
    return Column(title, under=under, align="left", group=group)


def verdict(found: Difference | None, title: str, reading: Column, group: str = "") -> Row:
    """A difference as three cells: in points, its 95 % interval, and the verdict."""
    points, around = Column(title, group=group), Column("95 % interval", under=title)
    if found is None:
        return dict.fromkeys((points, around, reading))
    mark = Mark(found.verdict, TONES.get(found.verdict, "neutral"))
    return {points: signed(found.points), around: interval(found), reading: mark}


@dataclass(frozen=True)
class Table:
    """Rows under the columns that they name, with notes below. A cell that a row lacks is blank,
    None is missing.

    The rows in `strong`, by number, are set apart by a rule and weight.
    """

    name: str
    title: str
    rows: Sequence[Row]
    notes: Sequence[str] = ()
    strong: Collection[int] = ()

    @property
    def columns(self) -> dict[Column, list[Cell]]:
        """Every column with its cells."""
        columns = dict.fromkeys(column for row in self.rows for column in row)
        return {column: [row.get(column, "") for row in self.rows] for column in columns}

    @property
    def layout(self) -> dict[Column, list[Column]]:
        """The columns that HTML shows side by side, each with those below it (unless empty)."""
        filled = [
            column
            for column, cells in self.columns.items()
            if any(cell is not None for cell in cells)
        ]
        return {
            top: [each for each in filled if each.under == top.title]
            for top in self.columns
            if not top.under
        }

    @property
    def groups(self) -> list[tuple[str, int]]:
        """The headings over the columns of `layout`, each with the number of columns it spans; []
        if none has one.
        """
        spans = groupby(self.layout, key=lambda column: column.group or column)
        groups = [
            (key if isinstance(key, str) else "", len(list(columns))) for key, columns in spans
        ]
        return groups if any(group for group, _ in groups) else []

    def csv(self) -> str:
        """Every digit; a Spread fills `… mean`, `… sd`, `… seeds`."""
        columns: list[list[str]] = []
        for column, cells in self.columns.items():
            title = column.full_title
            if any(isinstance(cell, Spread) for cell in cells):
                scores = [cell.scores if isinstance(cell, Spread) else () for cell in cells]
                columns.append([f"{title} mean", *(_exact(mean(each)) for each in scores)])
                columns.append([f"{title} sd", *(_exact(sd(each)) for each in scores)])
                columns.append([f"{title} seeds", *(str(len(each)) for each in scores)])
            else:
                columns.append([title, *map(_exact, cells)])
        out = io.StringIO()
        csv.writer(out, lineterminator="\n").writerows(zip(*columns, strict=True))
        return out.getvalue()

    def markdown(self) -> str:
        """A pipe table with its title and notes."""
        columns = []
        for column, cells in self.columns.items():
            texts = [column.text(cell).replace("|", "\\|") for cell in cells]
            texts = [
                f"**{text}**" if number in self.strong and text else text
                for number, text in enumerate(texts)
            ]
            width = max(3, *map(len, [column.full_title, *texts]))
            side, rule = (
                ("<", "-" * width) if column.align == "left" else (">", "-" * (width - 1) + ":")
            )
            title, *texts = (f"{text:{side}{width}}" for text in (column.full_title, *texts))
            columns.append([title, rule, *texts])
        lines = [f"| {' | '.join(line)} |" for line in zip(*columns, strict=True)]
        notes = ["", *(f"{note}  " for note in self.notes)] if self.notes else []
        text = "\n".join([f"**{self.title}**", "", *lines, *notes, ""])
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


def interval(found: Difference) -> str | None:
    """The 95 % interval of a difference: +2.8 to +7.4."""
    return (
        None
        if found.low is None or found.high is None
        else f"{signed(found.low)} to {signed(found.high)}"
    )


def integer(value: Any) -> str:
    """A whole number with thin spaces between thousands."""
    return MISSING if value is None else f"{round(value):,}".replace(",", "\u202f")
