"""Settings in layers, and the published values in params.yaml."""

import pytest

from electra.config import build
from electra.errors import BadConfig
from pipelines.config.params import load
from pipelines.config.recipes import ChangedRecipe, PaperRecipe
from tests.conftest import ROOT


def section(**values):
    return build(PaperRecipe, values, "finetune")


def test_later_layers_win_and_sections_within_are_merged():
    finetune = section(
        defaults={"learning_rate": 1e-4, "epochs": 3, "scratch": {"layer_decay": 1.0}},
        tasks={"rte": {"epochs": 10}},
    )
    assert ChangedRecipe(finetune, {}).resolve("cola").epochs == 3
    assert ChangedRecipe(finetune, {}).resolve("rte").epochs == 10
    model = {
        "defaults": {"epochs": 5, "scratch": {"learning_rate": 1e-3}},
        "tasks": {"rte": {"batch": 8}},
    }
    rte = ChangedRecipe(finetune, model).resolve("rte")
    assert (rte.epochs, rte.batch, rte.learning_rate) == (5, 8, 1e-4)
    assert (rte.scratch.layer_decay, rte.scratch.learning_rate) == (1.0, 1e-3)


@pytest.mark.parametrize(
    "values, sentence",
    [
        ({"tasks": {"colla": {}}}, r"finetune\.tasks\.colla: no such task; did you mean cola"),
        (
            {"defaults": {"learningrate": 1}},
            r"finetune\.defaults\.learningrate: no such setting.*learning_rate",
        ),
        ({"defaults": {"seeds": [1, 1]}}, r"finetune\.defaults\.seeds"),
        ({"squad": {"versions": ["3.0"]}}, r"versions\[0\]"),
        (
            {"tasks": {"wnli": {"pooling": "min"}}},
            r"finetune\.tasks\.wnli\.pooling: is 'min', should be 'cls', 'mean', 'max', 'pair'",
        ),
    ],
)
def test_a_faulty_setting_is_named_with_its_place(values, sentence):
    with pytest.raises(BadConfig, match=sentence):
        section(**values)


def test_windows_that_would_skip_text_are_refused():
    with pytest.raises(BadConfig, match=r"squad\.stride: is 500, should be at most 445"):
        ChangedRecipe(section(squad={"stride": 500}), {}).resolve("squad")
    with pytest.raises(BadConfig, match=r"recipes\.tiny\.squad\.stride"):
        ChangedRecipe(section(), {"defaults": {"length": 64}}, "recipes.tiny").resolve("squad")


@pytest.mark.parametrize(
    "overrides, sentence",
    [
        (
            {"learning_rate": 1e-3},
            r"m\.finetune\.learning_rate: no such setting; it belongs to another section",
        ),
        ({"tasks": {"cola": {"bach": 3}}}, r"m\.finetune\.tasks\.cola\.bach"),
        ({"tasks": ["cola"]}, r"m\.finetune\.tasks: is \['cola'\]"),
        ({"defaults": None}, r"m\.finetune\.defaults: is None"),
        ({"run": ["colla"]}, r"m\.finetune\.run\.colla: no such task"),
        (
            {"run": ["cola"], "tasks": {"rte": {"init_from_task": "colla"}}},
            r"m\.finetune\.tasks\.rte\.init_from_task\.colla: no such task",
        ),
    ],
)
def test_a_check_finds_what_no_task_would_ever_read(overrides, sentence):
    ChangedRecipe(section(), {"run": ["cola"], "tasks": {"rte": {"epochs": 5}}}).check()
    with pytest.raises(BadConfig, match=sentence):
        ChangedRecipe(section(), overrides, "m.finetune").check()


def test_published_values_of_params_yaml():
    finetune = load(ROOT / "params.yaml").finetune
    every = {"learning_rate": 1e-4, "layer_decay": 0.8, "warmup": 0.1, "weight_decay": 0.0}
    every |= {"batch": 32, "length": 128, "max_grad_norm": 1.0}
    every |= {"bias_correction": False, "layer_decay_exponent": "published"}
    squad = {"length": 512, "stride": 128, "epochs": 2, "beam": 20, "null_threshold": -2.75}
    for task, expected in {
        "cola": every | {"epochs": 3, "both_orders": False},
        "rte": every | {"epochs": 10},
        "mrpc": every | {"epochs": 3, "both_orders": True},
        "stsb": every | {"epochs": 10, "both_orders": True},
        "squad": every | squad,
    }.items():
        config = ChangedRecipe(finetune, {}).resolve(task)
        assert {key: getattr(config, key) for key in expected} == expected, task


def test_a_task_that_starts_from_another_has_its_layers():
    finetune = section(
        tasks={"rte": {"init_from_task": "mnli"}, "mnli": {"new_layers": 1}}, run=["rte", "mnli"]
    )
    with pytest.raises(BadConfig, match=r"rte\.new_layers: is 0, should be 1 as for mnli"):
        ChangedRecipe(finetune, {}).selected()
    assert ChangedRecipe(finetune, {"defaults": {"new_layers": 1}}).selected() == ("mnli", "rte")
    absent = section(tasks={"rte": {"init_from_task": "mnly"}})
    with pytest.raises(
        BadConfig, match=r"rte\.init_from_task\.mnly: no such task; did you mean mnli\?"
    ):
        ChangedRecipe(absent, {}).check()


@pytest.mark.parametrize(
    "key, value, kept", [("pooling", "max", "cls"), ("head_layers", "all", "last")]
)
def test_what_heads_of_sentences_read_must_be_taken_back_for_squad(key, value, kept):
    finetune = section(defaults={key: value})
    assert getattr(ChangedRecipe(finetune, {}).resolve("wnli"), key) == value
    with pytest.raises(
        BadConfig,
        match=rf"squad\.{key}: is {value}, should be {kept}, since an answer is looked for among",
    ):
        ChangedRecipe(finetune, {}).resolve("squad")
    assert getattr(ChangedRecipe(finetune, {"squad": {key: kept}}).resolve("squad"), key) == kept
