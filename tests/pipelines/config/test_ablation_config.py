"""Ablations as data: expanded grids, shared settings, and refused ones."""

import re

import pytest

from electra.config import build, to_jsonable
from electra.errors import BadConfig
from pipelines.config.ablation_config import AblationConfig
from tests.support.project import SMOKE, read_text

BASE = {"model": "m", "tokens": "t", "data": "d", "recipe": "r"}
ARMS = "arms: {one: {}, two: {label: BERT, objective.name: mlm}}"
ABLATION = SMOKE.replace(
    "ablations: {}",
    f"""ablations:
  a: {{title: t, base: {{model: smoke, tokens: smoke, data: smoke, recipe: smoke}}, protocol: {{}},
      {ARMS}}}
""",
)
PROTOCOLS = "protocols: {smoke: {}}"


def make(**values):
    return build(AblationConfig, {"title": "t", "base": BASE} | values, "ablations.a")


def test_grid_combines_every_value_of_each_axis_and_arms_stand_beside_it():
    arms = {"one": {"pretrain.eval_batches": 8}}
    grid = {
        "objective": {"electra": {}, "mlm": {"label": "BERT", "objective.name": "mlm"}},
        "generator.width": [0.25, 1.0],
    }
    common = {"pretrain.eval_batches": 4}
    config = make(arms=arms, grid=grid, protocol={"common": common}, reference="mlm-width0.25")
    assert config.settings == {
        "one": {"pretrain.eval_batches": 8},
        "electra-width0.25": {**common, "generator.width": 0.25},
        "electra-width1.0": {**common, "generator.width": 1.0},
        "mlm-width0.25": {**common, "objective.name": "mlm", "generator.width": 0.25},
        "mlm-width1.0": {**common, "objective.name": "mlm", "generator.width": 1.0},
    }
    assert [config.label(arm) for arm in ("one", "mlm-width1.0")] == ["one", "BERT, width1.0"]
    assert [config.values(arm) for arm in ("one", "mlm-width1.0")] == [(), ("mlm", "width1.0")]
    assert (config.compared, make(arms=arms).compared) == ("mlm-width0.25", "one")


@pytest.mark.parametrize(
    "values, expected",
    [
        ({"grid": {"axis": {}}}, "grid.axis"),
        ({"grid": {"a": [*range(40)], "b": [*range(40)]}}, "grid: makes 1,600 arms"),
        ({"arms": {"../up": {}}}, "letters, digits"),
        ({"arms": {"b1": {}}, "grid": {"a.b": [1]}}, "makes arms of equal names"),
        ({"arms": {"one": {}}, "reference": "two"}, "reference: no arm 'two'"),
        ({"arms": {"one": {"pretrain.seed": 3}}}, "leave it to `seeds`"),
        ({"arms": {"one": {"pretrain.steps": 3}}}, "`budget: own`"),
        (
            {"arms": {"one": {}}, "protocol": {"budget": "own", "steps": 5}},
            "protocol.steps: should be null with `budget: own`",
        ),
    ],
)
def test_mistake_names_its_key(values, expected):
    with pytest.raises(BadConfig, match=rf"^ablations\.a\..*{re.escape(expected)}"):
        make(**values)


@pytest.mark.parametrize(
    "old, new, expected",
    [
        ("objective.name: mlm", "objective.nam: mlm", "ablations.a.arms.two.objective.nam"),
        ("objective.name: mlm", "objectiv.name: mlm", "a.arms.two.objectiv.name: no such setting"),
        (ARMS, "arms: {}", "at least one arm"),
        ("tokens: smoke, data", "tokens: absent, data", "ablations.a.base.tokens"),
        (
            "protocol: {}",
            "protocol: {finetune: {defaults: {max_grad_norm: 0}}}",
            "ablations.a.protocol.finetune.defaults.max_grad_norm: is 0,",
        ),
        ("protocol: {}", "protocol: {points: [0.5, 1.0]}", "a.protocol.points[1]: is 1.0"),
        (
            "protocol: {}",
            "protocol: {common: {encoder.positions: 100}, tasks: [cola]}",
            "a.protocol.finetune: has rows of 128",
        ),
        (
            "protocol: {}",
            "protocol: {finetune: {squad: {stride: 500}}, tasks: [squad2]}",
            "a.protocol.finetune.squad.stride",
        ),
        (PROTOCOLS, "protocols: {smoke: {seeds: 0}}", "protocols.smoke.seeds: is 0"),
        (
            PROTOCOLS,
            "protocols: {other: {}}",
            "ablations.a.base.model: no protocols entry 'smoke'; there are other",
        ),
    ],
)
def test_mistake_in_params_names_the_place_where_it_stands(old, new, expected, refuse):
    assert expected in refuse((old, new), text=ABLATION)


def test_arm_is_the_model_with_the_settings_of_its_models_protocol_and_its_own(load_text):
    shared = "protocols: {smoke: {tasks: [cola], seeds: 3, common: {pretrain.eval_batches: 1}}}"
    changes = "protocol: {seeds: 2, common: {encoder.layers: 2}}"
    params = load_text((PROTOCOLS, shared), ("protocol: {}", changes), text=ABLATION)
    ablation = params.ablations["a"]
    assert (ablation.protocol.tasks, ablation.protocol.seeds) == (("cola",), 2)
    common = {"pretrain.eval_batches": 1, "encoder.layers": 2}
    assert ablation.settings == {"one": common, "two": common | {"objective.name": "mlm"}}
    assert (ablation.label("one"), ablation.label("two")) == ("one", "BERT")
    model = to_jsonable(params.models["smoke"])
    model["pretrain"]["eval_batches"] = 1
    model["encoder"]["layers"] = 2
    model["objective"]["name"] = "mlm"
    assert params.all_settings("a")["two"] == model


def test_documentation_holds_every_experiment_and_a_valid_example(load_text):
    page = read_text("docs/ablations.md")
    pages = page + read_text("docs/reproduce.md")
    example = re.search(r"^```yaml\nablations:\n(.*?)^```", page, re.M | re.S)[1]
    params = load_text(text=read_text("params.yaml") + example)
    shipped = params.ablations.keys() - {"my_grid"}
    assert [name for name in shipped if not re.search(f"[`@]{name}`", pages)] == []
    ablation = params.ablations["my_grid"]
    rates = [f"mask_rate{rate}-{size}" for rate in (0.1, 0.15, 0.3) for size in ("small", "large")]
    assert list(ablation.settings) == rates
    assert ablation.label("mask_rate0.3-small") == "mask_rate0.3, a quarter as wide"
    assert params.arm("my_grid", "mask_rate0.3-large").generator.depth == 0.5
