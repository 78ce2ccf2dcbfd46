"""Which numbers a setting may have, declared beside it: `dropout: Annotated[float, Interval(0, 1, "[)")] = 0.1`.

A dataclass that inherits from `Checked` refuses every other number, nan and infinity among them, however it is built.
Upper ends are far above all use: a number beyond them can only be a slip.
"""

import typing
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from electra.errors import BadConfig, shown


@dataclass(frozen=True)
class Interval:
    """The numbers from `low` to `high`; a round bracket leaves that end out."""

    low: float
    high: float
    ends: Literal["[]", "[)", "(]", "()"] = "[]"

    def __contains__(self, value: float) -> bool:
        above = value > self.low if self.ends[0] == "(" else value >= self.low
        return above and (value < self.high if self.ends[1] == ")" else value <= self.high)

    def __str__(self) -> str:
        low, high = (f"{int(end):,}" if end == int(end) < 1e12 else f"{end:g}" for end in (self.low, self.high))
        if self.ends == "[]":
            return f"a number from {low} to {high}"
        first, second = {"(": "above", "[": "at least"}[self.ends[0]], {")": "below", "]": "at most"}[self.ends[1]]
        return f"a number {first} {low} and {second} {high}"


Count = Annotated[int, Interval(1, 10**9)]
Amount = Annotated[int, Interval(0, 10**9)]  # where none will do
Size = Annotated[int, Interval(1, 2**20)]  # of a dimension of a network
Seed = Annotated[int, Interval(0, 2**32 - 1)]
Positive = Annotated[float, Interval(1e-6, 1e9)]  # what it divides or multiplies stays within 32 bits
Weight = Annotated[float, Interval(0, 1e9)]
Probability = Annotated[float, Interval(0, 1)]
Rate = Annotated[float, Interval(0, 1, "(]")]  # of learning; a share that cannot be nothing
Fraction = Annotated[float, Interval(0, 1, "()")]
BelowOne = Annotated[float, Interval(0, 1, "[)")]  # dropout, the betas of Adam


class Checked:
    """The base of settings: refuses numbers outside of their domains, naming the field."""

    _intervals: ClassVar[tuple[tuple[str, Interval], ...]]  # by field: of its number, or of each number of its list

    def __init_subclass__(cls) -> None:
        hints = typing.get_type_hints(cls, include_extras=True)
        cls._intervals = tuple((key, interval) for key, hint in hints.items() for interval in _within(hint))

    def __post_init__(self) -> None:
        for key, interval in self._intervals:
            value = getattr(self, key)
            several = isinstance(value, tuple | list)
            for index, number in enumerate(value if several else (value,)):
                if isinstance(number, int | float) and number not in interval:
                    raise BadConfig(f"{key}[{index}]" if several else key, f"is {shown(number)}", str(interval))


def _within(hint: Any) -> Iterator[Interval]:
    for inner in typing.get_args(hint):
        if isinstance(inner, Interval):
            yield inner
        else:
            yield from _within(inner)
