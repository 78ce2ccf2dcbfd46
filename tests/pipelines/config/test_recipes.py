"""Settings in layers, and the published values in params.yaml."""

import pytest

from electra.config import build
from electra.errors import BadConfig
from pipelines.config.params import load
from pipelines.config.recipes import ChangedRecipe, PaperRecipe
from tests.support.project import ROOT


def recipe(paper, changes):
    """Return the paper's recipe under the changes of another one."""
    return ChangedRecipe(build(PaperRecipe, paper, "recipes.paper"), changes, "recipes.tiny")


def test_later_layers_win_and_sections_within_are_merged():
    paper = {
        "defaults": {"learning_rate": 1e-4, "epochs": 3, "scratch": {"layer_decay": 1.0}},
        "tasks": {"rte": {"epochs": 10}},
    }
    assert [recipe(paper, {}).resolve(task).epochs for task in ("cola", "rte")] == [3, 10]
    changes = {
        "defaults": {"epochs": 5, "scratch": {"learning_rate": 1e-3}},
        "tasks": {"rte": {"batch": 8}},
    }
    rte = recipe(paper, changes).resolve("rte")
    assert (rte.epochs, rte.batch, rte.learning_rate) == (5, 8, 1e-4)
    assert (rte.scratch.layer_decay, rte.scratch.learning_rate) == (1.0, 1e-3)


@pytest.mark.parametrize(
    "paper, changes, sentence",
    [
        ({"tasks": {"colla": {}}}, {}, r"paper\.tasks\.colla: no such task; did you mean cola"),
        ({"defaults": {"learningrate": 1}}, {}, r"paper\.defaults\.learningrate.*learning_rate"),
        ({"squad": {"versions": ["3.0"]}}, {}, r"recipes\.paper\.squad\.versions\[0\]"),
        ({"tasks": {"wnli": {"pooling": "min"}}}, {}, r"paper\.tasks\.wnli\.pooling: is 'min', "),
        # windows that would skip text
        ({"squad": {"stride": 500}}, {}, r"paper\.squad\.stride: is 500, should be at most 445"),
        ({}, {"defaults": {"length": 64}}, r"recipes\.tiny\.squad\.stride"),
        # what the heads of sentences alone can read
        ({"defaults": {"pooling": "max"}}, {}, r"squad\.pooling: is max, should be cls, since an"),
        ({"defaults": {"head_layers": "all"}}, {}, r"squad\.head_layers: is all, should be last"),
        # what no task would ever read
        ({}, {"learning_rate": 1e-3}, r"recipes\.tiny\.learning_rate: no such setting; it belongs"),
        ({}, {"tasks": {"cola": {"bach": 3}}}, r"recipes\.tiny\.tasks\.cola\.bach"),
        ({}, {"tasks": ["cola"]}, r"recipes\.tiny\.tasks: is \['cola'\]"),
        ({}, {"run": ["colla"]}, r"recipes\.tiny\.run\.colla: no such task"),
        (
            {"run": ["cola"], "tasks": {"rte": {"init_from_task": "mnly"}}},
            {},
            r"rte\.init_from_task\.mnly: no such task; did you mean mnli\?",
        ),
        (
            {},
            {"run": ["rte"], "tasks": {"rte": {"init_from_task": "mnli"}}},
            r"rte\.init_from_task: is 'mnli', should be a task that is run as well",
        ),
        (
            {"tasks": {"rte": {"init_from_task": "mnli"}, "mnli": {"new_layers": 1}}},
            {"run": ["rte", "mnli"]},
            r"rte\.new_layers: is 0, should be 1 as for mnli",
        ),
        (
            {"tasks": {"rte": {"init_from_task": "mnli"}, "mnli": {"init_from_task": "qnli"}}},
            {"run": ["rte", "mnli", "qnli"]},
            r"rte\.init_from_task: is 'mnli', should be a task that .* starts from no other",
        ),
    ],
)
def test_a_fault_is_named_with_its_place(paper, changes, sentence):
    with pytest.raises(BadConfig, match=sentence):
        faulty = recipe(paper, changes)
        faulty.check()
        faulty.resolve("squad")


def test_sentences_may_be_read_in_another_way_than_questions():
    paper = {"defaults": {"pooling": "max", "head_layers": "all"}}
    whole = recipe(paper, {"squad": {"pooling": "cls", "head_layers": "last"}})
    assert [whole.resolve(task).pooling for task in ("wnli", "squad")] == ["max", "cls"]


def test_tasks_are_those_of_run_and_one_that_starts_from_another_comes_after_it():
    start = {"run": ["rte", "wnli", "mnli"], "tasks": {"rte": {"init_from_task": "mnli"}}}
    assert recipe({}, start).selected() == ("wnli", "mnli", "rte")
    assert recipe({}, {"run": []}).selected() == ()


# paper, Table 7, and the authors' code
PUBLISHED = """
setting               cola       rte        mrpc       stsb       squad
learning_rate         0.0001     0.0001     0.0001     0.0001     0.0001
layer_decay           0.8        0.8        0.8        0.8        0.8
layer_decay_exponent  published  published  published  published  published
warmup                0.1        0.1        0.1        0.1        0.1
weight_decay          0.0        0.0        0.0        0.0        0.0
max_grad_norm         1.0        1.0        1.0        1.0        1.0
bias_correction       False      False      False      False      False
batch                 32         32         32         32         32
length                128        128        128        128        512
epochs                3.0        10.0       3.0        10.0       2.0
both_orders           False      False      True       True       False
"""


def test_published_values_of_params_yaml():
    finetune = load(ROOT / "params.yaml").finetune
    header, *rows = map(str.split, PUBLISHED.strip().splitlines())
    configs = [ChangedRecipe(finetune, {}).resolve(task) for task in header[1:]]
    for key, *published in rows:
        assert [str(getattr(config, key)) for config in configs] == published, key
    squad = {"stride": 128, "beam": 20, "null_threshold": -2.75}
    assert squad.items() <= vars(configs[-1]).items()
