"""The squad stage on a random encoder: official files, agreeing scores, the same bytes again."""

from pathlib import Path

import pytest

from electra.files import read_json, read_jsonl, write_jsonl
from electra.finetuning.squad.official import question_scores
from electra.storage.manifest import write_manifest
from pipelines.config.params import load
from pipelines.stages import squad
from pipelines.tracking import Tracker
from tests.support.models import write_base
from tests.support.project import files_of
from tests.support.small_project import PARAMS, ROWS, change

WORDS = ["the", "cat", "dog", "bird", "is", "red", "blue", "green", ".", "?"]
ANIMALS = [("cat", "red"), ("dog", "blue"), ("bird", "green")]
CONTEXT = "the cat is red. the dog is blue. the bird is green. the cat is red. the dog is blue."
OUT = Path("build/squad/small")
VERSIONS = {"1.1": "squad1", "2.0": "squad2"}


@pytest.fixture
def answering(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("params.yaml").write_text(PARAMS)
    squad_settings = "stride: 6, question_length: 6, null_threshold: 0.0"
    change(
        ("positions: 16", "positions: 24"),
        ("length: 16, scratch: {layer_decay: 1.0}", "length: 24"),
        ("epochs: 1, ", ""),
        ("{stride: 4, question_length: 4}", f"{{versions: ['1.1', '2.0'], {squad_settings}}}"),
    )
    write_base(tmp_path, WORDS, 24, "build/models/small/encoder", model="small", part="encoder")
    for task in VERSIONS.values():
        rows = []
        for number, (animal, colour) in enumerate(ANIMALS * 4):
            row = {"id": f"q{number}", "title": "t", "context": CONTEXT, "impossible": False}
            if task == "squad2" and number % 4 == 0:
                row |= {"question": "the is red?", "answers": [], "impossible": True}
            else:
                start = CONTEXT.index(f"{animal} is") + len(animal) + 4
                answers = [{"text": colour, "start": start}]
                row |= {"question": f"the {animal} is?", "answers": answers}
            rows.append(row)
        for split in ("train", "dev"):
            write_jsonl(ROWS / task / f"{split}.jsonl", rows)
    write_manifest(ROWS, kind="tasks", name="made_up")


def run():
    squad.run("small", load(), Tracker(None))
    return read_json(OUT / "results.json")


def mean_scores(version, name):
    """Return exact match and F1 of an answers file by the official rules."""
    rows = read_jsonl(ROWS / VERSIONS[version] / "dev.jsonl")
    scores = question_scores(rows, read_json(OUT / version / f"{name}.json"), version)
    exact, f1 = (100 * sum(part) / len(rows) for part in zip(*scores.values(), strict=True))
    return exact, f1


def test_stage_leaves_official_answers_that_score_what_it_says(answering):
    result = run()
    assert result["label"] == "sample world" and list(result["versions"]) == ["1.1", "2.0"]
    for version, never in (("1.1", 0), ("2.0", 25)):
        values = result["versions"][version]
        assert values["baselines"]["never_answering"] == never and values["dev_rows"] == 12
        for arm in ("pretrained", "scratch"):
            scores = values[arm]["all"]
            for place, seed in enumerate(values[arm]["seeds"]):
                exact, f1 = mean_scores(version, f"{arm}-seed{seed}")
                assert scores["exact"][place] == pytest.approx(exact, abs=1e-4)
                assert scores["f1"][place] == pytest.approx(f1, abs=1e-4)
            # the training rows here are the dev rows
            assert values[arm]["train"] == values[arm]["scores"] == scores["f1"]
    odds = read_json(OUT / "2.0/pretrained-seed1-null-odds.json")
    answers = read_json(OUT / "2.0/pretrained-seed1.json")
    assert set(odds) == set(answers) and all(answers[key] == "" for key in odds if odds[key] > 0)
    first, second = (result["versions"][version]["pretrained"] for version in VERSIONS)
    assert "best_f1" in second["all"] and "best_f1" not in first["all"]


@pytest.mark.slow
def test_seeds_answer_together(answering):
    alone = run()["versions"]
    files = files_of(OUT)
    change(("seeds: [1, 2],", "seeds: [1, 2], ensemble: true,"))
    result = run()["versions"]
    whole = files_of(OUT)
    for name in files.keys() - {"MANIFEST.json", "results.json"}:
        assert whole[name] == files[name]
    for version in VERSIONS:
        ensemble = result[version].pop("ensemble")
        assert result[version] == alone[version]
        assert set(ensemble) == {"pretrained", "scratch"}
        for arm, figures in ensemble.items():
            assert figures["seeds"] == [1, 2]
            assert set(figures) - {"seeds"} <= set(alone[version][arm]["all"])
            _, f1 = mean_scores(version, f"{arm}-ensemble")
            assert figures["f1"] == pytest.approx(f1, abs=1e-4)
            assert (OUT / version / f"{arm}-ensemble-nbest.json").is_file()
    run()
    assert files_of(OUT) == whole
