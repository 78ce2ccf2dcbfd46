"""Results to records: broken or absent files, subsets and recorded runs are named as such."""

import math
from dataclasses import replace
from pathlib import Path

import pytest

from electra.errors import CorruptFile
from electra.files import read_json, write_json
from electra.pretraining.config import ObjectiveConfig
from pipelines import report
from pipelines.report import figures, load_results, tables
from pipelines.report.records import ArmScores
from pipelines.report.table import NOTES, left
from tests.support import made_up_results

TINY = made_up_results.params("tiny")


@pytest.mark.parametrize(
    "stage, spoilt",
    [
        ("glue", b"null"),
        ("glue", b'{"tasks": 3}'),
        ("pretrain", b'{"parameters": [1]}'),  # read, and found wrong when it is drawn
    ],
)
def test_a_record_that_no_stage_wrote_is_a_sentence(stage, spoilt):
    made_up_results.write()
    Path(f"results/tiny/{stage}.json").write_bytes(spoilt)
    with pytest.raises(CorruptFile, match="results: is malformed"):
        report.build(TINY, Path("results/report"))


def test_a_value_of_another_kind_is_named():
    made_up_results.write_ablation()
    path = Path("results/table5/ablation.json")
    values = read_json(path)
    values["arms"]["mlm"]["flops"] = "many"
    write_json(path, values)
    with pytest.raises(CorruptFile, match=r"ablation.json: arms.mlm.flops: is 'many', should be a"):
        load_results.load(made_up_results.params(ablations=("table5",)))


def test_a_selected_ablation_without_a_record_is_missing_and_the_others_are_not_run():
    made_up_results.write()
    inputs = load_results.load(made_up_results.params("tiny", ablations=("table5",)))
    assert [line for line in inputs.missing if "table5" in line]
    not_run = [line.partition(":")[0] for line in inputs.unrun if line.endswith("not run")]
    assert not_run == [f"ablation {name}" for name in TINY.ablations if name != "table5"]


def test_an_arm_without_a_result_is_missing():
    made_up_results.write_ablation()
    path = Path("results/table5/ablation.json")
    values = read_json(path)
    del values["arms"]["mlm"]
    write_json(path, values)
    inputs = load_results.load(made_up_results.params(ablations=("table5",)))
    assert "ablation table5: the arm mlm has no result" in inputs.missing


def test_scores_of_glue_are_missing_only_where_tasks_of_it_are_run():
    made_up_results.write()
    Path("results/tiny/glue.json").unlink()
    assert [line for line in load_results.load(TINY).missing if "glue.json" in line]
    recipe = TINY.finetunings["tiny"].recipe
    recipes = TINY.recipes | {recipe: TINY.recipes[recipe] | {"run": []}}
    only_squad = replace(TINY, recipes=recipes)
    assert not [line for line in load_results.load(only_squad).missing if "glue.json" in line]


def test_a_curve_has_no_empty_cells_and_one_that_cannot_be_read_is_missing():
    made_up_results.write()
    (model,) = load_results.load(TINY).models
    assert (model.series("train_loss")[0][0], model.series("loss")[0][0]) == (200, 0)
    assert model.series("no such metric") is None
    path = Path("results/curves/tiny.csv")
    for spoilt in (b"1,\xff\n", b"9" * 200_000, b"1,2\n3,4,5\n"):
        path.write_bytes(b"step,loss\n" + spoilt)
        inputs = load_results.load(TINY)
        assert inputs.models[0].curve == {}
        assert any("tiny.csv: cannot be read" in line for line in inputs.missing)


def test_a_damaged_file_of_build_is_missing():
    made_up_results.write()
    path = Path("build/models/tiny/examples.json")
    path.write_bytes(path.read_bytes().replace(b"bread", b"broad"))
    inputs = load_results.load(TINY)
    assert inputs.models[0].examples == []
    assert any("examples.json: has sha256" in line for line in inputs.missing)


def test_a_mean_has_a_short_name_and_baselines_that_all_of_its_tasks_have():
    made_up_results.write()
    glue = read_json(Path("results/tiny/glue.json"))
    del glue["tasks"]["rte"]["baselines"]["chance"]
    glue["average"]["name"] = "mean over " + ", ".join(glue["tasks"])
    average = load_results.measure_average(glue, load_results.measure_tasks(glue))
    assert average and average.title == "mean over 9 tasks"
    assert average.baselines == {"the best of each": pytest.approx(44.25)}
    glue["average"]["tasks"] = ["rte"]
    assert load_results.measure_average(glue, load_results.measure_tasks(glue)) is None


def test_a_subset_is_measured_against_the_full_set():
    made_up_results.write()
    (model,) = load_results.load(TINY).models
    tasks = TINY.tasks | {"sample_world": TINY.tasks["hub"]}
    (theirs,) = load_results.load(replace(TINY, tasks=tasks)).models
    assert theirs.data == "GLUE and SQuAD, hub subsets"
    squad = read_json(Path("results/tiny/squad.json"))
    squad["versions"]["1.1"] = squad["versions"]["2.0"]
    write_json(Path("results/tiny/squad.json"), squad)
    (both,) = load_results.load(TINY).models
    assert [row.title for row in both.squad] == ["SQuAD 1.1", "SQuAD 2.0"]
    local = replace(model, kind="local", data="GLUE")
    full = "3,000 train, 8,551 in the full set, 500 dev"
    for kind, rows in ((model, "3,000 train, 500 dev"), (local, full)):
        _, cola, *_ = tables.tabulate_tasks(kind).rows
        assert cola[left("rows", under="task")] == rows
    for average, strong in ((model.average, {0}), (None, ())):
        assert tables.tabulate_tasks(replace(model, average=average)).strong == strong
    alone = replace(model, average=None, tasks=model.tasks[:1])
    assert alone.main == alone.tasks[0] != model.main == model.average
    assert replace(model, average=None, tasks=()).main == model.squad[0]
    assert tables.caution([model]) == [NOTES["not_comparable"]]
    assert tables.caution([local]) == [NOTES["other_scale"]]
    for count, text in ((4_400_000, "4.4M"), (14_000_000, "14M")):
        parameters = {"parameters": {"discriminator": count}}
        assert replace(model, pretrain=parameters).parameters == text


def test_captions_are_of_the_models_own_settings():
    made_up_results.write()
    ten = replace(TINY.models["tiny"], objective=ObjectiveConfig(discriminator_weight=10.0))
    params = replace(TINY, models=TINY.models | {"tiny": ten})
    (model,) = load_results.load(params).models
    captions = {name: caption for name, caption, _ in figures.draw_curves(model)}
    assert "× 10; dashed" in captions["disc-loss"] and "10 · H(r)" in captions["disc-loss"]
    curve = {"step": [1.0, 2.0, 3.0], "replaced_rate": [0.1, 0.0, math.nan]}
    # -10 (0.1 ln 0.1 + 0.9 ln 0.9)
    expected = [1.0, 2.0], [pytest.approx(3.2508, abs=1e-4), 0.0]
    assert figures.majority_loss(replace(model, curve=curve)) == expected
    assert model.average
    scores = ArmScores((98.0, 100.0))
    high = replace(model.average, pretrained=scores, scratch=ArmScores())
    axes = figures.draw_tasks(replace(model, average=high, tasks=(), squad=())).axes[0]
    (bar,) = axes.containers[0][2][0].get_segments()
    assert list(bar[:, 0]) == pytest.approx([99.0 - 2**0.5, 100.0]), "which ends with the scale"
