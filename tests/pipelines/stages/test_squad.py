"""The squad stage on a random encoder: official files, agreeing scores, the same bytes again."""

import json
from pathlib import Path

import pytest

from electra.files import read_jsonl, write_jsonl
from electra.finetuning.squad.official import question_scores
from electra.storage.manifest import write_manifest
from pipelines.config.params import load
from pipelines.stages import squad
from pipelines.tracking import Tracker
from tests.conftest import files_of
from tests.electra.made_up_models import write_base
from tests.pipelines.stages import test_glue

WORDS = ["the", "cat", "dog", "bird", "is", "red", "blue", "green", ".", "?"]
PARAMS = (
    test_glue.PARAMS.replace("positions: 16", "positions: 24")
    .replace("length: 16, scratch: {layer_decay: 1.0}", "length: 24")
    .replace("epochs: 1, ", "")
    .replace(
        "{stride: 4, question_length: 4}",
        "{versions: ['1.1', '2.0'], stride: 6, question_length: 6, null_threshold: 0.0}",
    )
)


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("params.yaml").write_text(PARAMS)
    write_base(tmp_path, WORDS, 24, "build/models/small/encoder", model="small", part="encoder")
    context = "the cat is red. the dog is blue. the bird is green. the cat is red. the dog is blue."
    for task in ("squad1", "squad2"):
        rows = []
        for number, (animal, colour) in enumerate(
            [("cat", "red"), ("dog", "blue"), ("bird", "green")] * 4
        ):
            none = task == "squad2" and number % 4 == 0
            answers = (
                []
                if none
                else [{"text": colour, "start": context.index(f"{animal} is") + len(animal) + 4}]
            )
            question = "the is red?" if none else f"the {animal} is?"
            rows.append(
                {
                    "id": f"q{number}",
                    "title": "t",
                    "question": question,
                    "context": context,
                    "answers": answers,
                    "impossible": none,
                }
            )
        for split in ("train", "dev"):
            write_jsonl(Path("build/tasks/made_up") / task / f"{split}.jsonl", rows)
    write_manifest(Path("build/tasks/made_up"), kind="tasks", name="made_up")
    return tmp_path


def test_the_stage_leaves_official_answers_that_score_what_it_says(workspace):
    squad.run("small", load(), Tracker(None))
    result = json.loads(Path("build/squad/small/results.json").read_text())
    assert result["label"] == "sample world" and list(result["versions"]) == ["1.1", "2.0"]
    for version, task in (("1.1", "squad1"), ("2.0", "squad2")):
        rows = read_jsonl(Path("build/tasks/made_up") / task / "dev.jsonl")
        values = result["versions"][version]
        assert values["baselines"]["never_answering"] == {"1.1": 0, "2.0": 25}[version]
        assert values["dev_rows"] == 12
        for arm in ("pretrained", "scratch"):
            for place, seed in enumerate(values[arm]["seeds"]):
                answers = json.loads(
                    Path(f"build/squad/small/{version}/{arm}-seed{seed}.json").read_text()
                )
                scores = question_scores(rows, answers, version)
                for index, metric in enumerate(("exact", "f1")):
                    mean = 100 * sum(pair[index] for pair in scores.values()) / len(rows)
                    assert values[arm]["all"][metric][place] == pytest.approx(mean, abs=1e-4)
            # the training rows here are the dev rows
            assert values[arm]["train"] == values[arm]["scores"] == values[arm]["all"]["f1"]
    odds = json.loads(Path("build/squad/small/2.0/pretrained-seed1-null-odds.json").read_text())
    answers = json.loads(Path("build/squad/small/2.0/pretrained-seed1.json").read_text())
    assert set(odds) == set(answers) and all(answers[key] == "" for key in odds if odds[key] > 0)
    first, second = (result["versions"][version]["pretrained"] for version in ("1.1", "2.0"))
    assert "best_f1" in second["all"] and "best_f1" not in first["all"]


@pytest.mark.slow
def test_seeds_answer_together(workspace):
    squad.run("small", load(), Tracker(None))
    alone = json.loads(Path("build/squad/small/results.json").read_text())
    files = files_of("build/squad")
    params = Path("params.yaml")
    params.write_text(
        params.read_text().replace("seeds: [1, 2],", "seeds: [1, 2], ensemble: true,")
    )
    squad.run("small", load(), Tracker(None))
    result = json.loads(Path("build/squad/small/results.json").read_text())
    made = files_of("build/squad")
    counted = {"small/MANIFEST.json", "small/results.json"}
    assert {name: made[name] for name in files.keys() - counted} == {
        name: data for name, data in files.items() if name not in counted
    }
    for version, task in (("1.1", "squad1"), ("2.0", "squad2")):
        rows = read_jsonl(Path("build/tasks/made_up") / task / "dev.jsonl")
        together = result["versions"][version].pop("ensemble")
        assert result["versions"][version] == alone["versions"][version]
        assert set(together) == {"pretrained", "scratch"}
        for arm, figures in together.items():
            every = alone["versions"][version][arm]["all"]
            assert figures["seeds"] == [1, 2] and set(figures) - {"seeds"} <= set(every)
            answers = json.loads(
                Path(f"build/squad/small/{version}/{arm}-ensemble.json").read_text()
            )
            scores = question_scores(rows, answers, version)
            assert figures["f1"] == pytest.approx(
                100 * sum(pair[1] for pair in scores.values()) / len(rows), abs=1e-4
            )
            assert Path(f"build/squad/small/{version}/{arm}-ensemble-nbest.json").is_file()
    before = files_of("build/squad")
    squad.run("small", load(), Tracker(None))
    assert files_of("build/squad") == before
