"""Set-up: the promised Pythons, a wheel of every pinned package for each, and a sentence for any other Python."""

import json
import os
import re
import runpy
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

from tests.conftest import ROOT

CHECK = runpy.run_path(str(ROOT / ".ci" / "wheels"), run_name="wheels")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def same(name: str) -> str:
    """A package's name as indexes compare it, with its version, whatever the build."""
    package, _, version = name.partition("==")
    return re.sub(r"[-_.]+", "-", package).lower() + "==" + version.partition("+")[0]


def test_every_pinned_package_had_a_wheel_for_every_python_that_is_promised() -> None:
    record = json.loads((ROOT / ".ci" / "wheels.json").read_text())
    promised = [line.rpartition(" ")[2] for line in PROJECT["classifiers"] if "Python :: 3." in line]
    assert list(record["wheels"]) == list(CHECK["PYTHONS"]) == promised
    assert PROJECT["requires-python"] == f">={promised[0]},<3.{int(promised[-1][2:]) + 1}"
    for python, wheels in record["wheels"].items():
        asked = {same(each) for each in CHECK["pinned"](python)}
        source = {each for each in asked if each.partition("==")[0] in record["from_source"]}
        assert {same(name) for name in wheels} == asked - source, f"run .ci/wheels: {python}"
        assert all(wheel.endswith(".whl") for wheel in wheels.values())
    assert len(record["from_source"]) == 1


def test_a_package_of_one_python_alone_is_asked_of_that_one() -> None:
    asked = {python: {each.partition("==")[0] for each in CHECK["pinned"](python)} for python in CHECK["PYTHONS"]}
    assert "pendulum" in asked["3.12"] - asked["3.13"] and "whenever" in asked["3.13"] - asked["3.12"]
    assert not any("pywin32" in each for each in asked.values())


def test_set_up_names_a_python_that_will_not_do(tmp_path: Path) -> None:
    old = tmp_path / "python3.10"
    old.write_text('#!/bin/sh\n[ "$1" = --version ] && echo Python 3.10.13\nexit 1\n')
    old.chmod(0o755)
    done = subprocess.run([ROOT / ".ci/set-up", old, "torch"], capture_output=True, text=True, check=False)
    assert done.returncode == 69 and "is Python 3.10.13; expected Python 3.11, 3.12 or 3.13" in done.stderr


def test_make_takes_the_first_python_that_runs_and_refuses_a_path_with_a_space(tmp_path: Path) -> None:
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
    refused = subprocess.run(["make", "setup"], cwd=spaced, capture_output=True, text=True, check=False)
    assert refused.returncode and "has a space in it" in refused.stderr and not list(spaced.glob("*.*"))
