"""The comparison's own parts: operations of Muon as they are run, arms that build."""

import dataclasses
import lzma
import re

import pytest
import torch

from benchmarks import modern
from benchmarks.modern import (
    ARMS,
    HALF,
    WHOLE,
    Rows,
    fixed_rows,
    judged,
    muon_flops,
    read,
    settings,
    steps_for,
    tuned,
)
from benchmarks.modern import summary as summarised
from electra.files import dump_json, read_json, write_json, write_jsonl
from electra.optim.muon import orthogonal
from electra.pretraining.model import Pretraining
from electra.pretraining.trainer import Data
from pipelines.report.comparison import decided, difference
from tests.conftest import ROOT
from tests.electra.finetuning.conftest import glue_rows
from tests.electra.helpers import SPECIAL
from tests.electra.pretraining.test_modern import Counted

STEADY = "modern, neighbours, stable"
PAGES = {  # record, page and section, and which arm a line is of
    ("modern-seconds-80", "modern", "What each part gave on real text"): {
        "the paper's recipe": "paper's encoder",
        "wider first weights": "paper's, wide",
        "wider, heads at the neighbours": "paper's, neighbours",
        "modern encoder": "modern",
        "modern, wider": "modern, wide",
        "modern, wider, neighbours": "modern, neighbours",
        "modern, wider, neighbours, half the time": "modern, neighbours" + HALF,
        "modern, wider, neighbours, warm-up, stable, decay": STEADY,
        "all of it, half the time": STEADY + HALF,
    },
    ("modern-flops-5e+12", "modern", "At equal operations"): {
        "the paper's recipe": "paper's encoder",
        "wider first weights": "paper's, wide",
        "wider, heads at the neighbours": "paper's, neighbours",
        "modern encoder": "modern",
        "modern, a window of 8": "modern, local",
        "modern, wider": "modern, wide",
        "modern, wider, neighbours": "modern, neighbours",
        "modern, wider, neighbours, Muon": "modern, neighbours, Muon",
        "modern, wider, neighbours, half the operations": "modern, neighbours" + HALF,
        "modern, wider, neighbours, warm-up, stable, decay": STEADY,
        "all of it, half the operations": STEADY + HALF,
    },
    ("modern-published-weights", "notes/modern", "What each part gave"): {
        "the paper's recipe": "paper's encoder",
        "Muon": "paper's, Muon",
        "warm-up, stable, decay": "paper's, stable",
        "modern encoder": "modern",
        "modern encoder, Muon": "modern, Muon",
        "warm-up, stable, decay; half the time": "paper's, stable" + HALF,
    },
}


@pytest.mark.parametrize("arm", WHOLE)
def test_every_arm_builds_and_is_judged(arm):
    torch.manual_seed(0)
    model = Pretraining(settings(arm, 1, 40), 60, SPECIAL).eval()
    ids = torch.randint(5, 60, (128, 32))
    ids[:, 0] = SPECIAL.cls
    rows = Rows(ids.numpy().astype("uint16"), torch.tensor([[32, 32]] * 128).numpy())
    fixed = fixed_rows(model, type("Text", (), {"data": Data(rows, rows, SPECIAL, 60)}))
    found = judged(model, fixed)
    assert 0.3 < found["auc"] < 0.7 and found["loss_over_entropy"] > 1
    assert len(fixed[0]) == 128 and 0 < float(fixed[2].float().mean()) < 0.2


def test_operations_of_muon_are_those_that_are_run():
    model = Pretraining(settings("modern, Muon", 1, 40), 60, SPECIAL)
    matrices = []
    for name, parameter in model.named_parameters():
        if ".layers." in name and parameter.ndim == 2:
            matrices += parameter.detach().chunk(3) if "qkv" in name else [parameter.detach()]
    total = 0
    for matrix in matrices:
        with Counted() as counted:
            orthogonal([matrix])
        total += counted.total
    assert total == muon_flops(model) > 0


WORDS = [
    "the",
    "old",
    "cat",
    "sleeps",
    "near",
    "a",
    "river",
    "and",
    "the",
    "young",
    "dog",
    "runs",
    "over",
    "green",
    "hills",
]


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "text.jsonl.xz"
    with lzma.open(path, "wt") as file:
        for number in range(60):
            text = " ".join(WORDS[(number + i) % len(WORDS)] for i in range(10)).capitalize() + f" {number}."
            file.write(dump_json({"text": text}).replace("\n", "") + "\n")
    return read(path, 1.0)


def test_text_becomes_rows_and_sentences_that_are_in_none(text):
    assert len(text.data.train) == 57 and len(text.data.valid) == len(text.sentences) == 3
    assert [each.rstrip(".").split()[-1] for each in text.sentences] == ["0", "20", "40"]


def test_an_encoder_is_fine_tuned_for_each_task_once_and_stays_as_it_was(text, tmp_path, monkeypatch):
    model = Pretraining(settings("modern", 1, 40), text.tokenizer.vocab_size, text.data.special).eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    for task in ("cola", "stsb"):
        for split, seed in (("train", 1), ("dev", 2)):
            write_jsonl(tmp_path / "tasks" / task / f"{split}.jsonl", glue_rows(task, 40, seed))
    (tmp_path / "run").mkdir()
    found = tuned(model, text, tmp_path / "tasks", 1, tmp_path / "run")
    assert set(found) == {"cola_matthews", "stsb_spearman"} and all(-100 <= score <= 100 for score in found.values())
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    monkeypatch.setattr(modern, "finetune", None)
    assert tuned(model, text, tmp_path / "tasks", 1, tmp_path / "run") == found
    monkeypatch.setitem(modern.TUNED, "cola", dataclasses.replace(modern.TUNED["cola"], epochs=1.0))
    with pytest.raises(TypeError):  # other settings: done anew
        tuned(model, text, tmp_path / "tasks", 1, tmp_path / "run")
    write_json(tmp_path / "run" / "tuned.json", found)  # as it was kept before settings stood beside the scores
    with pytest.raises(TypeError):
        tuned(model, text, tmp_path / "tasks", 1, tmp_path / "run")


def test_a_budget_pays_for_steps_and_half_of_it_for_half_as_many():
    steps = steps_for(600.0, {arm: 2.0 if "Muon" in arm else 1.0 for arm in WHOLE})
    assert steps.keys() == ARMS.keys()
    assert [steps["modern"], steps["modern, Muon"], steps["modern, Muon" + HALF]] == [600, 300, 150]


def test_means_and_deviations_are_over_seeds():
    runs = {"a": [{"seed": 1, "auc": 0.5}, {"seed": 2, "auc": 0.7}]}
    assert summarised(runs)["a"]["auc"] == pytest.approx([0.6, 0.1414], abs=1e-4)


@pytest.mark.parametrize(("names", "titles"), PAGES.items())
def test_the_page_says_what_the_record_says(names, titles):
    record = read_json(ROOT / f"benchmarks/results/{names[0]}.json")
    text = (ROOT / f"docs/{names[1]}.md").read_text(encoding="utf-8").replace("−", "-")
    section = text[text.index(f"## {names[2]}") :].partition("\n## ")[0]
    measured = re.findall(r"^\| (.*?) \| (\d+) \| (.* ± .*) \|$", section, re.M)
    assert len(measured) == len(titles) == len(record["runs"])
    scales = {"masked_token_loss": (1, 2), "fixed_loss_over_entropy": (1, 3), "fixed_auc": (1, 3)}
    scales |= {f"pairs_{kind}": (100, 1) for kind in ("swapped", "dropped", "inflected")}
    for title, steps, numbers in measured:
        found = record["mean_and_deviation"][titles[title]]
        expected = [" ± ".join(f"{by * x:.{places}f}" for x in found[name]) for name, (by, places) in scales.items()]
        assert (int(steps), numbers.split(" | ")) == (record["runs"][titles[title]][0]["steps"], expected)
    tasks = re.findall(r"^\| ([^|]*) \| (\d[\d.]* ± [\d.]+ \| \d[\d.]* ± [\d.]+) \|$", section, re.M)
    assert len(tasks) == (len(titles) if "fine_tuning" in record else 0)
    for title, told in tasks:
        found = (record["mean_and_deviation"][titles[title]][name] for name in ("cola_matthews", "stsb_spearman"))
        assert told == " | ".join(f"{mean:.1f} ± {deviation:.1f}" for mean, deviation in found)
    compared = re.findall(r"^\| (.*?) \| ([-+][\d.]+) \| (.*?) \| ([-+][\d.]+) \| (.*?) \|$", section, re.M)
    assert len(compared) == len(titles) - 1
    first = record["runs"]["paper's encoder"]
    for title, *told in compared:
        for (points, said), (name, sign) in zip(
            (told[:2], told[2:]), (("masked_token_loss", -1), ("fixed_auc", 1)), strict=True
        ):
            ours, theirs = ([sign * run[name] for run in runs] for runs in (record["runs"][titles[title]], first))
            found = difference(ours, theirs)
            words = {"came out": "better", "reversed": "worse"}
            verdict = decided(found)
            assert said == words.get(verdict, verdict.removesuffix(" an arm"))
            assert points == f"{sign * found.points:+.{2 if sign < 0 else 3}f}"
