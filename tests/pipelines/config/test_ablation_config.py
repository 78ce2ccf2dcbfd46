"""Ablations as data: what a grid becomes, what is shared, and what is refused."""

import re

import pytest

from electra.config import build
from electra.errors import BadConfig
from pipelines.config.ablation_config import AblationConfig
from pipelines.config.params import load
from tests.conftest import ROOT

BASE = {"title": "t", "model": "m", "tokens": "t", "data": "d", "recipe": "r"}


def made(**values) -> AblationConfig:
    return build(AblationConfig, {**BASE, **values}, "ablations.a")


def test_a_grid_is_every_value_with_every_value() -> None:
    grid = {
        "objective": {"electra": {}, "mlm": {"objective.name": "mlm"}},
        "generator.width": [0.25, 1.0],
    }
    config = made(grid=grid, common={"pretrain.eval_batches": 4}, labels={"mlm": "BERT"})
    common = {"pretrain.eval_batches": 4}
    assert config.settings == {
        "electra-width0.25": {**common, "generator.width": 0.25},
        "electra-width1.0": {**common, "generator.width": 1.0},
        "mlm-width0.25": {**common, "objective.name": "mlm", "generator.width": 0.25},
        "mlm-width1.0": {**common, "objective.name": "mlm", "generator.width": 1.0},
    }
    assert config.label("mlm-width1.0") == "BERT, width1.0"
    assert config.values("mlm-width1.0") == ("mlm", "width1.0")
    assert config.compared == "electra-width0.25"


def test_an_arm_wins_over_what_is_common_and_stands_beside_a_grid() -> None:
    config = made(arms={"one": {"a.b": 2}}, grid={"a.b": [3, 4]}, common={"a.b": 1}, reference="b4")
    assert config.settings == {"one": {"a.b": 2}, "b3": {"a.b": 3}, "b4": {"a.b": 4}}
    assert (config.label("one"), config.values("one"), config.compared) == ("one", (), "b4")


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"grid": {"axis": {}}}, "grid.axis"),
        ({"grid": {"a": [*range(40)], "b": [*range(40)]}}, "grid: makes 1,600 arms"),
        ({"arms": {"../up": {}}}, "letters, digits"),
        ({"arms": {"b1": {}}, "grid": {"a.b": [1]}}, "makes arms of equal names"),
        ({"arms": {"one": {}}, "reference": "two"}, "reference"),
        ({"arms": {"one": {"pretrain.seed": 3}}}, "leave it to `seeds`"),
        ({"arms": {"one": {"pretrain.steps": 3}}}, "`budget: own`"),
        ({"arms": {"one": {}}, "budget": "own", "steps": 5}, "should be null with `budget: own`"),
    ],
)
def test_a_mistake_is_a_sentence_that_names_the_key(values, expected) -> None:
    with pytest.raises(BadConfig) as caught:
        made(**values)
    assert expected in str(caught.value)
    assert str(caught.value).startswith("ablations.a.")


def test_the_example_in_the_documentation_is_one(tmp_path) -> None:
    page = (ROOT / "docs" / "ablations.md").read_text(encoding="utf-8")
    example = re.findall(r"^```yaml\n(.*?)^```", page, re.M | re.S)[0].removeprefix("ablations:\n")
    (tmp_path / "params.yaml").write_text(
        (ROOT / "params.yaml").read_text(encoding="utf-8") + example
    )
    params = load(tmp_path / "params.yaml")
    names = list(params.ablations["my_grid"].settings)
    assert names == [
        f"mask_rate{rate}-{size}" for rate in (0.1, 0.15, 0.3) for size in ("small", "large")
    ]
    assert params.arm("my_grid", "mask_rate0.3-large").generator.depth == 0.5


def test_every_experiment_has_a_line_in_the_documentation() -> None:
    page = (ROOT / "docs" / "ablations.md").read_text(encoding="utf-8")
    assert [name for name in load(ROOT / "params.yaml").ablations if f"`{name}`" not in page] == []
