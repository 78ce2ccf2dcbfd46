"""Registered models, through the real command line: versions that name bytes, answer rows, and refuse other bytes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from pipelines import tracking
from pipelines.tracking import lineage, recorder, registry, uploader
from tests.conftest import SMOKE, environment, git_project, run

ONE_TASK = (
    SMOKE.replace("tracking: none", "tracking: mlflow")
    .replace("  smoke: {}\nmodels", "  smoke: {defaults: {epochs: 1, seeds: [1]}}\nmodels")
    .replace("  paper: {}\n", "  paper: {run: [rte], defaults: {}, tasks: {}}\n")
    .replace("arms: [pretrained, scratch]", "arms: [pretrained]")
)
ASK = """
import json, sys, mlflow
for name, rows in json.loads(sys.argv[1]).items():
    print(json.dumps(mlflow.pyfunc.load_model(f"models:/{name}@current").predict(rows)))
"""
ROWS = [{"a": "the old miller keeps a cat", "b": "the miller keeps bread"}, {"a": "a town", "b": "a river"}]


@pytest.mark.slow
def test_networks_are_registered_answer_rows_and_refuse_other_bytes(tmp_path, monkeypatch):
    folder = git_project(tmp_path / "project")
    (folder / "params.yaml").write_text(ONE_TASK)
    store = {"MLFLOW_TRACKING_URI": f"sqlite:///{folder / 'mlflow.db'}"}
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store["MLFLOW_TRACKING_URI"])
    assert "Warning" not in run(folder, "-m", "dvc", "repro", "pipelines/dvc.yaml:glue@smoke", **store).stderr
    uploader.sync(folder / "runs" / tracking.FOLDER)  # what a busy machine had no time for
    mlflow, experiment = recorder.client()
    runs = {run.info.run_name: run for run in mlflow.search_runs([experiment])}
    parent = runs["pretrain@smoke"].data.tags["mlflow.parentRunId"]
    for _ in range(2):  # what has been told once is told again after a crash
        tracking.end_workflow(parent, "FINISHED", folder)
        uploader.sync(folder / "runs" / tracking.FOLDER)

    lock = lineage.dvc_hashes(folder)
    pretrained = {
        f"smoke-{part}": ("pretrain", "build/models/smoke") for part in ("discriminator", "encoder", "generator")
    }
    expected = pretrained | {"smoke-rte-pretrained-seed1": ("glue", "build/glue/smoke")}
    assert {model.name for model in mlflow.search_registered_models()} == set(expected)
    for name, (stage, out) in expected.items():
        (version,) = mlflow.search_model_versions(f"name = '{name}'")
        assert version.tags["dvc.md5"] == lock[f"{stage}@smoke"][out], name
        assert version.tags["mlflow.source.git.commit"] and version.tags["data"]
        assert version.run_id == runs[f"{stage}@smoke"].info.run_id
        assert mlflow.get_model_version_by_alias(name, "current").version == version.version
        kept = Path(version.source.removeprefix("file://"))
        assert kept.is_relative_to(folder / "mlruns") and sum(file.stat().st_size for file in kept.iterdir()) < 20_000

    text = {"smoke-discriminator": ["the old cat"]}  # a registered model's name, and rows
    told = run(folder, "-c", ASK, json.dumps({"smoke-rte-pretrained-seed1": ROWS} | text), **store)
    answers, (judged,) = map(json.loads, told.stdout.splitlines()[-2:])
    assert [set(answer) for answer in answers] == [{"id", "prediction", "probabilities"}] * 2
    assert len(judged["tokens"]) == len(judged["replaced"]) >= 3

    (folder / "build/models/smoke/more.txt").write_text("other bytes")
    last = run(folder, "-c", ASK, json.dumps(text), code=1, **store).stderr.strip().splitlines()[-1]
    assert f"{lock['pretrain@smoke']['build/models/smoke']}, which was registered" in last and "dvc pull" in last


@pytest.mark.slow
def test_processes_that_meet_at_a_new_database_make_it_once(tmp_path: Path) -> None:
    (tmp_path / "mlflow.db.new").write_bytes(b"of a process that was killed")
    code = """
import sys, time, mlflow.store.tracking.sqlalchemy_store
from pathlib import Path
from pipelines.tracking import lineage, recorder, registry
folder = Path(sys.argv[1])
(folder / f"ready-{sys.argv[2]}").touch()
while len(list(folder.glob("ready-*"))) < 2:
    time.sleep(0.001)
print(recorder.client(f"sqlite:///{folder / 'mlflow.db'}")[1])
"""
    begun = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path), name],
            env=environment(Path(recorder.__file__).parents[2]),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name in "ab"
    ]
    ended = [process.communicate(timeout=300) for process in begun]
    assert [process.returncode for process in begun] == [0, 0], ended
    assert len({out for out, _ in ended}) == 1


def test_the_name_of_a_network_says_its_model_and_task() -> None:
    assert registry.name_of("build/models/tiny/discriminator") == "tiny-discriminator"
    assert registry.name_of("build/glue/tiny/cola/pretrained-seed1") == "tiny-cola-pretrained-seed1"
    assert registry.name_of("build/squad/tiny/2.0/pretrained-seed1") == "tiny-squad-2.0-pretrained-seed1"
