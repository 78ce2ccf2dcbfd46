"""Labels as files have them: every way to write a class or a number that can be meant, and a sentence for the rest."""

import math
from typing import Any

import pytest

from electra.finetuning.labels import read_label


@pytest.mark.parametrize(
    ("value", "labels", "read"),
    [
        ("good", ("bad", "good"), "good"),
        (1, ("0", "1"), "1"),
        (1.0, ("0", "1"), "1"),
        (True, ("false", "true"), "true"),
        ("TRUE", ("false", "true"), "true"),
        (True, ("False", "True"), "True"),
        ("3.5", (), 3.5),
        (4, (), 4.0),
    ],
)
def test_a_label_that_can_be_meant_is_read(value: Any, labels: tuple[str, ...], read: Any) -> None:
    assert read_label(value, labels) == (read, "")


@pytest.mark.parametrize(
    ("value", "labels", "said"),
    [
        ("Good", ("bad", "good"), "unknown label 'Good', not one of bad, good"),
        (None, ("bad", "good"), "unknown label"),
        (1.5, ("0", "1"), "unknown label"),
        ("much", (), "is no number"),
        (True, (), "is no finite number"),
        (math.inf, (), "is no finite number"),
        (10**400, (), "is no number"),
    ],
)
def test_any_other_is_told(value: Any, labels: tuple[str, ...], said: str) -> None:
    label, wrong = read_label(value, labels)
    assert label is None and said in wrong
