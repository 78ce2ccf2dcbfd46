"""Set-up: the promised Pythons, a wheel of every pinned package for each, and a sentence for any
other Python.
"""

import ast
import json
import os
import re
import runpy
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.conftest import ROOT, git

CHECK = runpy.run_path(str(ROOT / ".ci" / "wheels"), run_name="wheels")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def same(name: str) -> str:
    """A package's name as indexes compare it, with its version, whatever the build."""
    package, _, version = name.partition("==")
    return re.sub(r"[-_.]+", "-", package).lower() + "==" + version.partition("+")[0]


def test_every_pinned_package_had_a_wheel_for_every_python_that_is_promised() -> None:
    record = json.loads((ROOT / ".ci" / "wheels.json").read_text())
    promised = [
        line.rpartition(" ")[2] for line in PROJECT["classifiers"] if "Python :: 3." in line
    ]
    assert list(record["wheels"]) == list(CHECK["PYTHONS"]) == promised
    assert PROJECT["requires-python"] == f">={promised[0]},<3.{int(promised[-1][2:]) + 1}"
    for python, wheels in record["wheels"].items():
        asked = {same(each) for each in CHECK["pinned"](python)}
        source = {each for each in asked if each.partition("==")[0] in record["from_source"]}
        assert {same(name) for name in wheels} == asked - source, f"run .ci/wheels: {python}"
        assert all(wheel.endswith(".whl") for wheel in wheels.values())
    assert len(record["from_source"]) == 1


def test_a_package_of_one_python_alone_is_asked_of_that_one() -> None:
    asked = {
        python: {each.partition("==")[0] for each in CHECK["pinned"](python)}
        for python in CHECK["PYTHONS"]
    }
    assert (
        "pendulum" in asked["3.12"] - asked["3.13"] and "whenever" in asked["3.13"] - asked["3.12"]
    )
    assert not any("pywin32" in each for each in asked.values())


def test_every_package_that_is_imported_is_declared() -> None:
    """Those that come only through others go when the others stop to need them."""
    lines = list(PROJECT["dependencies"])
    for name, extra in PROJECT["optional-dependencies"].items():
        lines += extra if name != "dev" else []
    declared = {Requirement(line).name for line in lines}
    owners = packages_distributions()
    imported = set[str]()
    for path in [*(ROOT / "electra").rglob("*.py"), *(ROOT / "pipelines").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                imported.add(node.module.split(".")[0])
    for module in imported - set(sys.stdlib_module_names) - {"electra", "pipelines"}:
        assert {
            name.lower().replace("_", "-") for name in owners.get(module, [module])
        } & declared, module


def test_set_up_names_a_python_that_will_not_do(tmp_path: Path) -> None:
    old = tmp_path / "python3.10"
    old.write_text('#!/bin/sh\n[ "$1" = --version ] && echo Python 3.10.13\nexit 1\n')
    old.chmod(0o755)
    # no .venv is there
    for name in (".ci/set-up", "requirements.lock", "pyproject.toml", "pipelines/environment.py"):
        (tmp_path / "new" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / "new" / name)
    done = subprocess.run(
        [tmp_path / "new/.ci/set-up", old, "torch"], capture_output=True, text=True, check=False
    )
    assert (
        done.returncode == 69
        and "is Python 3.10.13; expected Python 3.11, 3.12 or 3.13" in done.stderr
    )


def test_make_takes_the_first_python_that_runs_and_refuses_a_path_with_a_space(
    tmp_path: Path,
) -> None:
    """A version manager's shim of a Python that is not active is found, and refuses."""
    (tmp_path / "shims").mkdir()
    shim = tmp_path / "shims" / "python3.11"
    shim.write_text("#!/bin/sh\nexit 127\n")
    shim.chmod(0o755)
    (tmp_path / "shims" / "python3.12").symlink_to(sys.executable)
    values = {**os.environ, "PATH": f"{shim.parent}:{os.environ['PATH']}"}
    words = ["make", "--dry-run", "--always-make", "setup"]
    made = subprocess.run(words, cwd=ROOT, env=values, capture_output=True, text=True, check=True)
    assert '.ci/set-up "python3.12"' in made.stdout
    spaced = tmp_path / "my own"
    spaced.mkdir()
    shutil.copy(ROOT / "Makefile", spaced)
    refused = subprocess.run(
        ["make", "setup"], cwd=spaced, capture_output=True, text=True, check=False
    )
    assert (
        refused.returncode
        and "has a space in it" in refused.stderr
        and not list(spaced.glob("*.*"))
    )


FAKE = """#!/bin/sh
echo "$(basename "$0") $* user=$PIP_USER target=$PIP_TARGET path=$PYTHONPATH" >> "$LOG"
case "$*" in
  "-m venv "*) mkdir -p "$3/bin" && for tool in python dvc prefect; do cp "$0" "$3/bin/$tool"; done ;;
  *token_urlsafe*) echo secret ;;
  "config set "*) mkdir -p .prefect && echo PREFECT_SERVER_API_AUTH_STRING > .prefect/profiles.toml ;;
  "config --local core.no_scm true") echo no_scm > .dvc/config.local ;;
esac
"""


class Setup:
    """A project to set up, with a Python that only notes what it is asked to do."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "electra"
        self.log = folder / "log"
        (self.folder / ".dvc").mkdir(parents=True)
        (self.folder / "pipelines").mkdir()
        for name in (".ci", "requirements.lock", "pyproject.toml", "pipelines/environment.py"):
            copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
            copy(ROOT / name, self.folder / name)
        self.python = folder / "python3.12"
        self.python.write_text(FAKE)
        self.python.chmod(0o755)

    def run(self, *words: str, **variables: str) -> "subprocess.CompletedProcess[str]":
        self.log.write_text("")
        command = [self.folder / ".ci/set-up", self.python, "torch==2.13.0", *words]
        values = {"PATH": os.defpath, "LOG": str(self.log), **variables}
        return subprocess.run(command, env=values, capture_output=True, text=True, check=False)

    def asked(self) -> list[str]:
        return self.log.read_text().splitlines()


@pytest.fixture
def setup(tmp_path: Path) -> Setup:
    return Setup(tmp_path)


def test_set_up_makes_what_is_missing_and_then_nothing(setup: Setup) -> None:
    assert setup.run().returncode == 0
    assert any(line.startswith("python pipelines/environment.py") for line in setup.asked())
    done = setup.run()
    assert (done.returncode, done.stdout, setup.asked()) == (0, "", [])
    with (setup.folder / "requirements.lock").open("a") as file:
        file.write("more==1.0\n")
    assert setup.run().returncode == 0
    assert any("pip install" in line for line in setup.asked())


@pytest.mark.parametrize("copied", [False, True])
def test_a_moved_or_copied_project_gets_an_environment_of_its_own(
    setup: Setup, copied: bool
) -> None:
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


def test_nothing_of_the_callers_leads_pip_elsewhere(setup: Setup) -> None:
    setup.run(PIP_USER="1", PIP_TARGET="/elsewhere", PYTHONPATH="/elsewhere")
    assert all(line.endswith(" user=0 target= path=") for line in setup.asked())


def test_torch_comes_from_the_index_that_is_named(setup: Setup) -> None:
    setup.run("https://example.com/cpu")
    torch = [line for line in setup.asked() if "torch==" in line]
    assert [
        "-m pip install --quiet --index-url https://example.com/cpu torch==2.13.0" in line
        for line in torch
    ] == [True]
    words = ["make", "--dry-run", "setup", "TORCH_INDEX=https://example.com/cpu"]
    printed = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert ' "https://example.com/cpu"\n' in printed


def test_a_folder_without_git_is_told_to_dvc_and_a_clone_is_not(setup: Setup) -> None:
    done = setup.run()
    assert "no git repository here" in done.stdout
    assert [
        line for line in setup.asked() if line.startswith("dvc config --local core.no_scm true")
    ]
    git(setup.folder, "init", "-q")
    assert setup.run().stdout == ""
    assert [line.partition(" user")[0] for line in setup.asked()] == [
        "dvc config --local --unset core.no_scm"
    ]


def test_a_repository_that_git_does_not_trust_is_not_taken_for_none(setup: Setup) -> None:
    git(setup.folder, "init", "-q")
    done = setup.run(GIT_TEST_ASSUME_DIFFERENT_OWNER="1")
    assert (
        done.returncode == 69
        and "dubious ownership" in done.stderr
        and done.stderr.count("\n") == 1
    )
    assert not [line for line in setup.asked() if "no_scm" in line]
