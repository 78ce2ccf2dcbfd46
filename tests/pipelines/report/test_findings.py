"""What may be said of results, as sentences."""

from dataclasses import replace

import pytest

from electra.files import read_json, write_json
from pipelines.report import findings, load_results
from pipelines.report.records import ModelResults
from tests.pipelines.report import made_up

TINY = made_up.params("tiny")


@pytest.fixture
def written(tmp_path):
    def write(**made) -> ModelResults:
        made_up.write(tmp_path, **made)
        return load_results.load(TINY, tmp_path).models[0]

    return write


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
    assert findings.headline(model).startswith(
        "We cannot tell yet whether pre-training lifts any task."
    )
    (told,) = [sentence for sentence in findings.shortfalls(model) if "cannot tell yet" in sentence]
    assert told.startswith("tiny: cannot tell yet whether pre-training moves CoLA, SST-2, MRPC")


def test_a_weak_discriminator_chance_and_wrong_answers_fall_short(written, tmp_path):
    chance = "tiny: the arm from scratch is at chance on RTE."
    before = " ".join(findings.shortfalls(written()))
    assert "answered wrong" not in before and chance not in before
    paths = [tmp_path / f"results/tiny/{name}.json" for name in ("pretrain", "squad", "glue")]
    pretrain, squad, glue = map(read_json, paths)
    weakness = "it hardly finds replaced tokens"
    pretrain |= {"disc_recall": 0.53, "disc_precision": 0.7, "weakness": weakness}
    squad["versions"]["2.0"]["pretrained"]["all"] |= {
        "HasAns_exact": [60.0, 62.0],
        "NoAns_exact": [91.0],
    }
    glue["tasks"]["rte"]["scratch"]["scores"] = [50.0, 50.4, 49.9]
    for path, values in zip(paths, (pretrain, squad, glue), strict=True):
        write_json(path, values)
    said = list(findings.shortfalls(load_results.load(TINY, tmp_path).models[0]))
    assert said[0].startswith(
        "tiny: the discriminator misses 47 % of the replaced tokens of held-out text"
    )
    assert said[0].endswith("30 % of its suspicions are wrong.")
    wrong = "39 % of the questions that have an answer and 9 % of the others"
    assert said[1] == f"tiny: SQuAD 2.0 is answered wrong on {wrong}."
    assert chance in said and f"tiny: {weakness}." in said


def test_the_headline_says_chance_the_best_without_a_network_and_the_control(written, tmp_path):
    control = {"tiny": {}, "controls": {"published_start": {"mean_of_nine": {"pretrained": 53.57}}}}
    assert "published" not in findings.headline(written())
    write_json(tmp_path / "benchmarks/results/controls.json", control)
    beside = "(chance 41.2, the best without a network 44.2, pre-trained from the published initial values 53.6)"
    assert beside in findings.headline(load_results.load(TINY, tmp_path).models[0])


def test_arms_with_unequal_flops_fall_short(tmp_path):
    made_up.write_ablation(tmp_path)
    ablation = load_results.load(made_up.params(ablations=("table5",)), tmp_path).ablations[0]
    assert findings.unequal(ablation) is None
    arms = tuple(
        replace(arm, flops=1e14 * (2 if arm.name == "mlm" else 1)) for arm in ablation.arms
    )
    assert "largest / smallest = 2.00" in findings.unequal(replace(ablation, arms=arms))
