"""The glue stage on a random encoder and made-up rows: files, summary, names of averages,
resumption, test sets, ensembles, kept models, own tasks.
"""

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from electra.errors import BadConfig, BadDevice
from electra.files import read_json, read_jsonl, write_jsonl
from electra.finetuning.tasks import GLUE, PAPER_AVERAGE, TASKS
from electra.storage.manifest import write_manifest
from pipelines.cli import main
from pipelines.config.params import load
from pipelines.finetuning_runs import plan, summary
from pipelines.finetuning_runs.job import train_and_evaluate
from pipelines.stages import STAGES, baselines, glue, published, squad, tasks
from pipelines.tracking import Tracker
from tests.support.project import files_of
from tests.support.small_project import ROWS, change

OUT = Path("build/glue/small")


def run(name="small"):
    glue.run(name, load(), Tracker(None))
    return read_json(Path("build/glue") / name / "results.json")


def test_stage_leaves_predictions_a_summary_and_a_record(small, monkeypatch):
    monkeypatch.setattr(baselines, "load_frozen", lambda model: "frozen")
    points = {"cola": 61.5}
    monkeypatch.setattr(baselines, "score_frozen", lambda _, task, *more: points.get(task.name))
    events = []
    glue.run("small", load(), Tracker(SimpleNamespace(send=events.append)))
    result = read_json(OUT / "results.json")
    assert result["source"] == "made_up" and result["label"] == "sample world"
    assert list(result["tasks"]) == ["cola", "mnli", "mrpc", "stsb"]
    cola, mnli, mrpc, _ = result["tasks"].values()
    assert mnli["metric"] == "accuracy" and mnli["dev_rows"] == 20
    assert set(mnli["scratch"]["all"]) == {"accuracy", "accuracy_mismatched"}
    assert len(mnli["scratch"]["scores"]) == len(mnli["pretrained"]["train"]) == 2
    assert set(mnli["baselines"]) == {"chance", "majority", "bag_of_words", "word_overlap"}
    assert cola["baselines"]["replaced_tokens"] == 61.5
    # rows of the source, though each is seen in both orders
    assert mnli["train_rows"] == mrpc["train_rows"] == 20
    assert result["average"]["name"] == "mean over four tasks (sample world)"
    assert "scratch" not in cola and "scratch" not in result["average"]
    lines = read_jsonl(OUT / "mnli/pretrained-seed1.jsonl")
    assert len(lines) == 20 and set(lines[0]) == {"id", "prediction", "label", "logits"}
    assert (OUT / "mnli/scratch-seed2-mismatched.jsonl").is_file()
    hits = sum(line["prediction"] == line["label"] for line in lines)
    assert mnli["pretrained"]["scores"][0] == 100 * hits / 20
    opened = {event["run"]: event["params"] for event in events if event["what"] == "open"}
    assert sorted(opened) == ["cola", "mnli", "mrpc", "stsb"], "each task is one child run"
    read = {event["name"] for event in events if event["what"] == "dataset"}
    assert read == {f"tasks/{name}" for name in opened}
    settings = opened["mnli"]
    assert settings["scratch.layer_decay"] == "1.0" != settings["pretrained.layer_decay"]
    shown = glue.settings("small", load())
    assert {key for key in shown if "scratch." in key} == {"scratch.layer_decay"}
    assert settings["seeds"] == "[1, 2]" and "keep_models" not in settings, "as the user set them"
    of_mnli = [event for event in events if event["run"] == "mnli"]
    assert of_mnli[0]["time"] < of_mnli[-1]["time"], "from the start of its first run to its end"
    values = of_mnli[-2]["values"]
    assert values["accuracy/pretrained"] == pytest.approx(mnli["pretrained"]["mean"], abs=1e-3)
    assert {"accuracy/pretrained_sd", "accuracy/scratch"} <= values.keys()


def test_scores_are_compared_with_scratch_and_with_no_network():
    best = {"chance": 50.0, "bag_of_words": 71.0, "replaced_tokens": 90.0}
    task = {"baselines": best, "pretrained": {"mean": 65.3}, "scratch": {"mean": 60.1}}
    said = "65.3 pre-trained, 60.1 from scratch, 71.0 without a network (bag of words), WARNING: "
    assert glue.describe_scores(task).startswith(said)
    task["pretrained"]["mean"] = 71.0
    assert "WARNING" in glue.describe_scores(task), "a tie"
    task["pretrained"]["mean"] = 71.1
    assert "WARNING" not in glue.describe_scores(task)
    assert glue.describe_scores({"pretrained": {"mean": 65.3}}) == "65.3 pre-trained"


def test_positions_that_pre_training_has_not_seen_are_a_warning_once_a_task(monkeypatch, capsys):
    jobs = [SimpleNamespace(task=TASKS[name], name=name) for name in ("rte", "rte", "squad2")]

    def run_all(jobs, count, on_done):
        for job in jobs:
            metrics = dict.fromkeys(job.task.metrics, 0.0)
            beyond = {"positions": 32, "share": 0.236}
            on_done(job, {"metrics": metrics, "beyond_pretraining": beyond})

    monkeypatch.setattr(glue, "run_all", run_all)
    monkeypatch.setattr(glue, "track", lambda *anything: None)
    glue.run_jobs(jobs, 1, "glue", None)
    first, second = [line for line in capsys.readouterr().err.splitlines() if "WARNING" in line]
    said = "WARNING: 23.6% of its rows are longer than the 32 tokens that pre-training saw"
    assert first.startswith(f"rte: {said}")
    assert second.startswith("squad2: WARNING: 23.6% of its windows are longer")


def test_interrupted_stage_goes_on_where_it_was(small, monkeypatch):
    run()
    whole = files_of("build/glue")
    for folder in ("build/glue", "runs"):
        Path(folder).rename(f"{folder}-before")
    solved = []

    def stop_at_fifth(job):
        solved.append(job.name)
        if len(solved) == 5:
            raise KeyboardInterrupt
        return train_and_evaluate(job)

    monkeypatch.setattr(plan, "train_and_evaluate", stop_at_fifth)
    with pytest.raises(KeyboardInterrupt):
        run()
    assert not Path("build/glue").exists()
    for _ in range(2):  # fourteen jobs, four of which were done; a second start computes nothing
        run()
        assert len(solved) == 5 + 14 - 4 and files_of("build/glue") == whole


def summarize(task, rows, score=80.0, seeds=(1, 2)):
    metrics = GLUE[task].metrics
    runs = [
        {"arm": "pretrained", "seed": seed, "metrics": dict.fromkeys(metrics, score + seed)}
        for seed in seeds
    ]
    facts = {"failed": None, "train_rows": rows, "dev_rows": 9, "steps": 3}
    return summary.summarize_task(GLUE[task], [run | facts for run in runs])


def test_only_the_complete_official_tasks_make_a_glue_average():
    full = {}
    for task, facts in GLUE.items():
        full[task] = summarize(task, facts.train_rows, 0.0 if task == "wnli" else 80.0)
    average = summary.average_tasks(full, sample=False)
    assert average["name"] == "GLUE average (mean of eight tasks, without WNLI)"
    assert average["tasks"] == list(PAPER_AVERAGE)
    assert average["pretrained"]["scores"] == [81.0, 82.0]
    assert average["pretrained"]["std"] == pytest.approx(0.7071, abs=1e-4)
    average = summary.average_tasks(full, sample=True)
    assert average["name"] == "mean over nine tasks (sample world)"
    full["qnli"] = summarize("qnli", 8999, seeds=(2, 3))
    average = summary.average_tasks(full, sample=False)
    assert average["pretrained"]["seeds"] == [2]
    assert average["name"] == (
        "mean over CoLA, SST-2, MRPC, STS-B, QQP, MNLI, QNLI (subset of 8,999 rows), RTE, WNLI"
    )


def test_failed_seed_is_named_and_keeps_its_score():
    fault = "1 was predicted for every row"
    facts = {"arm": "pretrained", "train_rows": 5, "dev_rows": 5, "steps": 1}
    records = [
        {**facts, "seed": seed, "metrics": {"matthews": value, "accuracy": 50.0}, "failed": failed}
        for seed, value, failed in ((2, 0.0, fault), (1, 30.0, None), (3, 33.0, None))
    ]
    arm = summary.summarize_task(GLUE["cola"], records)["pretrained"]
    assert arm["scores"] == [30.0, 0.0, 33.0] and arm["failed"] == [f"seed 2: {fault}"]
    assert (arm["mean"], arm["median"], arm["best"]) == (21.0, 30.0, 33.0)
    assert summary.spread([1.0, 2.0])["median"] == 1.5


def test_gpu_that_cannot_be_used_is_no_reason_to_fine_tune_on_the_cpu(monkeypatch):
    """Published weights are fine-tuned without a pre-training that would have said so."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert glue.device() == "cpu"

    def refuse():
        raise BadDevice("GPU: cannot be used with the driver installed")

    monkeypatch.setattr(glue, "refuse_unusable_driver", refuse)
    with pytest.raises(BadDevice):
        glue.device()


def test_as_many_fine_tunings_run_at_once_as_are_set_or_there_are_gpus(small, monkeypatch):
    monkeypatch.setenv("ELECTRA_WORKERS", "5")
    assert glue.count_workers(load(), "small") == 1, "the threads of its pre-training"
    assert glue.count_workers(load(), "published") == 5
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    assert glue.count_workers(load(), "small") == 4
    change(("  paper:\n", "  paper:\n    workers: 3\n"))
    assert glue.count_workers(load(), "small") == 3


def test_test_sets_are_predicted_for_the_leaderboard_by_each_seed_and_by_all_together(small):
    for name in ("cola", "mnli", "stsb"):
        rows = [{**row, "label": None} for row in read_jsonl(ROWS / name / "dev.jsonl")[:7]]
        for split in ("test", "test_mismatched", "test_diagnostic")[: 3 if name == "mnli" else 1]:
            write_jsonl(ROWS / name / f"{split}.jsonl", rows)
    rows = read_jsonl(ROWS / "mnli/dev.jsonl")
    all_neutral = [{**row, "label": "neutral"} for row in rows]
    write_jsonl(ROWS / "mnli/dev_mismatched.jsonl", all_neutral)
    write_manifest(ROWS, kind="tasks", name="made_up")
    change(
        ("seeds: [1, 2],", "seeds: [1, 2], predict_test: true, ensemble: true,"),
        ("run: [cola, mnli, mrpc, stsb]", "run: [cola, mnli, stsb]"),
        ("{mrpc: {both_orders: true}}", "{stsb: {seeds: [2]}}"),
    )
    ensemble = run()["tasks"]["mnli"]["ensemble"]
    files = {path.name: path for path in (OUT / "leaderboard/pretrained-ensemble").iterdir()}
    assert set(files) == {"CoLA.tsv", "MNLI-m.tsv", "MNLI-mm.tsv", "AX.tsv"}
    of_scratch = {path.name for path in (OUT / "leaderboard/scratch-seed2").iterdir()}
    assert of_scratch == set(files) - {"CoLA.tsv"} | {"STS-B.tsv"}, (
        "a single seed makes no ensemble"
    )
    diagnostic = [line.split("\t")[1] for line in files["AX.tsv"].read_text().splitlines()[1:]]
    assert len(diagnostic) == 7 and set(diagnostic) <= {"contradiction", "entailment", "neutral"}
    assert (OUT / "mnli/pretrained-seed1-test-diagnostic.jsonl").is_file()
    assert set(ensemble) == {"pretrained", "scratch"} and ensemble["scratch"]["seeds"] == [1, 2]
    lines = read_jsonl(OUT / "mnli/scratch-ensemble.jsonl")
    hits = sum(line["prediction"] == line["label"] for line in lines)
    assert ensemble["scratch"]["accuracy"] == 100 * hits / 20


def test_task_starts_from_the_encoder_of_another(small):
    change(("run: [cola, mnli, mrpc, stsb]", "run: [mrpc, mnli]"))
    before = run()["tasks"]
    predictions = OUT / "mrpc/pretrained-seed2.jsonl"
    from_pretraining = predictions.read_bytes()
    change(("{mrpc: {both_orders: true}}", "{mrpc: {both_orders: true, init_from_task: mnli}}"))
    after = run()["tasks"]
    assert after["mnli"] == before["mnli"] and after["mrpc"]["scratch"] == before["mrpc"]["scratch"]
    assert predictions.read_bytes() != from_pretraining
    assert (OUT / "mnli/pretrained-seed2/model.safetensors").is_file()
    change(("run: [mrpc, mnli]", "run: [mrpc]"))
    with pytest.raises(
        BadConfig, match=r"tasks\.mrpc\.init_from_task: is 'mnli', should be a task that is"
    ):
        load()


def test_model_from_elsewhere_learns_a_task_of_the_user(small):
    rows = ["bad\tdog sleeps\n", "good\tcat runs\n"] * 10
    Path("mood.tsv").write_text("mood\ttext\n" + "".join(rows))
    files = "train: mood.tsv, dev: mood.tsv, test: mood.tsv"
    task = f"{{{files}, a: text, label: mood, labels: [bad, good]}}"
    recipe = "{defaults: {seeds: [1], predict_test: true, length: 12}, tasks: {mood: {epochs: 2}}}"
    finetuning = "{model: elsewhere, tasks: mine, recipe: mood, arms: [pretrained, scratch]}"
    change(
        ("own: {kind: local, glue: here}", f"mine: {{kind: custom, tasks: {{mood: {task}}}}}"),
        ("published: {}\n", "published:\n  elsewhere: {folder: build/models/small/encoder}\n"),
        ("models:\n", f"  mood: {recipe}\nmodels:\n"),
        ("finetunings:\n", f"finetunings:\n  elsewhere: {finetuning}\n"),
    )
    params = load()
    assert main(["check", "elsewhere"]) == main(["params", "elsewhere"]) == 0
    assert STAGES["glue"].inputs(params, "elsewhere") == ("tasks@mine", "published@elsewhere")
    tasks.run("mine", params, Tracker(None))
    published.run("elsewhere", params, Tracker(None))
    result = run("elsewhere")
    assert result["average"]["name"] == "mean over mood"
    assert result["tasks"]["mood"]["metric"] == "accuracy"
    scores = result["tasks"]["mood"]["pretrained"]["all"]
    assert scores["accuracy_test"] == scores["accuracy"], "a labelled test set is scored"
    assert Path("build/glue/elsewhere/mood/pretrained-seed1/task.json").is_file()
    squad.run("elsewhere", params, Tracker(None))
    assert read_json(Path("build/squad/elsewhere/results.json"))["versions"] == {}, "no SQuAD"
