"""Conclusions from results, as sentences."""

from dataclasses import replace
from pathlib import Path

from electra.files import read_json, write_json
from pipelines import report
from pipelines.report import findings, load_results, tables
from pipelines.report.records import ArmScores
from pipelines.sources import CustomTask, CustomTasks
from tests.support import made_up_results

TINY = made_up_results.params("tiny")


def write(**made):
    made_up_results.write(**made)
    return load_results.load(TINY).models[0]


def test_the_first_sentences_say_what_came_out_and_what_it_means():
    model = write()
    assert findings.headline(model) == (
        "The mean over nine tasks (sample world) goes from 52.0 to 65.9 points; "
        "the best without a network reaches 44.2."
    )
    assert findings.meaning(model).startswith("Pre-training on this text pays: ")
    level = replace(model.average, baselines={"bag of words": model.average.mean("pretrained")})
    assert "bag of words is at least as good (65.9)" in findings.meaning(
        replace(model, average=level)
    )
    assert "cannot tell yet" in findings.meaning(write(lift=0.0))
    assert "worse" in findings.meaning(write(lift=-1.0))


def test_published_weights_are_compared_before_and_after_further_pre_training():
    model = write()
    pretrain = replace(model.config.pretrain, init_from="published/small")
    config = replace(model.config, pretrain=pretrain)
    continued = replace(model, config=config, before={"rte": (40.0, 41.0, 42.0)})
    said = findings.meaning(continued)
    assert said.startswith("Pre-training pays: ")
    assert "This text adds 19.1 points to the 41.0 of the published weights on RTE" in said
    curve = {"step": [0.0, 1.0, 2.0], "disc_auc": [0.5, 0.75, 0.875]}
    task, auc = tables.tabulate_before(replace(continued, curve=curve)).rows
    assert task[tables.AFTER].text == "higher"
    assert auc[tables.MEASURED_ON] == "held-out text: AUC of replaced tokens"
    assert auc[tables.BEFORE].scores + auc[tables.AFTERWARDS].scores == (50.0, 87.5)
    late = replace(continued, curve={**curve, "step": [1.0, 2.0, 3.0]})
    assert len(tables.tabulate_before(late).rows) == 1, "nothing was measured before"
    assert tables.tabulate_before(model).rows == []
    worse = replace(continued, before={"rte": (90.0, 91.0, 92.0)})
    assert "points from the 91.0 of the published weights on RTE" in findings.meaning(worse)
    level = replace(continued, before={"rte": model.tasks[-2].pretrained.scores})
    assert "cannot tell yet whether this text adds to the" in findings.meaning(level)


def test_a_report_of_own_tasks_has_neither_the_papers_tables_nor_recorded_ablations():
    own = CustomTask(train="a", dev="b", labels=("no", "yes"))
    tasks = TINY.tasks | {"mine": CustomTasks(kind="custom", tasks={"mine": own})}
    finetuning = replace(TINY.finetunings["tiny"], tasks="mine", recipe="paper")
    finetunings = TINY.finetunings | {"mine": finetuning}
    made_up_results.write("mine")
    report.build(replace(TINY, tasks=tasks, finetunings=finetunings), Path("out"), "mine")
    page = Path("out/index.html").read_text()
    assert "custom tasks" in page and "The paper" not in page and "Not run" not in page
    assert {path.stem for path in Path("out/tables").iterdir()} == {"mine-tasks"}


def test_a_published_model_has_a_report_without_pre_training():
    made_up_results.write("electra-small")
    inputs = report.build(made_up_results.shipped(), Path("out"), "electra-small")
    assert inputs.missing == ()
    page = Path("out/index.html").read_text()
    assert "The published model electra-small was fine-tuned on 9 tasks" in page


def test_an_absent_arm_or_mean_is_said():
    model = write()
    one = replace(model.average, pretrained=ArmScores((70.0,)), scratch=ArmScores())
    said = "Mean over nine tasks (sample world): 70.0 pre-trained; the other arm is missing."
    assert findings.headline(replace(model, average=one)) == said
    nothing = replace(model, average=None, squad=())
    assert findings.headline(nothing) == "No fine-tuning results yet."
    assert findings.meaning(nothing) == ""


def test_one_fine_tuning_decides_a_gain_beyond_the_error_of_the_dev_rows():
    model = write(deviations=(0.0,))
    undecided = [row.title for row in model.tasks if not row.difference.counts]
    # small gains, and correlations, of which the dev rows tell no error
    assert undecided == ["CoLA", "MRPC", "STS-B", "WNLI"]
    assert "4 undecided" in findings.moved(model)
    (squad,) = model.squad
    assert not squad.difference.counts and replace(squad, dev_rows=500).difference.counts
    points = sorted(row.difference.points for row in model.tasks if row.difference.counts)
    assert f"by {points[0]:.1f} to {points[-1]:.1f} points" in findings.moved(model)


def test_a_task_is_above_the_baselines_if_it_is_above_the_best():
    model = write()
    *_, rte, _ = model.tasks
    assert "overlap on RTE." in " ".join(findings.strengths(replace(model, tasks=(rte,))))
    for scores in ({"chance": 50.0, "bag of words": 80.0}, {"chance": 80.0, "bag of words": 50.0}):
        weak = replace(model, tasks=(replace(rte, baselines=scores),))
        _, auc = findings.strengths(weak)
    assert weak.tasks[0].best_baseline == (50.0, "bag of words")
    assert f" {100 * model.series('disc_auc')[1][-1]:.0f} times in 100." in auc, "at the end"


def test_a_weak_discriminator_chance_and_wrong_answers_fall_short():
    chance = "tiny: the arm from scratch is at chance on RTE."
    before = " ".join(findings.shortfalls(write()))
    assert "answered wrong" not in before and chance not in before
    paths = [Path(f"results/tiny/{name}.json") for name in ("pretrain", "squad", "glue")]
    pretrain, squad, glue = map(read_json, paths)
    weakness = "it hardly finds replaced tokens"
    pretrain |= {"disc_recall": 0.53, "disc_precision": 0.7, "weakness": weakness}
    squad["versions"]["2.0"]["pretrained"]["all"] |= {
        "HasAns_exact": [60.0, 62.0],
        "NoAns_exact": [91.0],
    }
    glue["tasks"]["rte"]["scratch"]["scores"] = [50.0, 50.4, 49.9]
    for arm in ("pretrained", "scratch"):
        glue["tasks"]["sst2"][arm]["scores"] = [99.0, 99.4, 98.6]
        glue["tasks"]["qqp"][arm]["scores"] = [98.9, 98.9, 98.9]
    for path, values in zip(paths, (pretrain, squad, glue), strict=True):
        write_json(path, values)
    said = list(findings.shortfalls(load_results.load(TINY).models[0]))
    assert said[0].startswith(
        "tiny: the discriminator misses 47 % of the replaced tokens of held-out text"
    )
    assert said[0].endswith("30 % of the tokens that it flags are original.")
    wrong = "39 % of the questions that have an answer and 9 % of the others"
    assert said[1] == f"tiny: SQuAD 2.0 is answered wrong on {wrong}."
    assert chance in said and f"tiny: {weakness}." in said
    assert "tiny: both arms are at the ceiling, which cannot tell them apart, on SST-2." in said


def test_arms_with_unequal_flops_fall_short():
    made_up_results.write_ablation()
    ablation = load_results.load(made_up_results.params(ablations=("table5",))).ablations[0]
    assert findings.describe_budget(ablation) is None
    arms = tuple(
        replace(arm, flops=1e14 * (2 if arm.name == "mlm" else 1)) for arm in ablation.arms
    )
    unequal = findings.describe_budget(replace(ablation, arms=arms))
    assert "largest / smallest = 2.00" in str(unequal)
    for budget, words in (("equal_steps", "equal steps"), ("own", "budgets of their own")):
        said = findings.describe_budget(replace(ablation, budget=budget))
        assert said == f"{ablation.title}: the arms have {words}, not equal FLOPs."
