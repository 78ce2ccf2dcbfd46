"""What may be said of results, as sentences."""

from dataclasses import replace

import pytest

from electra.files import read_json, write_json
from pipelines.report import findings, reading
from pipelines.report.records import ModelResults
from tests.pipelines.report import made_up

TINY = made_up.params("tiny")


@pytest.fixture
def written(tmp_path):
    def write(**made) -> ModelResults:
        made_up.write(tmp_path, **made)
        return reading.load(TINY, tmp_path).models[0]

    return write


def test_of_several_models_each_is_named(written):
    named = findings.headline(written(), named=True)
    assert named.startswith("tiny: pre-training lifts 7 of 9 tasks by")


@pytest.mark.parametrize(
    ("lift", "said"),
    [
        (2.0, "Pre-training lifts its one task by "),
        (0.0, "We cannot tell yet whether pre-training lifts its one task."),
    ],
)
def test_a_single_task_is_named_as_one(written, lift, said):
    model = written(lift=lift)
    (task,) = [task for task in model.tasks if task.title == "STS-B"]
    sentence = findings.headline(replace(model, tasks=(task,)))
    assert sentence.startswith(said) and " to " not in sentence.partition(". The mean")[0]


def test_one_seed_claims_nothing(written):
    model = written(seeds=1)
    assert findings.headline(model).startswith("We cannot tell yet whether pre-training lifts any task.")
    assert [met for met, _ in findings.goals(model)] == [False] * 11  # the mean, SQuAD 2.0 and nine tasks
    (told,) = [sentence for sentence in findings.shortfalls(model) if "cannot tell yet" in sentence]
    assert told.startswith("tiny: cannot tell yet whether pre-training moves CoLA, SST-2, MRPC")


def test_marks_are_met_by_points_and_by_spread_and_a_missed_one_says_why(written):
    model = written(lift=2.0)
    met = {sentence.split(": ")[0]: reached for reached, sentence in findings.goals(model)}
    assert met["tiny, STS-B"] and met["tiny, CoLA"]  # twice 41 and 25 points, about 1 of spread
    assert not met["tiny, QQP"]  # 18.6 points, far outside of the noise
    assert not met["tiny, mean of the tasks"]
    task = replace(model.tasks[0], scores={"pretrained": (80.0, 98.0), "scratch": (52.0, 53.0)})  # two seeds: t = 12.7
    (told,) = [sentence for _, sentence in findings.goals(replace(model, tasks=(task,), squad=()))][1:]
    assert "+36.5 points, 95 % interval −76.4 to +149.4; that misses the mark" in told
    assert told.endswith("(20 points and a 95 % interval above zero).")


def test_arms_with_unequal_flops_fall_short(tmp_path):
    made_up.write_ablation(tmp_path)
    ablation = reading.load(made_up.params(ablations=("table5",)), tmp_path).ablations[0]
    assert findings.unequal(ablation) is None
    arms = tuple(replace(arm, flops=1e14 * (2 if arm.name == "mlm" else 1)) for arm in ablation.arms)
    assert "largest / smallest = 2.00" in findings.unequal(replace(ablation, arms=arms))


def test_chance_and_a_weak_discriminator_fall_short(written, tmp_path):
    chance = "tiny: the arm from scratch is at chance on RTE."
    assert chance not in findings.shortfalls(written())
    path = tmp_path / "results/tiny/glue.json"
    glue = read_json(path)
    glue["tasks"]["rte"]["scratch"]["scores"] = [50.0, 50.4, 49.9]
    write_json(path, glue)
    pretrain = read_json(tmp_path / "results/tiny/pretrain.json")
    write_json(tmp_path / "results/tiny/pretrain.json", pretrain | {"weakness": "it hardly finds replaced tokens"})
    said = " ".join(findings.shortfalls(reading.load(TINY, tmp_path).models[0]))
    assert chance in said and "tiny: it hardly finds replaced tokens." in said
