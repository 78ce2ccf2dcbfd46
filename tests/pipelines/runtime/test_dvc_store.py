"""The store when it fails: one sentence with what to do, whatever carries the bytes. In flows: test_workspace.py."""

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from electra.errors import SourceUnreachable
from pipelines.runtime import dvc_store
from tests.conftest import copy_project, files_of, run
from tests.s3_server import S3


class Remote:
    """Stands where DVC stands: takes objects, then the run cache, or fails."""

    def __init__(self, failed: Any = (), error: Exception | None = None) -> None:
        self.config = {"remote": {"s": {"url": "s3://bucket/x"}}, "core": {"remote": "s"}}
        self.said: list[str] = []
        self.cloud = SimpleNamespace(push=self.push)
        self.stage_cache = SimpleNamespace(push=lambda _: self.said.append("run cache"))
        self.failed, self.error = failed, error

    def push(self, made: set[str]) -> Any:
        self.said.append("objects")
        if self.error:
            raise self.error
        return SimpleNamespace(failed=self.failed)


@pytest.mark.parametrize(
    ("remote", "words"),
    [
        (Remote(error=PermissionError("Unable to locate credentials")), "does not answer .*locate credentials"),
        (Remote(error=ConnectionResetError("cut")), "does not answer .*cut"),
        (Remote(failed={"a", "b"}), "did not take 2 files; expected all of them"),
    ],
)
def test_a_store_that_fails_is_a_sentence(remote: Remote, words: str) -> None:
    with pytest.raises(SourceUnreachable, match=rf"the store s \(s3://bucket/x\): {words}.*kept in the cache here"):
        dvc_store._push(remote, "s", {"a", "b"})
    assert "run cache" not in remote.said, "nobody is promised what is not there"


@pytest.mark.slow
def test_what_ran_on_one_machine_is_taken_from_s3_on_another(tmp_path: Path, s3: S3) -> None:
    target = "pipelines/dvc.yaml:corpus@smoke"
    said = []
    for name in ("first", "second"):
        folder = copy_project(tmp_path / name)
        settings = """[core]\n    no_scm = true\n    remote = s\n['remote "s"']\n    url = s3://team/store\n"""
        (folder / ".dvc" / "config.local").write_text(settings)
        for words in (("dvc", "repro", "--pull", target), ("pipelines.runtime.dvc_store", str(folder), target)):
            said.append(run(folder, "-m", *words).stdout)
    assert f"{target} is in the store s" in said[1]
    assert "is cached - skipping run" in said[2] and "Running stage 'pipelines/dvc.yaml:corpus@smoke'" not in said[2]
    made = [files_of(tmp_path / name / "build/corpus/smoke") for name in ("first", "second")]
    assert made[0] == made[1] and len(made[0]) > 2


@pytest.mark.slow
def test_what_the_lock_promises_and_nobody_has_is_made_anew(tmp_path: Path) -> None:
    folder, target = copy_project(tmp_path / "project"), "pipelines/dvc.yaml:corpus@smoke"
    settings = """[core]\n    no_scm = true\n    remote = s\n['remote "s"']\n    url = ../../store\n"""
    (folder / ".dvc" / "config.local").write_text(settings)
    run(folder, "-m", "dvc", "repro", target)
    made = files_of(folder / "build/corpus/smoke")
    for path in (".dvc/cache", "build", "runs"):
        shutil.rmtree(folder / path)
    done = run(folder, "-m", "pipelines.runtime.dvc_store", str(folder)).stdout
    assert done == f"to be made anew, since neither cache nor store has them: {target}\n"
    run(folder, "-m", "dvc", "repro", "--pull", "--allow-missing", target)
    assert files_of(folder / "build/corpus/smoke") == made != {}
    run(folder, "-m", "pipelines.runtime.dvc_store", str(folder), target)
    shutil.rmtree(folder / ".dvc/cache")
    assert run(folder, "-m", "pipelines.runtime.dvc_store", str(folder)).stdout == "", "the store has it"
