"""The store that machines share. In flows: test_workspace.py."""

import shutil
from pathlib import Path

import pytest

from pipelines.versioning import dvc_store
from pipelines.versioning.dvc_runner import Checkout, StageFailed, repro
from tests.support.project import copy_project, environment, files_of

TARGET = "pipelines/dvc.yaml:corpus@smoke"


def place_of(folder, store):
    settings = f"""[core]\n    no_scm = true\n    remote = s\n['remote "s"']\n    url = {store}\n"""
    (copy_project(folder) / ".dvc" / "config.local").write_text(settings)
    return Checkout(folder, environment(folder), pull=True)


@pytest.mark.slow
def test_what_ran_on_one_machine_is_taken_from_s3_on_another(tmp_path, s3):
    ran = []
    for name in ("first", "second"):
        checkout = place_of(tmp_path / name, "s3://team/store")
        ran.append(repro(TARGET, checkout).ran)
        dvc_store.push(TARGET, checkout, print)
    assert "corpus@smoke" in ran[0] and "corpus@smoke" not in ran[1]
    files = [files_of(tmp_path / name / "build/corpus/smoke") for name in ("first", "second")]
    assert files[0] == files[1] and len(files[0]) > 2
    elsewhere = {"AWS_SECRET_ACCESS_KEY": "", "AWS_ENDPOINT_URL": "http://127.0.0.1:9"}
    with pytest.raises(StageFailed, match=f"store {TARGET}"):
        dvc_store.push(TARGET, checkout.with_variables(elsewhere), print)


@pytest.mark.slow
def test_what_the_lock_promises_and_nobody_has_is_made_again(tmp_path):
    checkout = place_of(tmp_path / "project", "../../store")
    folder = checkout.folder
    repro(TARGET, checkout)
    files = files_of(folder / "build/corpus/smoke")
    locked = (folder / "pipelines/dvc.lock").read_text()
    for path in (".dvc/cache", "build", "runs"):
        shutil.rmtree(folder / path)
    logged = []
    dvc_store.forget_missing(checkout, logged.append)
    assert logged == ["corpus@smoke is made again: neither the cache nor the store has its outputs"]
    dvc_store.restore_entries(folder, lambda path: locked if path.parent.name else "")
    before = dvc_store.parse_yaml(locked, Path("dvc.lock"))
    assert dvc_store.read_yaml(folder / "pipelines/dvc.lock") == before, "a merge loses no entry"
    dvc_store.forget_missing(checkout, print)
    repro(TARGET, checkout)
    assert files_of(folder / "build/corpus/smoke") == files != {}
    dvc_store.push(TARGET, checkout, print)
    shutil.rmtree(folder / ".dvc/cache")
    logged.clear()
    dvc_store.forget_missing(checkout, logged.append)
    assert not logged, "the store has it"
