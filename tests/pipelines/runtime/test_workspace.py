"""A run's own working tree, with real git, DVC and stages: two clones as two machines, one folder as their store."""

import shutil
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from electra.errors import BadConfig
from electra.files import lock_folder
from pipelines.config.settings_file import read
from pipelines.runtime import workspace
from pipelines.runtime.dvc_runner import StageFailed
from pipelines.runtime.workspace import Request
from tests.conftest import environment, git, git_project

ARMS = """
ablations:
  a:
    {title: t, base: {model: smoke, tokens: smoke, data: smoke, recipe: smoke},
     protocol: {tasks: [rte], steps: 10, finetune: {defaults: {epochs: 1}}},
     arms: {one: {}, two: {objective.mask_rate: 0.2}}}
"""
STEPS = {"models.smoke.pretrain.steps": 10}
SHORT = {"length": 16, "batch": 8, "learning_rate": 1e-3, "steps": 9, "warmup": 0}
On = Callable[[Path], None]


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two clones of one project, whose DVC remote is a folder; each names it relative to itself, as people do."""
    folder = tmp_path_factory.mktemp("team")
    origin = git_project(folder / "origin")
    for name in ("a", "b"):
        git(folder, "clone", "--quiet", str(origin), name)
        (folder / name / ".dvc" / "config.local").write_text(
            "[core]\n    remote = store\n['remote \"store\"']\n    url = ../../store\n"
        )
    return folder / "a", folder / "b"


@pytest.fixture
def on(monkeypatch: pytest.MonkeyPatch) -> On:
    """Makes this process a worker in a checkout."""
    from pipelines.flows import steps

    def here(machine: Path) -> None:
        for module in (workspace, steps):
            monkeypatch.setattr(module, "ROOT", machine)
        for key, value in environment(machine).items():
            if key in {"PATH", "PYTHONPATH", "OMP_NUM_THREADS"}:
                monkeypatch.setenv(key, value)

    return here


def experiments(folder: Path) -> dict[str, str]:
    lines = git(folder, "for-each-ref", "--format=%(refname) %(objectname)", "refs/exps").splitlines()
    return {line.split()[0].rpartition("/")[2]: line.split()[1] for line in lines if "/exec/" not in line}


@pytest.mark.slow
def test_a_flow_trains_in_a_working_tree_of_its_own_and_leaves_an_experiment(prefect_server, machines, on):
    from pipelines.flows.training import pretrain

    a, _ = machines
    before = git(a, "rev-parse", "HEAD")
    on(a)
    assert pretrain("smoke", settings=STEPS) == {"pretrain@smoke": "ran"}
    request = Request.read("smoke", "HEAD", STEPS)
    assert request.commit == before and str(request) == f"smoke {before[:8]} steps=10"
    for repository in (a, a.parent / "origin"):  # at home, and where the others see it
        commit = experiments(repository)[request.name]
        assert git(repository, "rev-parse", f"{commit}^") == before
        changed = git(repository, "diff", "--name-only", before, commit).splitlines()
        assert changed == ["params.yaml", "pipelines/dvc.lock"]
    assert git(a, "status", "--porcelain") == "" and not (a / "build").exists(), "the checkout is as it was"
    assert [path.name for path in (a / "runs" / "flows").iterdir()] == [".locks"], "the run's folder is gone"
    assert len(git(a, "worktree", "list").splitlines()) == 1


@pytest.mark.slow
def test_what_one_machine_has_trained_another_takes_from_the_store(prefect_server, machines, on):
    from pipelines.flows.training import pretrain

    a, b = machines
    on(a)
    pretrain("smoke", settings=STEPS)
    request = Request.read("smoke", "HEAD", STEPS)
    on(b)
    assert pretrain("smoke", settings=STEPS) == {"pretrain@smoke": "cached"}
    locks = [git(each, "show", f"{experiments(each)[request.name]}:pipelines/dvc.lock") for each in (a, b)]
    assert YAML(typ="safe").load(locks[0]) == YAML(typ="safe").load(locks[1]), "in whichever order stages ran"
    other = pretrain("smoke", settings={"models.smoke.pretrain.steps": 12})
    assert other == {"pretrain@smoke": "ran"}, "other settings are another run"

    clone = a.parent / "clone"  # of somebody who runs no worker, and takes over what has been found (docs/team.md)
    git(a.parent, "clone", "--quiet", str(a.parent / "origin"), str(clone))
    taking = [
        f"dvc remote add --local --default store {a.parent / 'store'}",
        f"dvc exp pull --no-cache origin {request.name}",
        f"dvc exp branch {request.name} trial",
        "git merge trial",
        "dvc pull pipelines/dvc.yaml:pretrain@smoke",
    ]
    for command in taking:
        done = subprocess.run(
            command.split(), cwd=clone, env=environment(clone), capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{command}: {done.stderr}"
    assert (clone / "build/models/smoke/encoder/model.safetensors").is_file()
    assert '"steps": 10,' in (clone / "build/models/smoke/results.json").read_text()


@pytest.mark.slow
def test_a_wrong_setting_is_refused_before_anything_starts(prefect_server, machines, on):
    from pipelines.flows.training import pretrain

    on(machines[0])
    refs = experiments(machines[0])
    with pytest.raises(StageFailed, match=r"stepz.*steps") as caught:
        pretrain("smoke", settings={"models": {"smoke": {"pretrain": {"stepz": 10}}}})
    assert caught.value.exit_code == 64 and experiments(machines[0]) == refs
    assert [path.name for path in (machines[0] / "runs" / "flows").iterdir()] == [".locks"]


def test_settings_ask_for_a_commit_and_for_names_that_dvc_can_set(machines: tuple[Path, Path], on: On) -> None:
    on(machines[0])
    for settings, revision, words in (
        (STEPS, "", "in the checkout as it stands"),
        ({"models.mini++.pretrain.steps": 1}, "HEAD", r"mini\+\+.*no name that DVC can set"),
        ({"corpora.a.sources.b.files": ["s3://me:key@b/a"]}, "HEAD", "files: holds a URL with a login"),
        ({}, "nowhere", "'nowhere', which is not known here"),
        ({}, "--upload-pack=x", "not known here"),
        ({}, f"--upload-pack={'x' * 26}", "not known here"),  # forty characters, as a hash has
    ):
        with pytest.raises(BadConfig, match=words):
            Request.read("smoke", revision, settings)
    with pytest.raises(BadConfig, match=r"'\.\./\.\./esc'; expected the name of a model"):
        Request.read("../../esc", "HEAD", {})
    assert Request.read("smoke", "HEAD", {}).name == Request.read("smoke", "HEAD", None).name
    assert Request.read("smoke", "HEAD", {}).name != Request.read("smoke", "HEAD", STEPS).name


def test_entries_of_ones_own_stand_in_the_runs_checkout_and_nowhere_in_git(machines: tuple[Path, Path], on: On) -> None:
    on(machines[0])
    own: dict[str, Any] = {
        "corpora": {"mine": {"sources": {"text": {"kind": "local", "files": ["mine/é, b*.txt", "s3://x/y"]}}}},
        "tasks": {
            "mine": {"kind": "own", "tasks": {"x": {"train": "é, {v}: 1.tsv", "dev": "dev.tsv", "labels": ["1", "b"]}}}
        },
        "models": {
            "mine": {"tokens": "smoke", "encoder": "smoke", "pretrain": SHORT},
            "smoke": {"pretrain": {"steps": 10}},
        },
    }
    request = Request.read("mine", "HEAD", own)
    assert str(request).endswith(" more") and len(str(request)) < 150, "a title"
    with workspace.opened(request, print) as place:
        values = read(place.folder / "params.yaml")
        assert {section: values[section]["mine"] for section in own} == {name: own[name]["mine"] for name in own}
        assert values["models"]["smoke"]["pretrain"]["steps"] == 10
        assert workspace.params(place, "mine")["pretrain"]["steps"] == 9
    assert "mine" not in (machines[0] / "params.yaml").read_text()
    assert git(machines[0], "status", "--porcelain") == ""


def test_a_branch_is_the_remotes_and_no_git_is_no_commit(machines: tuple[Path, Path], on: On, tmp_path: Path) -> None:
    a, b = machines
    git(a.parent / "origin", "branch", "trial")
    on(b)
    assert (
        workspace.resolve("trial") == git(b, "rev-parse", "HEAD") == workspace.resolve(git(b, "rev-parse", "HEAD")[:9])
    )
    on(tmp_path)
    assert Request.read("smoke", "HEAD", {}).commit == ""


def test_the_same_run_waits_and_says_for_whom(machines: tuple[Path, Path], on: On) -> None:
    on(machines[1])
    request, said = Request.read("smoke", "HEAD", {}), list[str]()
    held, go = threading.Event(), threading.Event()

    def first() -> None:
        with lock_folder(machines[1] / "runs" / "flows" / ".locks" / request.name):
            held.set()
            go.wait(20)

    thread = threading.Thread(target=first)
    thread.start()
    assert held.wait(20)
    threading.Timer(0.5, go.set).start()
    with workspace.opened(request, said.append) as place:
        assert (place.folder / "params.yaml").is_file()
    thread.join()
    assert len(said) == 1 and "waits for the same run, which is in use by pid" in said[0]
    assert not place.folder.exists()


def test_a_run_that_fails_keeps_its_folder_and_your_own_files_are_linked(machines: tuple[Path, Path], on: On) -> None:
    a, _ = machines
    on(a)
    (a / "mine").mkdir()
    (a / "mine" / "a.txt").write_text("text of mine")
    request = Request.read("smoke", "HEAD", {})
    with pytest.raises(RuntimeError), workspace.opened(request, print) as place:
        values: Any = {"files": ["mine/*.txt", "text/*.txt", "/etc/hostname", "../x", "build/x", "absent/x", "a\nb"]}
        workspace.link_own_files(values, place.folder)
        (place.folder / "runs").mkdir()
        (place.folder / "runs" / "checkpoint").touch()
        raise RuntimeError
    assert (place.folder / "mine" / "a.txt").read_text() == "text of mine"
    assert {path.name for path in place.folder.iterdir() if path.is_symlink()} == {"mine"}
    shutil.rmtree(a / ".git" / "worktrees")  # as in a new container, whose clone is new
    with workspace.opened(request, print) as again:
        assert (again.folder / "runs" / "checkpoint").exists()
        assert git(again.folder, "status", "--porcelain", "--untracked-files=no") == ""
    assert not again.folder.exists() and (a / "mine" / "a.txt").exists()
