"""DVC's hashes of a run's inputs and outputs."""

import os

import pytest

from pipelines import tracking
from pipelines.tracking import lineage, uploader
from tests.support.events import runs
from tests.support.project import commit, copy_project, git, run


@pytest.mark.slow
def test_a_run_of_dvc_says_what_it_depends_on(store, tmp_path):
    """Through the real command line: what docs/operate.md promises of a run's tags."""
    folder = copy_project(tmp_path / "project")
    params = folder / "params.yaml"
    params.write_text(params.read_text().replace("tracking: none", "tracking: mlflow"))
    values = {
        "MLFLOW_TRACKING_URI": os.environ["MLFLOW_TRACKING_URI"],
        "ELECTRA_TAGS": '{"mlflow.user": "anna"}',
    }
    run(folder, "-m", "dvc", "repro", "pipelines/dvc.yaml:pretrain@smoke", **values)
    uploader.sync(folder / "runs" / tracking.FOLDER)  # what a busy machine had no time for
    by_name = runs(store)
    stage = by_name["pretrain@smoke"]
    above = by_name["dvc repro pretrain@smoke"]
    lock = lineage.dvc_hashes(folder)
    tags = stage.data.tags
    assert tags["data"] == "smoke" and tags["mlflow.user"] == "anna"
    assert tags["mlflow.source.name"] == "python -m pipelines pretrain smoke"
    tokens = by_name["tokens@smoke"].data.tags["dvc.out.build/tokens/smoke"]
    assert tags["dvc.in.build/tokens/smoke"] == tokens == lock["tokens@smoke"]["build/tokens/smoke"]
    assert [read.dataset.name for read in stage.inputs.dataset_inputs] == ["tokens/smoke"]
    # of the workflow's first model its numbers and settings are there by their plain names
    assert {"mlm_accuracy", "flops"} <= above.data.metrics.keys() & stage.data.metrics.keys()
    assert above.data.tags["models"] == "smoke" and above.data.params["pretrain.length"] == "16"
    assert above.data.tags["mlflow.note.content"] == tags["mlflow.note.content"]
    files = {file.path for file in store[0].list_artifacts(stage.info.run_id)}
    assert files == {"cards", "curve.csv", "results.json"}
    assert tags["mlflow.parentRunId"] == above.info.run_id and above.info.status == "FINISHED"


def test_a_lock_file_in_the_middle_of_a_merge_gives_no_hashes(tmp_path):
    (tmp_path / "pipelines").mkdir()
    stages = "stages:\n  report:\n    outs:\n    - path: results\n      md5: abc\n"
    (tmp_path / "pipelines" / "dvc.lock").write_text(stages)
    (tmp_path / "dvc.lock").write_text(stages.replace("report", "summary"))
    outs = {"results": "abc"}
    assert lineage.dvc_hashes(tmp_path) == {"report": outs, "summary": outs}
    (tmp_path / "dvc.lock").write_text(f"<<<<<<< HEAD\n{stages}=======\n{stages}>>>>>>> other\n")
    assert lineage.dvc_hashes(tmp_path) == {"report": outs}
    for broken in ("", "[1]", "stages: 3", "stages: {a: []}", "stages: {a: {outs: [{md5: x}]}}"):
        (tmp_path / "dvc.lock").write_text(broken)
        assert lineage.dvc_hashes(tmp_path) == {"report": outs}, broken


def test_a_user_that_the_system_does_not_know_has_a_number(tmp_path, monkeypatch):
    def unknown():
        raise KeyError("getpwuid(): uid not found: 4711")

    monkeypatch.setattr("getpass.getuser", unknown)
    monkeypatch.setattr("os.getuid", lambda: 4711)
    monkeypatch.setattr(lineage, "ROOT", tmp_path)
    git(tmp_path, "init", "-q")  # and nothing is committed
    tags = lineage.common_tags()
    assert tags["mlflow.user"] == "4711" and "mlflow.source.git.commit" not in tags


def test_a_run_says_whether_its_code_is_committed_and_which_gpus_it_has(tmp_path, monkeypatch):
    monkeypatch.setattr(lineage, "ROOT", tmp_path)
    monkeypatch.setattr(lineage, "gpus", lambda *options: [f"H100 {' '.join(options)}"])
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    monkeypatch.setenv(lineage.TAGS, '{"host": "of the flow"}')
    names = ("electra/nn/a.py", "pipelines/a.py", "pipelines/b/c/d.py", "params.yaml", "README.md")
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    git(tmp_path, "init", "-q")
    commit(tmp_path, "all")
    for name in names:
        (tmp_path / name).write_text("changed")
        tags = lineage.common_tags()
        assert tags["git.dirty"] == ("false" if name == "README.md" else "true"), name
        (tmp_path / name).write_text("")
    assert tags["gpu"] == "H100 --id=1" and tags["host"] == "of the flow"
