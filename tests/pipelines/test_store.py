"""The store when it fails: one sentence with what to do, whatever carries the bytes. Its use: test_checkouts.py."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from electra.errors import SourceUnreachable
from pipelines import store


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


def test_objects_go_before_what_promises_them() -> None:
    remote = Remote()
    store._push(remote, "s", {"a"})
    assert remote.said == ["objects", "run cache"]


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
        store._push(remote, "s", {"a", "b"})
    assert "run cache" not in remote.said, "nobody is promised what is not there"


def test_the_exit_code_is_the_stores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: Any) -> str:
        raise SourceUnreachable("the store s", "does not answer")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(store, "keep", refuse)
    assert store.main(str(tmp_path), "pipelines/dvc.yaml:pretrain@x", "pretrain@x") == SourceUnreachable.exit_code
    assert capsys.readouterr().err.startswith("error: the store s: ")
