"""Set-up, lock, continuous integration and releases, with tools that only note what they are asked."""

import fcntl
import json
import os
import re
import runpy
import shutil
import subprocess
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import packages_distributions

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.project import ROOT, commit, git, read_text, run
from tests.support.syntax_trees import imports, parse

WHEELS = runpy.run_path(str(ROOT / ".ci" / "wheels"), run_name="wheels")
PROJECT = tomllib.loads(read_text("pyproject.toml"))["project"]
LOCK = read_text("requirements.lock")
CARRIED = (".ci", "requirements.lock", "pyproject.toml", "pipelines/environment.py")


def normal(requirement):
    """Return a package's name as indexes compare it, with its version."""
    name, _, version = requirement.partition("==")
    return f"{canonicalize_name(name)}=={version.partition('+')[0]}"


def test_lock_has_versions_hashes_and_no_address():
    packages = re.split(r"\n(?=\S)", LOCK.strip())
    entry = r"[A-Za-z0-9._-]+(\[[a-z0-9,]+\])?==[^ ;]+( ; .+)? \\(\n    --hash=sha256:[0-9a-f]{64}( \\)?)+"
    for package in packages:
        assert re.fullmatch(entry, package), package
    locked = {package.split("==")[0]: package.split("==")[1].split()[0] for package in packages}
    assert not {"torch", "triton"} & set(locked)
    assert [name for name in locked if name.startswith(("nvidia-", "cuda"))] == ["nvidia-ml-py"]


@pytest.mark.lock
def test_every_locked_package_has_a_wheel_for_every_python():
    record = json.loads(read_text(".ci/wheels.json"))
    promised = re.findall(r"Python :: (3\.\d+)", " ".join(PROJECT["classifiers"]))
    assert list(record["wheels"]) == list(WHEELS["PYTHONS"]) == promised
    assert PROJECT["requires-python"] == f">={promised[0]},<3.{int(promised[-1][2:]) + 1}"
    pinned = {python: {normal(name) for name in WHEELS["pinned"](python)} for python in promised}
    names = {python: {name.split("==")[0] for name in pinned[python]} for python in promised}
    assert "pendulum" in names["3.12"] - names["3.13"] and "whenever" in names["3.13"]
    assert "pywin32" not in names["3.11"]
    for python, wheels in record["wheels"].items():
        source = {name for name in pinned[python] if name.split("==")[0] in record["from_source"]}
        assert {normal(name) for name in wheels} == pinned[python] - source, f".ci/wheels: {python}"


def test_dependencies_have_lower_bounds_and_cover_the_imports():
    declared = set()
    for extra, lines in {"": PROJECT["dependencies"], **PROJECT["optional-dependencies"]}.items():
        for requirement in map(Requirement, lines):
            lower = [bound for bound in requirement.specifier if bound.operator == ">="]
            assert lower or requirement.name == "fastapi", requirement
            declared |= {canonicalize_name(requirement.name)} if extra != "dev" else set()
    owners = packages_distributions()
    for path, tree in parse("electra", "pipelines").items():
        modules = {name.split(".")[0] for name in imports(tree)} - {"electra", "pipelines"}
        for module in modules - sys.stdlib_module_names:
            packages = {canonicalize_name(name) for name in owners.get(module, [module])}
            assert packages & declared, (path, module)


@pytest.mark.parametrize(
    "schema, file",
    [
        ("compose-spec", "compose.yaml"),
        ("github-workflows", ".github/workflows/test.yml"),
        ("dependabot", ".github/dependabot.yml"),
    ],
)
def test_file_follows_its_schema(schema, file):
    run(ROOT, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}", file)


def test_actions_are_pinned_and_run_targets_of_make():
    workflow = read_text(".github/workflows/test.yml")
    assert re.findall(r"uses: (\S+)", workflow)
    assert not re.findall(r"uses: (?!\S+@[0-9a-f]{40} # v)", workflow)
    (phony,) = re.findall(r"^\.PHONY: (.*)$", read_text("Makefile"), re.M)
    assert set(re.findall(r"\bmake (\w+)", workflow)) <= {*phony.split()}


FAKE = """#!/bin/sh
echo "$(basename "$0") $* user=$PIP_USER target=$PIP_TARGET path=$PYTHONPATH" >> "$LOG"
case "$*" in
  "-m venv "*) mkdir -p "$3/bin" && for tool in python dvc prefect; do cp "$0" "$3/bin/$tool"; done ;;
  "-m pip wheel "*) touch dist/electra.whl ;;
  *token_urlsafe*) echo secret ;;
  "config set "*) mkdir -p .prefect && echo PREFECT_SERVER_API_AUTH_STRING > .prefect/profiles.toml ;;
  "config --local core.no_scm true") echo no_scm > .dvc/config.local ;;
esac
"""


class Setup:
    """A project to set up, with a Python that only notes what it is asked to do."""

    def __init__(self, folder):
        self.folder = folder / "electra"
        self.log = folder / "log"
        self.python = folder / "bin/python3.12"
        (self.folder / ".dvc").mkdir(parents=True)
        (self.folder / "pipelines").mkdir()
        for name in CARRIED:
            copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
            copy(ROOT / name, self.folder / name)
        self.fake("python3.12")

    def fake(self, name):
        """Write a tool that notes its arguments."""
        path = self.python.with_name(name)
        path.parent.mkdir(exist_ok=True)
        path.write_text(FAKE)
        path.chmod(0o755)

    def run(self, *words, **variables):
        self.log.write_text("")
        return self.call(".ci/set-up", self.python, "torch==2.13.0", *words, **variables)

    def call(self, script, *words, **variables):
        values = {"PATH": f"{self.python.parent}:{os.defpath}", "LOG": self.log, **variables}
        return subprocess.run(
            [self.folder / script, *words], env=values, capture_output=True, text=True
        )

    def calls(self):
        return self.log.read_text().splitlines()


@pytest.fixture
def setup(tmp_path):
    return Setup(tmp_path)


def test_set_up_refuses_another_python(setup):
    setup.python.write_text('#!/bin/sh\n[ "$1" = --version ] && echo Python 3.10.13\nexit 1\n')
    done = setup.run()
    assert done.returncode == 69
    assert "is Python 3.10.13; expected Python 3.11, 3.12 or 3.13" in done.stderr


def test_set_up_makes_what_is_missing_and_then_nothing(setup):
    elsewhere = {"PIP_USER": "1", "PIP_TARGET": "/x", "PYTHONPATH": "/x"}
    assert setup.run("https://example.com/cpu", **elsewhere).returncode == 0
    calls = setup.calls()
    assert any(line.startswith("python pipelines/environment.py") for line in calls)
    torch = [line for line in calls if "torch==" in line]
    assert len(torch) == 1 and " --index-url https://example.com/cpu torch==2.13.0 " in torch[0]
    lock = [line for line in calls if "requirements.lock" in line]
    assert len(lock) == 1 and "--no-deps --require-hashes -r requirements.lock" in lock[0]
    assert all(line.endswith(" user=0 target= path=") for line in calls), "led elsewhere"
    done = setup.run()
    assert (done.returncode, done.stdout, setup.calls()) == (0, "", [])
    with (setup.folder / "requirements.lock").open("a") as file:
        file.write("more==1.0\n")
    assert setup.run().returncode == 0
    assert any("pip install" in line for line in setup.calls())


def test_set_ups_of_a_folder_take_turns(setup):
    folder = os.open(setup.folder, os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(setup.run)
        with pytest.raises(TimeoutError):
            waiting.result(1)
        assert setup.calls() == []
        os.close(folder)
        assert "another set-up of this folder is at work" in waiting.result().stdout
    assert setup.calls()


@pytest.mark.parametrize("copied", [False, True])
def test_set_up_replaces_the_environment_of_another_folder(setup, copied):
    setup.run()
    old = setup.folder
    (old / ".venv/bin/old").touch()
    setup.folder = old.with_name("elsewhere")
    if copied:
        shutil.copytree(old, setup.folder)
    else:
        old.rename(setup.folder)
    done = setup.run()
    assert done.returncode == 0 and f"was at {old}: .venv is made again" in done.stdout
    assert not (setup.folder / ".venv/bin/old").exists() and old.exists() == copied
    assert setup.run().stdout == ""


def test_set_up_tells_dvc_whether_there_is_a_repository(setup):
    assert "no git repository here" in setup.run().stdout
    assert any(line.startswith("dvc config --local core.no_scm true") for line in setup.calls())
    git(setup.folder, "init", "-q")
    done = setup.run(GIT_TEST_ASSUME_DIFFERENT_OWNER="1")
    assert done.returncode == 69 and "dubious ownership" in done.stderr
    assert done.stderr.count("\n") == 1 and setup.calls() == []
    assert setup.run().stdout == ""
    (call,) = setup.calls()
    assert call.startswith("dvc config --local --unset core.no_scm ")


def make(folder, *words, **values):
    values = os.environ | values
    return subprocess.run(["make", *words], cwd=folder, env=values, capture_output=True, text=True)


def test_make_takes_the_first_python_that_runs(tmp_path):
    """A version manager's shim of a Python that is not active is found, and fails."""
    (tmp_path / "python3.11").write_text("#!/bin/sh\nexit 127\n")
    (tmp_path / "python3.11").chmod(0o755)
    (tmp_path / "python3.12").symlink_to(sys.executable)
    path = f"{tmp_path}:{os.environ['PATH']}"
    done = make(ROOT, "--dry-run", "setup", "TORCH_INDEX=https://example.com/cpu", PATH=path)
    assert '.ci/set-up "python3.12"' in done.stdout
    assert ' "https://example.com/cpu"\n' in done.stdout


def test_make_refuses_a_path_with_a_space(tmp_path):
    spaced = tmp_path / "my own"
    spaced.mkdir()
    shutil.copy(ROOT / "Makefile", spaced)
    done = make(spaced, "setup")
    assert done.returncode and "has a space in it" in done.stderr
    assert [path.name for path in spaced.iterdir()] == ["Makefile"]


def test_release_dates_the_changelog_and_tags(setup):
    folder = setup.folder
    (folder / "electra").mkdir()
    (folder / "electra/__init__.py").write_text('"""A package."""\n__version__ = "1.0.0"\n')
    (folder / "CHANGELOG.md").write_text("# Changelog\n\n## Unreleased\n\n- News.\n")
    (folder / ".gitignore").write_text("/dist/\n")
    git(folder, "init", "-q", "-b", "main")
    commit(folder, "One")
    git(folder, "config", "user.name", "Tester")
    git(folder, "config", "user.email", "tester@example.com")
    for tool in ("docker", "python", "uv"):
        setup.fake(tool)
    setup.python.with_name("docker").write_text("#!/bin/sh\nexit 1\n")
    assert setup.call(".ci/release", "1.1.0").returncode == 1
    assert git(folder, "status", "--porcelain") == git(folder, "tag") == ""
    setup.fake("docker")
    done = setup.call(".ci/release", "1.1.0")
    assert done.returncode == 0, done.stderr
    assert '__version__ = "1.1.0"\n' in (folder / "electra/__init__.py").read_text()
    changelog = (folder / "CHANGELOG.md").read_text()
    assert re.search(r"## Unreleased\n\n## 1\.1\.0 - 20\d\d-\d\d-\d\d\n\n- News\.\n", changelog)
    assert "electra.whl" in (folder / "dist/SHA256SUMS").read_text()
    assert git(folder, "tag") == "v1.1.0" and git(folder, "status", "--porcelain") == ""
    for version, sentence in (
        ("1.1", "isn't a version"),
        ("1.1.0", "already exists"),
        ("1.2.0", "nothing under Unreleased"),
    ):
        assert sentence in setup.call(".ci/release", version).stderr
    (folder / "new").touch()
    assert "has changes" in setup.call(".ci/release", "1.2.0").stderr
