"""Jobs end to end on a random encoder and made-up rows: results, bytes, resumption, failures."""

import dataclasses
import json
import shutil
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from electra.errors import BadConfig, BadInput, CorruptFile
from electra.files import read_json, read_jsonl, write_json
from electra.finetuning import training
from electra.finetuning.tasks import GLUE, FinetuneConfig, SquadConfig, find
from electra.nn.huggingface import load_encoder
from electra.optim.adamw import set_rate
from electra.storage.manifest import MANIFEST
from pipelines.finetuning_runs import job as job_module
from pipelines.finetuning_runs import plan as jobs_module
from pipelines.finetuning_runs import summary
from pipelines.finetuning_runs.job import MODEL
from pipelines.finetuning_runs.plan import Plan, read_finished, run, run_all
from tests.conftest import files_of

CONFIG = FinetuneConfig(learning_rate=1e-3, epochs=2, batch=16, length=40, seeds=(1,))
SQUAD = SquadConfig(
    learning_rate=1e-3, epochs=2, batch=16, length=40, stride=12, question_length=10, seeds=(1,)
)


def alike(one, other) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))


@pytest.mark.parametrize("task", GLUE)
def test_every_glue_task_trains_predicts_and_scores_with_both_arms(
    task, task_rows, model, tmp_path
):
    jobs = Plan(task, CONFIG, rows=task_rows / task, model=model, state=tmp_path).jobs()
    assert [job.arm for job in jobs] == ["pretrained", "scratch"]
    for job in jobs:
        record = run(job)
        assert set(GLUE[task].metrics) <= set(record["metrics"])
        assert record["train_rows"] == 60 and record["dev_rows"] == 24 and record["steps"] == 8
        lines = read_jsonl(job.folder / "dev.jsonl")
        assert [line["id"] for line in lines] == [f"{task}-{number}" for number in range(24)]
        assert set(lines[0]) == {"id", "prediction", "label", "logits"}
    assert ("accuracy_mismatched" in record["metrics"]) == (task == "mnli")


@pytest.mark.parametrize("version", ["squad1", "squad2"])
@pytest.mark.parametrize("head", ["conditional", "independent"])
def test_squad_trains_answers_and_scores(version, head, task_rows, model, tmp_path):
    config = dataclasses.replace(SQUAD, head=head, arms=("pretrained",))
    (job,) = Plan(version, config, rows=task_rows / version, model=model, state=tmp_path).jobs()
    record = run(job)
    assert {"exact", "f1"} <= set(record["metrics"])
    assert ("best_f1" in record["metrics"]) == (version == "squad2")
    answers = json.loads((job.folder / "dev.json").read_text())
    contexts = {row["id"]: row["context"] for row in read_jsonl(task_rows / version / "dev.jsonl")}
    assert (
        set(answers)
        == set(contexts)
        == set(json.loads((job.folder / "dev-null-odds.json").read_text()))
    )
    assert all(text in contexts[key] for key, text in answers.items())


def test_fresh_layers_go_on_top_of_both_arms_encoders_and_of_what_a_started_task_goes_on_from(
    task_rows, model, tmp_path
):
    config = dataclasses.replace(CONFIG, fresh_layers=1, keep="all")
    before = Plan("mnli", config, rows=task_rows / "mnli", model=model, state=tmp_path).jobs()
    started = dataclasses.replace(config, start="mnli")
    after = Plan(
        "rte", started, rows=task_rows / "rte", model=model, state=tmp_path, before=before
    ).jobs()
    for job in (*before, *after):
        encoder = job_module.build_encoder(job)
        assert len(encoder.layers) == encoder.config.layers == 3
        run(job)
    kept = load_encoder(before[0].folder / MODEL)
    assert alike(kept, job_module.build_encoder(after[0]))
    pretrained, scratch = (job_module.build_encoder(job) for job in before)
    bare = load_encoder(model, dropout=CONFIG.dropout)
    assert alike(bare.layers, pretrained.layers[:2])
    assert alike(pretrained.layers[2], scratch.layers[2]), (
        "both arms begin with the same fresh layer"
    )


@pytest.mark.parametrize(
    "name", ["rows/mrpc/train.jsonl", "rows/mrpc/dev.jsonl", "model/model.safetensors"]
)
def test_files_that_change_between_plan_and_work_are_noticed(task_rows, model, tmp_path, name):
    rows, weights = tmp_path / "rows" / "mrpc", tmp_path / "model"
    shutil.copytree(task_rows / "mrpc", rows)
    shutil.copytree(model, weights)
    (weights / MANIFEST).unlink()  # as a folder from elsewhere has none
    one, *_ = Plan("mrpc", CONFIG, rows=rows, model=weights, state=tmp_path / "state").jobs()
    raw = bytearray((tmp_path / name).read_bytes())
    raw[-3] ^= 1
    (tmp_path / name).write_bytes(raw)
    with pytest.raises(CorruptFile, match=f"{name}: has sha256"):
        run(one)


def test_seeds_differ_and_half_the_precision_gives_much_the_same_losses(task_rows, model, tmp_path):
    for task, base in (("mrpc", CONFIG), ("squad2", SQUAD)):
        losses = []
        for precision in ("fp32", "bf16"):
            config = dataclasses.replace(
                base, precision=precision, arms=("pretrained",), seeds=(1, 2)
            )
            jobs = Plan(
                task, config, rows=task_rows / task, model=model, state=tmp_path / precision
            ).jobs()
            losses.append([[loss for _, loss in run(job)["loss"]] for job in jobs])
        (first, second), (half, _) = losses
        assert first != second and first != half == pytest.approx(first, rel=0.05)


def test_the_number_of_workers_bears_on_no_result(task_rows, model, tmp_path):
    for workers in (1, 2):
        state, heard = tmp_path / str(workers), []
        jobs = [
            *Plan("rte", CONFIG, rows=task_rows / "rte", model=model, state=state).jobs(),
            *Plan("squad2", SQUAD, rows=task_rows / "squad2", model=model, state=state).jobs(),
        ]
        records = run_all(jobs, workers, lambda job, record, heard=heard: heard.append(job.name))
        assert sorted(heard) == sorted(job.name for job in jobs)
        assert [record["arm"] for record in records] == ["pretrained", "scratch"] * 2
    assert files_of(tmp_path / "1") == files_of(tmp_path / "2") != {}


def test_a_read_finished_job_is_read_and_a_changed_or_damaged_one_is_done_again(
    task_rows, model, tmp_path, monkeypatch, capsys
):
    config = dataclasses.replace(CONFIG, arms=("pretrained",))

    def job(config=config):
        return Plan("wnli", config, rows=task_rows / "wnli", model=model, state=tmp_path).jobs()[0]

    record = run(job())
    assert read_finished(job()) == record
    monkeypatch.setattr(jobs_module, "solve", lambda *_: pytest.fail("was computed again"))
    assert run(job()) == record
    monkeypatch.undo()
    assert read_finished(job(dataclasses.replace(config, learning_rate=2e-3))) is None
    assert (
        read_finished(job(dataclasses.replace(config, seeds=(1, 2, 3)))) == record
    )  # the set of seeds bears on no single run
    run(job(dataclasses.replace(config, epochs=1)))
    assert read_finished(job()) == record  # other settings have a folder of their own
    predictions = job().folder / "dev.jsonl"
    whole = predictions.read_bytes()
    assert capsys.readouterr().err == ""
    predictions.write_bytes(whole[:-5])
    assert read_finished(job()) is None
    assert f"warning: {predictions}: has {len(whole) - 5} bytes" in capsys.readouterr().err
    assert run(job()) == record and predictions.read_bytes() == whole


def test_an_interrupted_job_leaves_nothing(task_rows, model, tmp_path, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    (job, *_) = Plan("sst2", CONFIG, rows=task_rows / "sst2", model=model, state=tmp_path).jobs()
    monkeypatch.setattr(jobs_module, "write_manifest", stop)
    with pytest.raises(KeyboardInterrupt):
        run(job)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_diverged_run_is_scored_and_named(task_rows, model, tmp_path, monkeypatch):
    # no setting that is allowed diverges so soon
    monkeypatch.setattr(training, "set_rate", lambda optimizer, rate: set_rate(optimizer, 1e30))
    config = dataclasses.replace(CONFIG, clip=1e9, arms=("pretrained",))
    record = run(
        Plan("cola", config, rows=task_rows / "cola", model=model, state=tmp_path).jobs()[0]
    )
    assert record["failed"] == "the loss or the outputs stopped being finite"
    assert record["metrics"] == {"accuracy": 50.0, "matthews": 0.0}
    squad = dataclasses.replace(SQUAD, clip=1e9, arms=("pretrained",))
    record = run(
        Plan("squad2", squad, rows=task_rows / "squad2", model=model, state=tmp_path).jobs()[0]
    )
    assert record["failed"] and 0 <= record["metrics"]["f1"] <= 100


def test_what_no_job_could_use_is_refused_at_once(task_rows, model, tmp_path):
    with pytest.raises(BadConfig, match="positions"):
        longer = dataclasses.replace(CONFIG, length=65)
        Plan("cola", longer, rows=task_rows / "cola", model=model, state=tmp_path).jobs()
    with pytest.raises(BadInput, match="there is no such file"):
        Plan("cola", CONFIG, rows=tmp_path / "nowhere", model=model, state=tmp_path).jobs()


def test_a_workers_user_error_reaches_the_caller(task_rows, model, tmp_path):
    rows = tmp_path / "rows"
    rows.mkdir()
    text = (task_rows / "cola" / "train.jsonl").read_text()
    (rows / "train.jsonl").write_text(text.replace('"label": "1"', '"label": "maybe"', 1))
    (rows / "dev.jsonl").write_text(text)
    jobs = Plan("cola", CONFIG, rows=rows, model=model, state=tmp_path / "state").jobs()
    with pytest.raises(
        BadInput, match=r"train\.jsonl:2 \(id cola-1\): has the label 'maybe'; expected one of 0, 1"
    ):
        run_all(jobs, 2)


def test_what_a_killed_writer_left_is_cleared_away(task_rows, model, tmp_path):
    (job, *_) = Plan("sst2", CONFIG, rows=task_rows / "sst2", model=model, state=tmp_path).jobs()
    left = job.folder.with_name(f".{job.folder.name}.tmp-999999999")
    left.mkdir(parents=True)
    (left / "dev.jsonl").write_text("half a li")
    run(job)
    assert [path.name for path in job.folder.parent.iterdir()] == [job.folder.name]


@pytest.mark.parametrize(("task", "config"), [("cola", CONFIG), ("squad2", SQUAD)])
def test_rows_beyond_what_pre_training_has_seen_are_counted(
    task, config, task_rows, model, tmp_path
):
    longer = tmp_path / "longer"
    shutil.copytree(model, longer, ignore=shutil.ignore_patterns(MANIFEST))
    settings = read_json(model / "config.json")
    write_json(longer / "config.json", settings | {"trained_positions": 3})
    few = dataclasses.replace(config, max_train_rows=16, epochs=1)
    records = [
        run(job)
        for job in Plan(task, few, rows=task_rows / task, model=longer, state=tmp_path).jobs()
    ]
    told = summary.summarize_task(find(task_rows / task, task), records)
    assert (
        told["beyond_pretraining"]
        == records[0]["beyond_pretraining"]
        == {"positions": 3, "share": 1.0}
    )
    assert "beyond_pretraining" not in records[1]  # nothing is said of the scratch arm
    job, *_ = Plan(task, few, rows=task_rows / task, model=longer, state=tmp_path).jobs()
    splits = [SimpleNamespace(length_N=np.array(lengths)) for lengths in ([8, 9, 10], [32, 4])]
    for seen, expected in ((9, {"beyond_pretraining": {"positions": 9, "share": 0.4}}), (32, {})):
        write_json(longer / "config.json", settings | {"trained_positions": seen})
        assert job_module.share_beyond_pretraining(job, splits) == expected
