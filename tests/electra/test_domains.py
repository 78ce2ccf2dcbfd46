"""Intervals: what is inside, and what the sentence says."""

import math
from dataclasses import dataclass
from typing import Annotated

import pytest

from electra.config import build
from electra.domains import Checked, Interval
from electra.errors import BadConfig, shown
from electra.pretraining.config import ObjectiveConfig


@pytest.mark.parametrize(
    ("interval", "inside", "outside", "text"),
    [
        (Interval(0, 1), (0, 0.5, 1), (-1e-9, 1 + 1e-9), "a number from 0 to 1"),
        (Interval(0, 1, "(]"), (1e-9, 1), (0, 1.1), "a number above 0 and at most 1"),
        (Interval(0, 1, "[)"), (0, 0.99), (-0.1, 1), "a number at least 0 and below 1"),
        (Interval(0, 1e9, "()"), (1, 1e8), (0, 1e9, 10**400), "a number above 0 and below 1,000,000,000"),
        (Interval(1e-6, 1e30), (1,), (1e-7, 1e31), "a number from 1e-06 to 1e+30"),
    ],
)
def test_intervals(interval: Interval, inside: tuple[float, ...], outside: tuple[float, ...], text: str) -> None:
    assert all(value in interval for value in inside)
    assert not any(value in interval for value in (*outside, math.nan, math.inf, -math.inf))
    assert str(interval) == text


@dataclass(frozen=True, kw_only=True)
class Settings(Checked):
    one: Annotated[float, Interval(0, 1)] = 0.5
    some: tuple[Annotated[int, Interval(1, 9)], ...] = ()
    maybe: Annotated[int, Interval(1, 9)] | None = None
    free: float = 0.0


def test_settings_are_checked_however_they_are_built() -> None:
    assert Settings(one=1.0, some=(1, 9), maybe=3, free=math.inf).maybe == 3
    for values, key in (({"one": -1.0}, "one"), ({"some": [1, 10]}, r"some\[1\]"), ({"maybe": 0}, "maybe")):
        with pytest.raises(BadConfig, match=f"^{key}: is "):
            Settings(**values)  # type: ignore[arg-type]
        with pytest.raises(BadConfig, match=rf"^here\.{key}: is "):
            build(Settings, values, "here")


@pytest.mark.parametrize("temperature", [0.0, 1e-300, 1e-9, 1e10, 1e300])
def test_what_32_bits_cannot_divide_by_is_refused(temperature: float) -> None:
    with pytest.raises(BadConfig, match=r"temperature: is .*; expected a number from 1e-06 to 1,000,000,000"):
        ObjectiveConfig(temperature=temperature)


def test_a_value_in_a_sentence_is_short_and_stands_on_one_line() -> None:
    assert shown("a") == "'a'"
    assert len(shown("a" * 10_000)) <= 120 and len(shown(list(range(10_000)))) <= 120
    assert shown(16**5000) == "a whole number of 20,001 bits"  # Python refuses to write it in decimal
    again: list[object] = []
    again.append(again)
    for _ in range(50):
        again = [again] * 50
    assert len(shown(again)) < 500
    assert "\n" not in shown({"a\nb": "c\nd"})
