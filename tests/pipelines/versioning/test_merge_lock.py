"""Lock files of two branches merge as git merges them, with the driver that `make setup` registers."""

import subprocess

import pytest
from ruamel.yaml import YAML

from pipelines.versioning.merge_lock import merge
from tests.support.project import ROOT, commit, git, read_text

HEAD = "schema: '2.0'\nstages:\n"


def entry(name, number):
    return f"  {name}:\n    cmd: run {name}\n    outs:\n    - path: build/{name}\n      md5: '{number}'\n"


@pytest.mark.parametrize(
    "base, ours, theirs, merged",
    [
        ("a1", "a1 b2", "a1 c3", "a1 b2 c3"),
        ("a1 b1", "a2 b1", "a1 b2", "a2 b2"),
        ("a1 b1", "a1", "a1 b1", "a1"),
        ("a1 b1", "a1 b1", "b1", "b1"),
        ("a1", "a2", "a3", "a2"),
        ("", "a2", "b3", "a2 b3"),
    ],
)
def test_stages_are_united_by_name(base, ours, theirs, merged):
    """Stages are written as their name and the number of their output."""
    *texts, expected = (
        HEAD + "".join(entry(*stage) for stage in stages.split())
        for stages in (base, ours, theirs, merged)
    )
    assert merge(*texts) == expected
    if not base:
        assert merge("", *texts[1:]) == merge(*texts), "a file that both branches have added"


def test_git_merges_two_branches_that_each_ran_another_model(tmp_path):
    git(tmp_path, "init", "-q", "-b", "main")
    for name in (".gitattributes", "pipelines/versioning/merge_lock.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    (command,) = (line for line in read_text(".ci/set-up").splitlines() if "merge.dvc-lock" in line)
    subprocess.run(["bash", "-euc", command], cwd=tmp_path, check=True)
    lock = tmp_path / "pipelines/dvc.lock"
    lock.write_text(HEAD + entry("tokens@x", 1) + entry("tokens@y", 1))
    commit(tmp_path, "Rows")
    for branch, model in (("one", "aa"), ("two", "bb")):
        git(tmp_path, "checkout", "-q", "-b", branch, "main")
        lock.write_text(lock.read_text() + entry(f"pretrain@{model}", 7))
        commit(tmp_path, model)
    git(tmp_path, "merge", "-q", "--no-edit", "one")
    merged = YAML(typ="safe").load(lock.read_text())["stages"]
    assert list(merged) == ["tokens@x", "tokens@y", "pretrain@bb", "pretrain@aa"]
    assert not git(tmp_path, "status", "--porcelain")
