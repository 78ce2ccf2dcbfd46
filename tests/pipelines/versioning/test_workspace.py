"""A run's own working tree, with real git, DVC and stages: two clones as two machines, one folder
as their store.
"""

import contextlib
import re
import shutil
import subprocess
import threading

import pytest

from electra.errors import BadConfig, UserError
from electra.files import lock_folder
from pipelines.config.settings_file import read
from pipelines.versioning import workspace
from pipelines.versioning.dvc_runner import StageFailed
from pipelines.versioning.workspace import Request
from tests.support.project import commit, environment, git, git_project

STEPS = {"models.smoke.pretrain.steps": 10}
SHORT = {"length": 16, "batch": 8, "learning_rate": 1e-3, "steps": 9, "warmup": 0}


@pytest.fixture(scope="module")
def machines(tmp_path_factory):
    """Two clones of one project, whose DVC remote is a folder; each names it relative to itself, as
    people do.
    """
    folder = tmp_path_factory.mktemp("team")
    origin = git_project(folder / "origin")
    for name in ("a", "b"):
        git(folder, "clone", "--quiet", str(origin), name)
        remote = "[core]\n    remote = store\n['remote \"store\"']\n    url = ../../store\n"
        (folder / name / ".dvc" / "config.local").write_text(remote)
    return folder / "a", folder / "b"


@pytest.fixture
def on(monkeypatch):
    """Makes this process a worker in a checkout."""
    from pipelines.flows import steps

    def here(machine):
        for module in (workspace, steps):
            monkeypatch.setattr(module, "ROOT", machine)
        for key, value in environment(machine).items():
            if key in {"PATH", "PYTHONPATH", "OMP_NUM_THREADS"}:
                monkeypatch.setenv(key, value)

    return here


def experiments(folder):
    """Return the commits of a repository's experiments by name."""
    printed = git(folder, "for-each-ref", "--format=%(refname) %(objectname)", "refs/exps")
    return dict(re.findall(r"^refs/exps/(?!exec/).*/(.+) (.+)$", printed, re.M))


@pytest.mark.slow
def test_a_flow_trains_in_a_working_tree_of_its_own_and_leaves_an_experiment(
    prefect_server, machines, on
):
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
        assert changed == ["params.yaml", "pipelines/dvc.lock", "results/smoke/pretrain.json"]
    assert git(a, "status", "--porcelain") == "" and not (a / "build").exists()
    assert [path.name for path in (a / "runs" / "flows").iterdir()] == [".locks"]


@pytest.mark.slow
def test_what_one_machine_has_trained_another_takes_from_the_store(prefect_server, machines, on):
    from pipelines.flows.training import pretrain

    a, b = machines
    on(a)
    pretrain("smoke", settings=STEPS)
    request = Request.read("smoke", "HEAD", STEPS)
    on(b)
    assert pretrain("smoke", settings=STEPS) == {"pretrain@smoke": "cached"}
    first, second = (
        git(clone, "show", f"{experiments(clone)[request.name]}:pipelines/dvc.lock")
        for clone in (a, b)
    )
    assert sorted(first.splitlines()) == sorted(second.splitlines()), "whatever ran first"
    other = pretrain("smoke", settings={"models.smoke.pretrain.steps": 12})
    assert other == {"pretrain@smoke": "ran"}, "other settings are another run"

    # of somebody who runs no worker, and takes over what has been found (docs/team.md)
    clone = a.parent / "clone"
    git(a.parent, "clone", "--quiet", str(a.parent / "origin"), str(clone))
    taking = [
        f"dvc remote add --local --default store {a.parent / 'store'}",
        f"dvc exp pull --no-cache origin {request.name}",
        f"dvc exp branch {request.name} trial",
        "git merge trial",
        "dvc pull pipelines/dvc.yaml:pretrain@smoke",
    ]
    for command in taking:
        subprocess.run(command.split(), cwd=clone, env=environment(clone), check=True)
    assert (clone / "build/models/smoke/encoder/model.safetensors").is_file()
    assert '"steps": 10,' in (clone / "build/models/smoke/results.json").read_text()


def test_settings_ask_for_a_commit_and_hold_values_alone(machines, on):
    on(machines[0])
    for settings, revision, words in (
        (STEPS, "", "settings: need a commit"),
        ({"corpora.a.sources.b.files": ["s3://me:key@b/a"]}, "HEAD", "files: a URL's login"),
        ({"models": {"smoke.pretrain.threads": "${HOME}"}}, "HEAD", r"threads: holds \$\{…\}"),
        ({}, "nowhere", "'nowhere' is not known here"),
        ({}, f"--upload-pack={'x' * 26}", "not known here"),  # forty characters, as a hash has
    ):
        with pytest.raises(BadConfig, match=words):
            Request.read("smoke", revision, settings)
    with pytest.raises(BadConfig, match=r"'\.\./\.\./esc', should be the name of a model"):
        Request.read("../../esc", "HEAD", {})
    assert Request.read("smoke", "HEAD", {}).name == Request.read("smoke", "HEAD", None).name
    assert Request.read("smoke", "HEAD", {}).name != Request.read("smoke", "HEAD", STEPS).name


def test_settings_are_written_as_they_are(tmp_path):
    path = tmp_path / "params.yaml"
    path.write_text("# a comment\na:\n  b: 1  # another\nlist: [1]\nflow: {x: {y: 1}}\n")
    values = {"a.b": "1e-3", "a.c": 1e-3, "list": [True, None, "on"], "new.x++.y": {}}
    values |= {"flow.x.y": "1:30", "flow.x.z": ["? x"]}
    workspace.write_settings(path, values)
    assert path.read_text() == (
        "# a comment\na:\n  b: '1e-3' # another\n  c: 0.001\n"
        "list:\n- true\n- \n- on\nflow:\n  x:\n    y: 1:30\n    z:\n    - '? x'\n"
        "new:\n  x++:\n    y: {}\n"
    )
    assert read(path)["flow"] == {"x": {"y": "1:30", "z": ["? x"]}}
    with pytest.raises(BadConfig, match=r"settings\.a\.b\.d: b is a value"):
        workspace.write_settings(path, {"a.b.d": 1})
    for content, fault in (
        (b"- a\n", "should hold sections"),
        (b"a: 1\na: 2\n", "is not YAML"),
        (b"\xff\n", "is not YAML"),
    ):
        path.write_bytes(content)
        with pytest.raises(BadConfig, match=f"params.yaml: {fault}"):
            workspace.write_settings(path, {"a.b": 1})


@pytest.mark.parametrize("key, value", [("stepz", 10), ("learning_rate", "1e-3")])
def test_a_wrong_setting_is_refused_before_anything_starts(machines, on, key, value):
    on(machines[0])
    request = Request.read("smoke", "HEAD", {"models": {"smoke": {"pretrain": {key: value}}}})
    with pytest.raises(StageFailed, match=key) as caught, workspace.opened(request, print):
        pass
    assert caught.value.exit_code == 64
    assert not (machines[0] / "runs" / "flows" / request.name).exists()


def test_entries_of_ones_own_stand_in_the_runs_clone_and_nowhere_in_git(machines, on):
    on(machines[0])
    text = {"kind": "local", "files": ["mine/é, b*.txt", "s3://x/y"]}
    model = {"tokens": "smoke", "encoder": "smoke", "pretrain": SHORT}
    settings = {
        "corpora": {"mine": {"sources": {"text": text}}},
        "models": {"mine": model, "smoke": {"pretrain": {"steps": 10}}},
    }
    request = Request.read("mine", "HEAD", settings)
    assert str(request).endswith(" more"), "a title"
    with workspace.opened(request, print) as place:
        values = read(place.folder / "params.yaml")
        for section in settings:
            assert values[section]["mine"] == settings[section]["mine"]
        assert values["models"]["smoke"]["pretrain"]["steps"] == 10
        assert workspace.params(place, "mine")["pretrain"]["steps"] == 9
    assert "mine" not in (machines[0] / "params.yaml").read_text()
    assert git(machines[0], "status", "--porcelain") == ""


def test_branches_and_tags_are_the_remotes_and_head_is_ours_but_in_a_container(
    machines, on, monkeypatch
):
    a, b = machines
    origin = a.parent / "origin"
    on(b)
    here = git(b, "rev-parse", "HEAD")
    git(origin, "checkout", "--quiet", "-b", "trial")
    (origin / "new").touch()
    commit(origin, "Two")
    newest = git(origin, "rev-parse", "HEAD")
    git(origin, "tag", "--annotate", "v1", "--message", "one")
    assert workspace.resolve("trial") == workspace.resolve("v1") == newest
    assert workspace.resolve(here[:9]) == workspace.resolve("HEAD") == here
    monkeypatch.setenv(workspace.WORKER_CLONE, str(origin))  # whose HEAD is now the branch's
    assert workspace.resolve("HEAD") == newest
    with workspace.opened(Request.read("smoke", "v1", {}), print) as place:  # fetched
        assert (place.folder / "new").exists()
        assert git(place.folder, "rev-parse", "HEAD") == newest
    git(origin, "checkout", "--quiet", "main")


def test_no_git_is_no_commit_and_a_git_that_fails_is_an_error(tmp_path, on, monkeypatch):
    on(tmp_path)
    assert Request.read("smoke", "HEAD", {}).commit == ""
    with pytest.raises(BadConfig, match="'v1', but git does not track this folder"):
        Request.read("smoke", "v1", {})
    git(tmp_path, "init", "--quiet")
    assert Request.read("smoke", "HEAD", {}).commit == "", "within somebody's repository"
    (tmp_path / ".git" / "config").write_text("[core\n")
    with pytest.raises(UserError, match=r"git ls-files: .*config"):
        Request.read("smoke", "HEAD", {})
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UserError, match=r"git cannot be started \(No such file or directory\)"):
        Request.read("smoke", "HEAD", {})


@pytest.mark.slow
def test_a_project_below_the_top_of_a_shallow_clone_is_run_and_saved(tmp_path, on):
    origin = tmp_path / "origin"
    shutil.rmtree(git_project(origin / "sub") / ".git")
    git(origin, "init", "--quiet", "--initial-branch", "main")
    commit(origin, "One")
    (origin / "two").touch()
    commit(origin, "Two")
    git(tmp_path, "clone", "--quiet", "--depth", "1", f"file://{origin}", "clone")
    on(tmp_path / "clone" / "sub")
    request = Request.read("smoke", "HEAD", STEPS)
    with workspace.opened(request, print) as place:
        assert place.folder.name == "sub"
        (place.folder / "results").mkdir()
        (place.folder / "results" / "a.json").write_text("{}")
        workspace.save_experiment(place, request, print)
    for repository in (tmp_path / "clone", origin):
        saved = experiments(repository)[request.name]
        changed = git(repository, "diff", "--name-only", "HEAD", saved).splitlines()
        assert changed == ["sub/params.yaml", "sub/results/a.json"]


def test_an_experiment_that_origin_does_not_take_stays_here_with_a_warning(
    machines, on, monkeypatch
):
    on(machines[0])
    monkeypatch.setattr(workspace, "_origin", lambda: "absent")
    request = Request.read("smoke", "HEAD", {})
    logged = []
    with workspace.opened(request, print) as place:
        workspace.save_experiment(place, request, logged.append)
    warning, _ = logged
    assert warning.startswith("warning: ") and f"`dvc exp push origin {request.name}`" in warning
    assert request.name in experiments(machines[0])


def test_the_same_run_waits_and_says_for_whom(machines, on):
    on(machines[1])
    request = Request.read("smoke", "HEAD", {})
    logged = []
    first = contextlib.ExitStack()
    first.enter_context(lock_folder(machines[1] / "runs/flows/.locks" / request.name))
    threading.Timer(0.5, first.close).start()
    with workspace.opened(request, logged.append):
        pass
    (line,) = logged
    assert "waits for the same run" in line and "in use by pid" in line


def test_a_run_that_fails_keeps_its_folder_and_your_own_files_are_linked(machines, on):
    a, _ = machines
    on(a)
    (a / "mine").mkdir()
    (a / "mine" / "a.txt").write_text("text of mine")
    request = Request.read("smoke", "HEAD", {})
    with pytest.raises(RuntimeError), workspace.opened(request, print) as place:
        outside = ["/etc/hostname", "../x", "build/x", "absent/x", "a\nb"]
        values = {"files": ["mine/*.txt", "text/*.txt", *outside]}
        workspace.link_untracked_files(values, place.folder)
        (place.folder / "runs").mkdir()
        (place.folder / "runs" / "checkpoint").touch()
        raise RuntimeError
    assert (place.folder / "mine" / "a.txt").read_text() == "text of mine"
    assert {path.name for path in place.folder.iterdir() if path.is_symlink()} == {"mine"}
    shutil.rmtree(place.folder / ".git")  # as in a new container, whose clone is new
    with workspace.opened(request, print) as again:
        assert (again.folder / "runs" / "checkpoint").exists()
        assert git(again.folder, "status", "--porcelain", "--untracked-files=no") == ""
    assert not again.folder.exists() and (a / "mine" / "a.txt").exists()


def test_the_next_run_removes_a_finished_folder_once_mlflow_has_all_of_it(machines, on):
    a, _ = machines
    on(a)
    with workspace.opened(Request.read("smoke", "HEAD", {}), print) as place:
        unsent = place.folder / "runs" / "tracking" / "a"
        unsent.mkdir(parents=True)
    with workspace.opened(Request.read("smoke", "HEAD", {}, "part"), print):
        assert place.folder.exists()
    shutil.rmtree(unsent)
    with workspace.opened(Request.read("smoke", "HEAD", {}, "part"), print):
        assert not place.folder.exists()
