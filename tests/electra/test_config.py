"""Settings: refused values, and their messages."""

import dataclasses
import math
from typing import Annotated, Literal

import pytest
from pydantic import Field, ValidationError
from pydantic.dataclasses import dataclass

from electra.config import (
    Count,
    Probability,
    Settings,
    build,
    digest,
    faults,
    require,
    require_unique,
    to_jsonable,
    without_defaults,
)
from electra.errors import BadConfig, short_repr


@dataclass(frozen=True, kw_only=True)
class Layer(Settings):
    kind: Literal["layer"] = "layer"
    width: Count = 8
    heads: Count = 2

    def __post_init__(self):
        require(
            self.width % self.heads == 0,
            f"heads: is {self.heads}, should divide width ({self.width})",
        )


@dataclass(frozen=True, kw_only=True)
class Table(Settings):
    kind: Literal["table"]
    rows: Count


Part = Annotated[Layer | Table, Field(discriminator="kind")]


@dataclass(frozen=True, kw_only=True)
class Network(Settings):
    name: str
    rate: Probability = 0.5
    parts: tuple[Part, ...] = ()
    named: dict[str, Layer] = dataclasses.field(default_factory=dict)
    budget: Count | Table = 5

    def __post_init__(self):
        require_unique(self.parts, "parts", empty=True)


LAYER = {"kind": "layer"}
NETWORK = {"name": "a", "rate": 1, "parts": [LAYER, {"kind": "table", "rows": 3}], "budget": 7}


def test_build_makes_settings_of_plain_values():
    network = build(Network, NETWORK, "models.a")
    assert network == Network(
        name="a", rate=1.0, parts=(Layer(), Table(kind="table", rows=3)), budget=7
    )
    assert build(Network, to_jsonable(network), "") == network
    # no defaults
    assert without_defaults(network) == {
        **NETWORK,
        "parts": [{}, {"kind": "table", "rows": 3}],
    }
    assert digest(network) == digest(to_jsonable(network)) != digest({**NETWORK, "rate": 0.1})


FAULTS = [
    ({"rate": True}, "m.rate: is True, should be a valid number"),
    ({"rate": math.nan}, "m.rate: is nan, should be a finite number"),
    ({"raet": 1.0}, "m.raet: no such setting; did you mean rate?"),
    ({"rows": 3}, "m.rows: no such setting; it belongs to another section"),
    ({"parts": [LAYER | {"width": 3}]}, "m.parts[0].heads: is 2, should divide width (3)"),
    ({"parts": [{"kind": "table"}]}, "m.parts[0].rows: is missing"),
    ({"parts": [{"kind": "t"}]}, "m.parts[0].kind: is 't', should be one of 'layer', 'table'"),
    ({"parts": [{"rows": 3}]}, "m.parts[0].kind: is missing"),
    ({"parts": [LAYER, LAYER]}, "m.parts: is ["),
    ({"named": {"x": {"width": 3}}}, "m.named.x.heads: is 2, should divide width (3)"),
    ({"budget": [1]}, "m.budget: is [1], should be a valid integer or be an object"),
]


@pytest.mark.parametrize("changed, sentence", FAULTS, ids=str)
def test_build_names_the_place_of_a_fault(changed, sentence):
    with pytest.raises(BadConfig) as error:
        build(Network, NETWORK | changed, "m")
    assert str(error.value).startswith(sentence)


def test_build_names_every_fault_and_a_section_that_is_none():
    with pytest.raises(BadConfig, match=r"^m\.name: is missing; m\.rate: is -1, should be greater"):
        build(Network, {"rate": -1}, "m")
    with pytest.raises(BadConfig, match=r"^m: is 5, should be an object"):
        build(Network, 5, "m")
    deep = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(BadConfig, match=r"^m: is nested too deeply"):
        build(Network, {"name": deep}, "m")


def test_settings_are_checked_when_python_builds_them():
    with pytest.raises(ValidationError) as error:
        dataclasses.replace(Layer(), width=-1)
    assert list(faults(error.value, None)) == ["width: is -1, should be greater than or equal to 1"]
    with pytest.raises(ValueError, match="should divide width"):
        Layer(width=7)


def test_shown_is_short_and_stands_on_one_line():
    assert short_repr("a\nb") == r"'a\nb'"
    assert len(short_repr("a" * 10_000)) <= 120 and len(short_repr(list(range(10_000)))) <= 120
    # Python refuses to write it in decimal
    assert short_repr(16**5000) == "a whole number of 20,001 bits"
