"""Jobs end to end on a random encoder and made-up rows: results, bytes, resumption, failures."""

import shutil
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from electra.errors import BadConfig, BadInput, CorruptFile
from electra.files import read_json, read_jsonl, write_json
from electra.finetuning import training
from electra.finetuning.tasks import GLUE
from electra.nn.huggingface import load_encoder
from electra.optim.adamw import set_learning_rate
from electra.storage.manifest import MANIFEST
from pipelines.finetuning_runs import job as job_module
from pipelines.finetuning_runs import plan as jobs_module
from pipelines.finetuning_runs import summary
from pipelines.finetuning_runs.job import MODEL, build_encoder, share_beyond_pretraining
from pipelines.finetuning_runs.plan import plan_jobs as plan_all
from pipelines.finetuning_runs.plan import read_finished, run, run_all
from tests.support.project import files_of, harm
from tests.support.tasks import FINETUNE, SQUAD


@pytest.fixture
def plan_jobs(task_rows, model, tmp_path):
    """A function that plans the jobs of a task, of one seed, with changes to the settings."""

    def plan_jobs(task, runs=".", rows=None, model=model, source_jobs=(), **changes):
        config = SQUAD if task.startswith("squad") else FINETUNE
        config = replace(config, **{"seeds": (1,), **changes})
        folders = {"rows": rows or task_rows / task, "model": model, "runs": tmp_path / runs}
        return plan_all(task, config, **folders, source_jobs=source_jobs)

    return plan_jobs


def copy_model(model, folder, **changes):
    """Copy a model with changes to its config.json, and no manifest, as one from elsewhere."""
    shutil.copytree(model, folder, ignore=shutil.ignore_patterns(MANIFEST))
    write_json(folder / "config.json", read_json(model / "config.json") | changes)
    return folder


def equal_weights(one, other):
    return all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))


def test_new_layers_go_on_top_of_both_arms_and_of_a_task_that_is_started_from(plan_jobs, model):
    before = plan_jobs("mnli", new_layers=1, dropout=0.3)
    after, _ = plan_jobs("rte", new_layers=1, init_from_task="mnli", source_jobs=before)
    others = ({"start": replace(before[0], seed=2)}, {"candidates": True}, {"device": "cuda"})
    fingerprints = {replace(after, **other).fingerprint for other in ({}, *others)}
    assert len(fingerprints) == 4
    metrics = run(before[0])["metrics"]
    assert set(metrics) == {"accuracy", "accuracy_mismatched"}
    assert equal_weights(load_encoder(before[0].folder / MODEL), build_encoder(after))
    run(after)
    pretrained, scratch = map(build_encoder, before)
    for config in (pretrained.config, scratch.config):
        assert config.dropout == config.attention_dropout == 0.3
    assert equal_weights(load_encoder(model).layers, pretrained.layers[:2])
    # both begin with the same fresh layer
    assert equal_weights(pretrained.layers[2:], scratch.layers[2:])
    assert len(scratch.layers) == scratch.config.layers == 3


@pytest.mark.parametrize("name", ["rows/mrpc/train.jsonl", "model/model.safetensors"])
def test_file_that_changes_between_plan_and_work_is_noticed(
    task_rows, model, tmp_path, plan_jobs, name
):
    shutil.copytree(task_rows / "mrpc", tmp_path / "rows/mrpc")
    inputs = {"rows": tmp_path / "rows/mrpc", "model": copy_model(model, tmp_path / "model")}
    job, scratch = plan_jobs("mrpc", "state", **inputs)
    harm(tmp_path / name, "flipped")
    with pytest.raises(CorruptFile, match=f"{name}: has another sha256"):
        run(job)
    again, without_weights = plan_jobs("mrpc", "state", **inputs)
    assert again.folder != job.folder
    assert (without_weights.folder == scratch.folder) == name.startswith("model")


@pytest.mark.parametrize("task", ["stsb", "squad2"])
def test_seeds_differ_and_half_the_precision_gives_much_the_same_losses(plan_jobs, task):
    losses = []
    for precision in ("fp32", "bf16"):
        jobs = plan_jobs(task, precision, precision=precision, arms=("pretrained",), seeds=(1, 2))
        losses.append([[loss for _, loss in run(job)["loss"]] for job in jobs])
    (first, second), (half, _) = losses
    assert first != second and first != half == pytest.approx(first, rel=0.05)


def test_number_of_workers_bears_on_no_result(plan_jobs, tmp_path):
    done = []
    for workers in (1, 2):
        jobs = plan_jobs("rte", str(workers)) + plan_jobs("squad2", str(workers))
        records = run_all(jobs, workers, lambda job, _: done.append(job.name))
        assert sorted(done[-len(jobs) :]) == sorted(job.name for job in jobs)
        assert [record["arm"] for record in records] == ["pretrained", "scratch"] * 2
    assert done[0].startswith("rte"), "the longest first"
    assert files_of(tmp_path / "1") == files_of(tmp_path / "2") != {}


def test_a_job_runs_on_one_thread(monkeypatch):
    monkeypatch.setattr(jobs_module, "run", lambda job: {"threads": torch.get_num_threads()})
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    assert jobs_module.run_on_one_thread(None)["threads"] == 1 and torch.get_num_threads() == 3
    torch.set_num_threads(before)


def test_finished_job_is_read_and_a_changed_or_damaged_one_is_done_again(
    plan_jobs, monkeypatch, capsys
):
    def plan(**changes):
        return plan_jobs("wnli", **changes)[0]

    record = run(plan())
    with monkeypatch.context() as patch:
        patch.setattr(
            jobs_module, "train_and_evaluate", lambda *_: pytest.fail("was computed again")
        )
        assert run(plan()) == record
        assert run(plan(seeds=(1, 2, 3))) == record, "other seeds bear on no single run"
    assert read_finished(plan(learning_rate=2e-3)) is None
    tokenizer = plan().files | {"tokenizer.json": "another sha256"}
    assert read_finished(replace(plan(), files=tokenizer)) is None
    by_other_code = replace(plan(), code="new")
    assert read_finished(by_other_code) is None and run(by_other_code) == record
    folder = plan().folder
    assert folder.with_name(f"{folder.name}.old").is_dir()
    run(plan(epochs=1))
    assert run(plan()) == record, "other settings have a folder of their own"
    predictions = folder / "dev.jsonl"
    whole = predictions.read_bytes()
    assert capsys.readouterr().err == ""
    harm(predictions, "cut")
    assert read_finished(plan()) is None
    assert f"warning: {predictions}: has {len(whole) - 2} bytes" in capsys.readouterr().err
    assert run(plan()) == record and predictions.read_bytes() == whole


def test_diverged_run_is_scored_and_named(plan_jobs, monkeypatch):
    # no setting that is allowed diverges so soon
    monkeypatch.setattr(
        training, "set_learning_rate", lambda optimizer, rate: set_learning_rate(optimizer, 1e30)
    )
    cola, squad = (run(plan_jobs(task, max_grad_norm=1e9)[0]) for task in ("cola", "squad2"))
    assert cola["failed"] == "the loss or the outputs stopped being finite"
    assert cola["metrics"] == {"accuracy": 50.0, "matthews": 0.0}
    monkeypatch.setattr(job_module, "train", lambda *_, **__: training.Training(False, []))
    assert run(plan_jobs("cola", seeds=(3,))[0])["failed"] == cola["failed"]
    assert squad["failed"] and 0 <= squad["metrics"]["f1"] <= 100


def test_what_no_job_could_use_is_refused_at_once(plan_jobs, task_rows, model, tmp_path):
    larger = copy_model(model, tmp_path / "larger", vocab_size=999)
    with pytest.raises(BadInput, match=r"holds a tokenizer of \d+ pieces; expected the model's"):
        plan_jobs("cola", model=larger)
    with pytest.raises(BadConfig, match="has length 65; expected at most the model's positions"):
        plan_jobs("cola", length=65)
    with pytest.raises(BadInput, match="there is no such file"):
        plan_jobs("cola", rows=tmp_path / "nowhere")
    (tmp_path / "cola").mkdir()
    shutil.copy(task_rows / "cola/train.jsonl", tmp_path / "cola")
    with pytest.raises(BadInput, match=r"dev\.jsonl: there is no such file"):
        plan_jobs("cola", rows=tmp_path / "cola")
    with pytest.raises(BadConfig, match="mnli has no seed 1; let both have the same"):
        plan_jobs("rte", init_from_task="mnli", source_jobs=plan_jobs("mnli", seeds=(2,)))


@pytest.mark.parametrize("keep, kept", [("none", []), ("first", [2]), ("all", [2, 1])])
def test_models_of_pretrained_seeds_are_kept_as_set(plan_jobs, keep, kept):
    jobs = plan_jobs("cola", seeds=(2, 1), keep_models=keep)
    assert [job.name for job in jobs if job.keep] == [f"cola-pretrained-seed{n}" for n in kept]


def test_leftovers_of_a_killed_writer_are_removed(plan_jobs):
    job, *_ = plan_jobs("sst2")
    run(job)
    left = job.folder.with_name(f".{job.folder.name}.tmp-999999999")
    left.mkdir(parents=True)
    (left / "dev.jsonl").write_text("half a li")
    run_all([job], 1)  # it is finished, so nothing is written under its name
    assert [path.name for path in job.folder.parent.iterdir()] == [job.folder.name]


def test_rows_beyond_what_pre_training_has_seen_are_counted(plan_jobs, model, tmp_path):
    seen = copy_model(model, tmp_path / "seen", trained_positions=9)
    job, scratch = plan_jobs("cola", model=seen, max_train_rows=16, epochs=1)
    splits = [SimpleNamespace(length_N=np.array(lengths)) for lengths in ([8, 9, 10], [32, 4])]
    beyond = {"beyond_pretraining": {"positions": 9, "share": 0.4}}
    assert share_beyond_pretraining(job, splits) == beyond
    # nothing is said of the scratch arm, nor of rows within
    within = [SimpleNamespace(length_N=np.array([9]))]
    assert share_beyond_pretraining(scratch, splits) == share_beyond_pretraining(job, within) == {}
    record = run(job)
    assert (record["train_rows"], record["dev_rows"]) == (16, 24)
    result = summary.summarize_task(GLUE["cola"], [record])
    assert result["beyond_pretraining"] == record["beyond_pretraining"]


@pytest.mark.parametrize("version, head", [("squad1", "independent"), ("squad2", "conditional")])
def test_squad_trains_answers_and_scores(version, head, task_rows, plan_jobs):
    (job,) = plan_jobs(version, head=head, arms=("pretrained",))
    record = run(job)
    assert {"exact", "f1"} <= set(record["metrics"])
    assert ("best_f1" in record["metrics"]) == (version == "squad2")
    answers = read_json(job.folder / "dev.json")
    contexts = {row["id"]: row["context"] for row in read_jsonl(task_rows / version / "dev.jsonl")}
    assert set(answers) == set(contexts) == set(read_json(job.folder / "dev-null-odds.json"))
    assert all(text in contexts[key] for key, text in answers.items())
