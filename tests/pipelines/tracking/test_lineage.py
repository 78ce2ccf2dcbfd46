"""DVC's hashes of what a run reads and writes."""

import os
from pathlib import Path
from typing import Any

from pipelines import tracking
from pipelines.tracking import lineage, uploader
from tests.conftest import copy_project, run
from tests.pipelines.tracking.events import runs


def test_a_run_of_dvc_says_what_it_depends_on(store: Any, tmp_path: Path) -> None:
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
    found = runs(store)
    stage, above = found["pretrain@smoke"], found["dvc repro pretrain@smoke"]
    lock = lineage.dvc_hashes(folder)
    tags = stage.data.tags
    assert tags["data"] == "smoke" and tags["mlflow.user"] == "anna"
    assert tags["mlflow.source.name"] == "python -m pipelines pretrain smoke"
    assert tags["dvc.in.build/tokens/smoke"] == lock["tokens@smoke"]["build/tokens/smoke"]
    assert (
        found["tokens@smoke"].data.tags["dvc.out.build/tokens/smoke"]
        == lock["tokens@smoke"]["build/tokens/smoke"]
    )
    assert [each.dataset.name for each in stage.inputs.dataset_inputs] == ["tokens/smoke"]
    assert {key for key in above.data.metrics if key.startswith("pretrain/")}
    assert tags["mlflow.parentRunId"] == above.info.run_id and above.info.status == "FINISHED"


def test_a_lock_file_in_the_middle_of_a_merge_gives_no_hashes(tmp_path: Path) -> None:
    (tmp_path / "pipelines").mkdir()
    stages = "stages:\n  report:\n    outs:\n    - path: results\n      md5: abc\n"
    (tmp_path / "dvc.lock").write_text(f"<<<<<<< HEAD\n{stages}=======\n{stages}>>>>>>> other\n")
    (tmp_path / "pipelines" / "dvc.lock").write_text(stages)
    assert lineage.dvc_hashes(tmp_path) == {"report": {"results": "abc"}}
