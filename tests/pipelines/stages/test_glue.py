"""The glue stage on a random encoder and made-up rows: files, summary, names of averages,
resumption.
"""

import json
import random
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from electra.errors import BadDevice
from electra.files import read_jsonl, write_jsonl
from electra.finetuning.tasks import GLUE, PAPER_AVERAGE, TASKS
from electra.storage.manifest import write_manifest
from pipelines.config.params import load
from pipelines.finetuning_runs import plan, summary
from pipelines.stages import glue
from pipelines.tracking import Tracker
from tests.conftest import files_of
from tests.electra.made_up_models import write_base

WORDS = ["red", "blue", "green", "cat", "dog", "bird", "runs", "sleeps"]
PARAMS = """
run: {models: [small], ablations: []}
tracking: none
published: {}
ablations: {}
corpora: {c: {sources: [{kind: sample}]}}
tokenizers: {w: {kind: train, vocab_size: 800}}
tokens: {t: {corpus: c, tokenizer: w, lengths: [16]}}
tasks: {made_up: {kind: sample}, own: {kind: local, glue: here}}
encoders:
  small: {layers: 1, hidden: 16, heads: 2, ffn: 32, embedding: 16, positions: 16}
recipes:
  paper:
    defaults: {seeds: [1, 2], epochs: 1, learning_rate: 1.0e-3, length: 16, scratch: {layer_decay: 1.0}}
    tasks: {mrpc: {both_orders: true}}
    squad: {stride: 4, question_length: 4}
  few: {run: [cola, mnli, mrpc, stsb], tasks: {cola: {arms: [pretrained]}}}
models:
  small: &model
    tokens: t
    encoder: small
    pretrain: {length: 16, batch: 8, steps: 10, warmup: 1, learning_rate: 1.0e-3, threads: 1}
finetunings:
  small: {model: small, tasks: made_up, recipe: few, arms: [pretrained, scratch]}
"""


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("params.yaml").write_text(PARAMS)
    write_base(tmp_path, WORDS, 16, "build/models/small/encoder", model="small", part="encoder")
    draw = random.Random(1)
    for name in ("cola", "mnli", "mrpc", "stsb"):
        for split in ("train", *GLUE[name].evaluation):
            rows = [
                {
                    "id": str(number),
                    "a": " ".join(draw.choices(WORDS, k=4)),
                    "b": None if name == "cola" else " ".join(draw.choices(WORDS, k=5)),
                    "label": (GLUE[name].labels or (0.5, 2.0, 4.5))[
                        number % len(GLUE[name].labels or "abc")
                    ],
                }
                for number in range(20)
            ]
            write_jsonl(Path("build/tasks/made_up") / name / f"{split}.jsonl", rows)
    write_manifest(Path("build/tasks/made_up"), kind="tasks", name="made_up")
    return tmp_path


def made() -> dict[str, bytes]:
    return files_of("build/glue")


def test_the_stage_leaves_predictions_a_summary_and_a_record(workspace):
    events: list[dict] = []
    glue.run("small", load(), Tracker(SimpleNamespace(send=events.append)))
    result = json.loads(Path("build/glue/small/results.json").read_text())
    assert result["source"] == "made_up" and result["label"] == "sample world"
    assert list(result["tasks"]) == ["cola", "mnli", "mrpc", "stsb"]
    mnli = result["tasks"]["mnli"]
    assert mnli["metric"] == "accuracy" and mnli["train_rows"] == mnli["dev_rows"] == 20
    for arm in ("pretrained", "scratch"):
        assert set(mnli[arm]) >= {
            "scores",
            "mean",
            "std",
            "median",
            "best",
            "failed",
            "all",
            "seeds",
        }
        assert len(mnli[arm]["scores"]) == 2 and set(mnli[arm]["all"]) == {
            "accuracy",
            "accuracy_mismatched",
        }
    assert len(mnli["pretrained"]["train"]) == 2
    assert set(mnli["baselines"]) == {"chance", "majority", "bag_of_words", "word_overlap"}
    # rows of the source, though each is seen in both orders
    assert result["tasks"]["mrpc"]["train_rows"] == 20
    assert "scratch" not in result["tasks"]["cola"]
    average = result["average"]
    assert (
        average["name"] == "mean over four tasks (sample world)" and "GLUE" not in average["name"]
    )
    assert "scratch" not in average  # one task has no such arm
    means = [
        sum(result["tasks"][task]["pretrained"]["scores"][k] for task in average["tasks"]) / 4
        for k in (0, 1)
    ]
    assert average["pretrained"]["scores"] == pytest.approx(means, abs=1e-3)
    lines = read_jsonl(Path("build/glue/small/mnli/pretrained-seed1.jsonl"))
    assert len(lines) == 20 and set(lines[0]) == {"id", "prediction", "label", "logits"}
    assert Path("build/glue/small/mnli/scratch-seed2-mismatched.jsonl").is_file()
    hits = sum(line["prediction"] == line["label"] for line in lines)
    assert mnli["pretrained"]["scores"][0] == 100 * hits / 20
    settings = {event["run"]: event["params"] for event in events if event["what"] == "open"}
    assert sorted(settings) == ["cola", "mnli", "mrpc", "stsb"]
    assert {of["seeds"] for of in settings.values()} == {"[1, 2]"}
    for key in ("keep", "arms", "ensemble", "scratch.layer_decay", "scratch.seeds"):
        assert (key in settings["mnli"]) is (key == "scratch.layer_decay"), key
    of_mnli = [event for event in events if event["run"] == "mnli"]
    assert of_mnli[0]["time"] < of_mnli[-1]["time"], "from the start of its first run to its end"
    values = of_mnli[-2]["values"]
    assert values["accuracy/pretrained"] == pytest.approx(mnli["pretrained"]["mean"], abs=1e-3)
    assert {"accuracy/pretrained_sd", "accuracy/scratch"} <= values.keys()
    assert {event["run"] for event in events if event.get("step") is not None} == set(settings), (
        "curves"
    )
    decays = {key: value for key, value in settings["mnli"].items() if key.endswith("layer_decay")}
    assert (
        len(decays) == 2
        and decays["scratch.layer_decay"] == "1.0" != decays["pretrained.layer_decay"]
    ), decays


def test_positions_that_pre_training_has_not_seen_are_told_once_a_task(monkeypatch, capsys):
    jobs = [
        SimpleNamespace(task=TASKS[task], name=task) for task in ("rte", "rte", "squad2", "cola")
    ]
    beyond = {"beyond_pretraining": {"positions": 32, "share": 0.236}}

    def run_all(jobs, count, on_done):
        for seed, job in enumerate(jobs):
            record = {
                "arm": "pretrained",
                "seed": seed,
                "metrics": dict.fromkeys(job.task.metrics, 0.0),
            }
            on_done(job, record | ({} if job.name == "cola" else beyond))

    monkeypatch.setattr(glue, "run_all", run_all)
    monkeypatch.setattr(glue, "track", lambda *anything: None)
    glue.run_jobs(jobs, 1, "glue", None)
    told = [line for line in capsys.readouterr().err.splitlines() if "WARNING" in line]
    assert len(told) == 2
    assert told[0].startswith(
        "rte: WARNING: 23.6% of its rows are longer than the 32 tokens that pre-training saw"
    )
    assert told[1].startswith("squad2: WARNING: 23.6% of its windows are longer")


def test_an_interrupted_stage_goes_on_where_it_was(workspace, monkeypatch):
    glue.run("small", load(), Tracker(None))
    whole = made()
    for folder in ("build/glue", "runs"):
        Path(folder).rename(f"{folder}-before")
    count, real = 0, plan.solve

    def stop_at_fifth(*arguments):
        nonlocal count
        count += 1
        if count == 5:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(plan, "solve", stop_at_fifth)
    with pytest.raises(KeyboardInterrupt):
        glue.run("small", load(), Tracker(None))
    assert not Path("build/glue").exists()
    glue.run("small", load(), Tracker(None))
    assert count == 5 + 14 - 4  # fourteen jobs, four of which were done
    assert made() == whole
    glue.run("small", load(), Tracker(None))
    assert count == 15 and made() == whole, "a second start computes nothing"


def fake(task: str, rows: int, score: float = 80.0) -> dict:
    runs = [
        {
            "task": task,
            "arm": arm,
            "seed": seed,
            "metrics": dict.fromkeys(GLUE[task].metrics, score + seed),
            "failed": None,
            "train_rows": rows,
            "dev_rows": 9,
            "steps": 3,
            "loss": [],
        }
        for arm in ("pretrained", "scratch")
        for seed in (1, 2)
    ]
    return summary.of_task(GLUE[task], runs)


def test_only_the_complete_official_tasks_make_a_glue_average():
    full = {
        task: fake(task, facts.train_rows, 0.0 if task == "wnli" else 80.0)
        for task, facts in GLUE.items()
    }
    average = summary.average(full, sample=False)
    assert average["name"] == "GLUE average (mean of eight tasks, without WNLI)"
    assert average["tasks"] == list(PAPER_AVERAGE) and average["pretrained"]["scores"] == [
        81.0,
        82.0,
    ]
    assert average["pretrained"]["std"] == pytest.approx(0.7071, abs=1e-4)
    assert summary.average(full, sample=True)["name"] == "mean over nine tasks (sample world)"
    part = {**full, "qnli": fake("qnli", 8999)}
    assert "GLUE average" not in summary.average(part, sample=False)["name"]
    assert "QNLI (subset of 8,999 rows)" in summary.average(part, sample=False)["name"]
    del full["qqp"]
    assert summary.average(full, sample=False)["name"].startswith(
        "mean over CoLA, SST-2, MRPC, STS-B, MNLI"
    )


def test_a_failed_seed_is_named_and_keeps_its_score():
    records = [
        {
            "arm": "pretrained",
            "seed": seed,
            "metrics": {"matthews": value, "accuracy": 50.0},
            "failed": why,
            "train_rows": 5,
            "dev_rows": 5,
            "steps": 1,
        }
        for seed, value, why in (
            (2, 0.0, "1 was predicted for every row"),
            (1, 30.0, None),
            (3, 33.0, None),
        )
    ]
    arm = summary.of_task(GLUE["cola"], records)["pretrained"]
    assert (
        arm["scores"] == [30.0, 0.0, 33.0]
        and arm["mean"] == 21.0
        and arm["median"] == 30.0
        and arm["best"] == 33.0
    )
    assert arm["failed"] == ["seed 2: 1 was predicted for every row"]


def test_a_gpu_that_cannot_be_used_is_no_reason_to_fine_tune_on_the_cpu(monkeypatch):
    """Published weights are fine-tuned without a pre-training that would have said so."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert glue.device() == "cpu"

    def refuse():
        raise BadDevice("GPU", "cannot be used with the driver installed")

    monkeypatch.setattr(glue, "refuse_unusable_driver", refuse)
    with pytest.raises(BadDevice):
        glue.device()
