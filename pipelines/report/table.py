"""One table in two formats: HTML for the page (templates/table.html), CSV at full precision.

A row is a dict from column to cell, so a column is written next to its value, and a table has the
columns of all its rows. A column with `under` is shown in small type below another column of the
HTML, so that wide tables still fit a phone. In CSV it is a column like any other.
"""

import csv
import io
import itertools
import tomllib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pipelines.finetuning_runs.summary import sd
from pipelines.report.comparison import Difference, mean

MISSING = "–"
TEXTS = tomllib.loads(Path(__file__).with_name("texts.toml").read_text(encoding="utf-8"))
NOTES = TEXTS["notes"]
CAPTIONS = TEXTS["captions"]
TONES = {"higher": "good", "came out": "good", "lower": "bad", "reversed": "bad"}


@dataclass(frozen=True)
class Spread:
    """Scores of several seeds: mean ± standard deviation in a text, three columns in CSV."""

    scores: tuple[float, ...]

    def __str__(self) -> str:
        """Return 71.2 ± 0.6, or 71.2 from one seed, or – from none."""
        if not self.scores:
            return MISSING
        text = f"{mean(self.scores):.1f}".replace("-", "−")
        return text if len(self.scores) < 2 else f"{text} ± {sd(self.scores):.1f}"


@dataclass(frozen=True)
class Mark:
    """Words with a tone: good, bad, or neutral."""

    text: str
    tone: str = "neutral"

    def __str__(self) -> str:
        return self.text


Cell = str | int | float | Spread | Mark | None


@dataclass(frozen=True)
class Column:
    """`digits` after the point. `under`: the title of the column that HTML shows above this one."""

    title: str
    digits: int | None = None
    under: str = ""
    align: Literal["left", "right"] = "right"

    def text(self, cell: Cell) -> str:
        """Return one cell as plain text."""
        if cell is None:
            return MISSING
        if isinstance(cell, float):
            if self.digits is None:
                return flops(cell)
            return f"{cell:.{self.digits}f}".replace("-", "−")
        return integer(cell) if isinstance(cell, int) else str(cell)


Row = dict[Column, Cell]


def left(title: str, under: str = "") -> Column:
    """Return a column of words."""
    return Column(title, under=under, align="left")


def verdict(difference: Difference | None, reading: Column) -> Row:
    """Return a difference as three cells: the verdict, the points, and their 95 % interval."""
    points = Column("difference")
    around = Column("95 % interval", under="difference")
    if difference is None:
        return {reading: None, points: None, around: None}
    return {
        reading: mark(difference.verdict),
        points: signed(difference.points),
        around: interval(difference),
    }


def mark(verdict: str) -> "Mark":
    """Return a verdict in its tone."""
    return Mark(verdict, TONES.get(verdict, "neutral"))


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
        columns = dict.fromkeys(itertools.chain(*self.rows))
        return {column: [row.get(column, "") for row in self.rows] for column in columns}

    @property
    def layout(self) -> dict[Column, list[Column]]:
        """The columns that HTML shows side by side, each with those below it (unless empty)."""
        columns = self.columns
        small = [column for column in columns if column.under and any(columns[column])]
        return {
            top: [column for column in small if column.under == top.title]
            for top in columns
            if not top.under
        }

    def csv(self) -> str:
        """Return every digit. A Spread fills `… mean`, `… sd`, `… seeds`."""
        columns: list[list[str]] = []
        for column, cells in self.columns.items():
            title = column.title
            if any(isinstance(cell, Spread) for cell in cells):
                scores = [cell.scores if isinstance(cell, Spread) else () for cell in cells]
                columns.append([f"{title} mean", *(_exact(mean(of_seeds)) for of_seeds in scores)])
                columns.append([f"{title} sd", *(_exact(sd(of_seeds)) for of_seeds in scores)])
                columns.append([f"{title} seeds", *(str(len(of_seeds)) for of_seeds in scores)])
            else:
                columns.append([title, *map(_exact, cells)])
        out = io.StringIO()
        csv.writer(out, lineterminator="\n").writerows(zip(*columns, strict=True))
        return out.getvalue()


def _exact(cell: Cell) -> str:
    if isinstance(cell, float):
        return f"{cell:.6g}"
    return "" if cell is None else str(cell)


def flops(value: float) -> str:
    """Return 1.23e+15 as 1.2 × 10¹⁵, and small numbers as they are."""
    if 0.001 <= abs(value) < 1e6 or value == 0:
        return f"{value:.4g}".replace("-", "−")
    digits, power = f"{value:.1e}".split("e")
    raised = str(int(power)).translate(str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻"))
    return f"{digits.replace('-', '−')} × 10{raised}"


def signed(value: float) -> str:
    """Return a number with its sign, a true minus, and no negative zero."""
    text = f"{value:+.1f}"
    return text.replace("-", "−") if float(text) else "0.0"


def interval(difference: Difference) -> str | None:
    """Return the 95 % interval of a difference: +2.8 to +7.4."""
    if difference.low is None or difference.high is None:
        return None
    return f"{signed(difference.low)} to {signed(difference.high)}"


def integer(value: Any) -> str:
    """Return a whole number with commas between thousands."""
    return MISSING if value is None else f"{round(value):,}"
