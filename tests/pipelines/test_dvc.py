"""The two dvc.yaml files: what they name exists, what they select is what params.yaml says, and a copy really runs."""

import os
import re
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from pipelines.cli import COMMANDS
from pipelines.config.params import load
from tests.conftest import ROOT, copy_project, environment, files_of, run, until

EVERY = YAML(typ="safe").load((ROOT / "pipelines" / "dvc.yaml").read_text(encoding="utf-8"))["stages"]
STAGES = {name: each.section for name, each in COMMANDS.items() if each.section is not None}
HASHES = {"corpus_files": "corpora", "tasks_files": "tasks", "tokens_files": "tokens"}  # stages that always run
PIPELINE = {name: definition for name, definition in EVERY.items() if name not in HASHES}
SELECTION = YAML(typ="safe").load((ROOT / "dvc.yaml").read_text(encoding="utf-8"))["stages"]


def stages_run(said: str) -> set[str]:
    """The stages that DVC ran, but for those that always run."""
    found = re.findall(r"Running stage 'pipelines/dvc\.yaml:(.+)'", said)
    return {name for name in found if name.partition("@")[0] not in HASHES}


def dvc(folder: Path, *words: str, code: int | None = 0) -> str:
    done = run(folder, "-m", "dvc", *words, code=code)
    return done.stdout + done.stderr


def test_every_stage_of_the_command_line_is_a_dvc_stage() -> None:
    assert set(EVERY) == {*STAGES, *HASHES} - {"report"}
    for name, section in HASHES.items():
        assert EVERY[name]["foreach"] == f"${{{section}}}" and EVERY[name]["do"]["always_changed"]
        assert EVERY[name]["do"]["cmd"] == f"python -m pipelines inputs {section} ${{key}}"
    for name, definition in PIPELINE.items():
        assert definition["foreach"] == f"${{{STAGES[name]}}}"
        assert definition["do"]["cmd"] == f"python -m pipelines {name} ${{key}}"
        assert (ROOT / "pipelines" / "stages" / f"{name}.py").is_file()


def test_dvcs_site_cache_is_ours_alone(tmp_path: Path) -> None:
    """It holds pickles, and a folder that DVC makes for it is open to all users."""
    project = copy_project(tmp_path / "project")
    dvc(project, "stage", "list", "--all")
    made = [path for path in (project / ".dvc-site").rglob("*") if path.is_dir()]
    assert len([path for path in made if path.parent.name == "repo"]) == 1
    for path in (project / ".dvc-site", *made):
        assert not path.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH), path


def test_numbers_stay_in_git_and_outs_in_the_cache() -> None:
    """A number that git does not have cannot be compared with the last commit."""
    for definition in (*(one["do"] for one in PIPELINE.values()), *SELECTION.values()):
        for kind in ("outs", "metrics", "plots"):
            for out in definition.get(kind, []):
                path, options = (out, {}) if isinstance(out, str) else next(iter(out.items()))
                assert options.get("cache", True) is not path.startswith(("results/", "build/selected")), path
                if definition not in SELECTION.values():
                    assert (kind == "outs") is path.startswith("build/"), f"{path}: switches the run cache off"


def test_dvc_sees_every_stage_of_every_name() -> None:
    """One broken dvc.yaml breaks every DVC command, so this is the test to look at first."""
    listed = {line.split()[0] for line in dvc(ROOT, "stage", "list", "--all").splitlines()}
    params = load(ROOT / "params.yaml")
    for stage, section in STAGES.items():
        for name in getattr(params, section) if section else ():
            assert f"pipelines/dvc.yaml:{stage}@{name}" in listed
    assert "report" in listed
    assert {f"model@{name}" for name in params.run.models} <= listed
    assert {f"variants@{name}" for name in params.run.ablations} <= listed


TARGET = "pipelines/dvc.yaml:pretrain@smoke"


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A small copy of the project whose `dvc repro` was killed and run again, and what that one said."""
    folder = copy_project(tmp_path_factory.mktemp("dvc") / "project")
    params = (folder / "params.yaml").read_text().replace("steps: 20", "steps: 200")
    (folder / "params.yaml").write_text(params)
    command, quiet = [sys.executable, "-m", "dvc", "repro", TARGET], subprocess.DEVNULL
    process = subprocess.Popen(
        command, cwd=folder, env=environment(folder), stdout=quiet, stderr=quiet, start_new_session=True
    )
    until(lambda: process.poll() is not None or list((folder / "runs/pretrain").glob("*/step-*")))
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert not (folder / "build/models/smoke").exists()
    return folder, dvc(folder, "repro", TARGET)


@pytest.fixture
def project(killed: tuple[Path, str]) -> Iterator[Path]:
    """That copy with everything up to date; its own files are put back."""
    folder, files = killed[0], ("params.yaml", "text/a.txt")
    before = {name: (folder / name).read_bytes() for name in files}
    dvc(folder, "repro", TARGET)
    yield folder
    for name, content in before.items():
        (folder / name).write_bytes(content)


@pytest.mark.slow
def test_a_dry_run_before_the_first_tells_of_every_stage(tmp_path: Path) -> None:
    folder = copy_project(tmp_path / "project")
    told = dvc(folder, "repro", "--dry", "--force", TARGET)
    assert stages_run(told) == {"corpus@smoke", "tokens@smoke", "pretrain@smoke"}
    assert not (folder / "build").exists()


@pytest.mark.slow
def test_a_killed_repro_resumes_and_ends_in_the_same_bytes(killed: tuple[Path, str]) -> None:
    folder, said = killed
    assert "Running stage 'pipelines/dvc.yaml:pretrain@smoke'" in said
    assert "Running stage 'pipelines/dvc.yaml:tokens@smoke'" not in said
    assert "resum" in said.lower() or "goes on" in said.lower(), said
    resumed = files_of(folder / "build/models")
    dvc(folder, "repro", "--force", "--single-item", TARGET)
    assert files_of(folder / "build/models") == resumed


@pytest.mark.slow
def test_what_is_up_to_date_is_left_alone(project: Path) -> None:
    assert not stages_run(dvc(project, "repro", TARGET))
    params = (project / "params.yaml").read_text()
    (project / "params.yaml").write_text(params.replace("  paper: {}\n", "  paper: {workers: 1}\n"))
    assert not stages_run(dvc(project, "repro", "--dry", TARGET))
    (project / "params.yaml").write_text(params.replace("1.0e-3", "2.0e-3"))
    assert stages_run(dvc(project, "repro", "--dry", TARGET)) == {"pretrain@smoke"}


@pytest.mark.slow
def test_settings_put_back_train_nothing(project: Path) -> None:
    def made() -> list[dict[str, bytes]]:
        return [files_of(project / name) for name in ("build/models", "results")]

    params, first = (project / "params.yaml").read_text(), made()
    (project / "params.yaml").write_text(params.replace("1.0e-3", "2.0e-3"))
    assert stages_run(dvc(project, "repro", TARGET)) == {"pretrain@smoke"}
    assert first != made()
    (project / "params.yaml").write_text(params)
    said = dvc(project, "repro", TARGET)
    assert not stages_run(said) and "pretrain@smoke' is cached - skipping run" in said
    assert first == made()


@pytest.mark.slow
def test_own_text_that_changes_is_seen(project: Path) -> None:
    with (project / "text/a.txt").open("a") as file:
        file.write("\n\nA new sentence about the miller.")
    target = "pipelines/dvc.yaml:corpus@smoke"
    assert stages_run(dvc(project, "repro", target)) == {"corpus@smoke"}
    assert stages_run(dvc(project, "repro", target)) == set()


@pytest.mark.slow
def test_curves_are_dvc_plots(project: Path) -> None:
    assert "index.html" in dvc(project, "plots", "show", "results/smoke/pretrain.csv")
