"""Which numbers a setting may have, declared beside it: `dropout: Annotated[float, Interval(0, 1, "[)")] = 0.1`.

A dataclass that inherits from `Checked` refuses every other number, nan and infinity among them, however it is built.
Upper ends are far above all use: they stand where a number can only be a slip.
"""

import functools
import reprlib
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from electra.errors import BadConfig


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
        first, second = (
            ("above" if self.ends[0] == "(" else "at least"),
            ("below" if self.ends[1] == ")" else "at most"),
        )
        return f"a number {first} {low} and {second} {high}"


Count = Annotated[int, Interval(1, 10**9)]
Amount = Annotated[int, Interval(0, 10**9)]  # where none will do
Size = Annotated[int, Interval(1, 2**20)]  # of a dimension of a network
Seed = Annotated[int, Interval(0, 2**32 - 1)]
Positive = Annotated[float, Interval(0, 1e9, "(]")]
Weight = Annotated[float, Interval(0, 1e9)]
Probability = Annotated[float, Interval(0, 1)]
Rate = Annotated[float, Interval(0, 1, "(]")]  # of learning; a share that cannot be nothing
Fraction = Annotated[float, Interval(0, 1, "()")]
BelowOne = Annotated[float, Interval(0, 1, "[)")]  # dropout, the betas of Adam


class Checked:
    """The base of settings: refuses numbers outside of their domains, naming the field."""

    def __post_init__(self) -> None:
        for key, hint in _hints(type(self)).items():
            _check(hint, getattr(self, key), key)


_hints: Callable[[Any], dict[str, Any]] = functools.cache(functools.partial(typing.get_type_hints, include_extras=True))


def _check(hint: Any, value: Any, key: str) -> None:
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        if isinstance(value, int | float) and value not in inner[1]:
            raise BadConfig(key, f"is {shown(value)}", str(inner[1]))
    elif origin in {typing.Union, types.UnionType}:
        for option in inner:
            _check(option, value, key)
    elif origin is tuple:
        for index, item in enumerate(value):
            _check(inner[0], item, f"{key}[{index}]")


def shown(value: object) -> str:
    """A value in a sentence: as Python writes it, on one line, without its middle where it is long."""
    if isinstance(value, int) and value.bit_length() > 1000:  # Python refuses to write the longest
        return f"a whole number of {value.bit_length():,} bits"
    short = reprlib.Repr()
    short.maxlevel = 2
    short.maxstring = short.maxother = short.maxlong = 80
    return " ".join(short.repr(value).split())
