"""Labels as files have them (text, numbers, true and false) and as rows do: the names of classes, or finite numbers."""

import math
from collections.abc import Sequence
from typing import Any

from electra.errors import shown


def read_label(value: Any, labels: Sequence[str]) -> tuple[str | float | None, str]:
    """A row's label and what is wrong with it ("" if nothing): a class name, or without classes a finite number."""
    if not labels:
        try:
            number = math.nan if isinstance(value, bool) else float(value)
        except (TypeError, ValueError, OverflowError):
            return None, f"label {shown(value)} is no number"
        return (number, "") if math.isfinite(number) else (None, f"label {shown(value)} is no finite number")
    name = label_name(value)
    if name not in labels and isinstance(value, bool | str) and set(labels) <= {"true", "false"}:
        name = name.lower()  # as tables write them
    elif isinstance(value, bool) and str(value) in labels:
        name = str(value)
    return (name, "") if name in labels else (None, f"unknown label {shown(name)}, not one of {', '.join(labels)}")


def label_name(value: object) -> str:
    """A class as text: `true` and `1` as JSON and YAML write them, whatever type a reader made of them."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return value if isinstance(value, str) else shown(value)
