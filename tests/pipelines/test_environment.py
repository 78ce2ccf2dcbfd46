"""The environment of plain tools: `.venv` gives it to every Python, wherever it is started."""

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from pipelines.tracking import recorder
from tests.support.project import ROOT, copy_project, edit, make_venv

ASK = "import json, os; print(json.dumps(dict(os.environ)))"
OURS = {"DO_NOT_TRACK": "true", "MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_WORKERS": "1"}
OURS |= {
    "AWS_MAX_ATTEMPTS": "2",
    "PREFECT_HOME": "{}/.prefect",
    "DVC_SITE_CACHE_DIR": "{}/.dvc-site",
}
OWN = {"PREFECT_HOME": "/x", "PREFECT_PROFILE": "mine", "MLFLOW_WORKERS": "4"}
FRESH = {"HOME": "/", "PATH": os.defpath}
# A user without an entry in passwd, who may read what root may: this Python may lie below root's
# home.
NOBODY = "setpriv --reuid 12345 --regid 12345 --clear-groups".split()
NOBODY += ["--inh-caps", "+dac_read_search", "--ambient-caps", "+dac_read_search"]
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs the right to be somebody else")


@pytest.fixture(scope="module")
def project():
    """A copied project with a `.venv`, where every user of the machine can read it."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        copy = copy_project(Path(folder) / "electra")
        make_venv(copy)
        yield copy


def python(project, code, *before, **variables):
    """Return what a Python of the project's prints, started in another folder with these variables
    and no others.
    """
    command = [*before, str(project / ".venv/bin/python"), "-c", code]
    done = subprocess.run(command, cwd="/", env=variables, capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    return done.stdout.strip()


def variables_of(project, *before, **variables):
    return json.loads(python(project, ASK, *before, **variables))


@pytest.mark.parametrize(
    "given, expected",
    [
        ({}, OURS),
        (OWN, OWN),
        # a profile of another home would hide the login
        ({"PREFECT_PROFILE": "cloud"}, {"PREFECT_PROFILE": ""}),
    ],
)
def test_every_python_has_the_settings_of_the_tools_and_the_users_win(project, given, expected):
    values = variables_of(project, **FRESH, **given)
    for name, value in expected.items():
        assert values.get(name, "") == value.format(project)


def test_warnings_are_no_errors_of_the_tools(project):
    code = "import warnings; warnings.warn('old', DeprecationWarning); import os; print('PYTHONWARNINGS' in os.environ)"
    assert python(project, code, **FRESH, PYTHONWARNINGS="error") == "False"


def test_git_is_that_of_its_folder_also_within_a_hook(project):
    code = "import os, pipelines; print([name for name in os.environ if name.startswith('GIT_')])"
    assert python(project, code, GIT_DIR="/x", GIT_INDEX_FILE="/y", GIT_SSH="z") == "['GIT_SSH']"


def test_another_package_of_the_same_name_is_not_taken_for_this_one(project, tmp_path):
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "pipelines" / "__init__.py").write_text("raise SystemExit('a stranger')")
    code = "import pipelines; print(pipelines.ROOT)"
    assert python(project, code, **FRESH, PYTHONPATH=str(tmp_path)) == str(project)
    assert python(project, code, **FRESH, PYTHONPATH=str(ROOT)) == str(ROOT), (
        "as of a flow's folder"
    )


@needs_root
def test_a_user_without_a_name_and_a_home_has_both(project):
    for given, home in (({}, f"{project}/.home"), ({"HOME": "/own"}, "/own")):
        values = variables_of(project, *NOBODY, PATH=os.defpath, **given)
        assert (values["LOGNAME"], values["HOME"]) == ("uid-12345", home)


def test_a_project_that_was_moved_has_the_paths_of_where_it_is(tmp_path):
    old = copy_project(tmp_path / "old")
    make_venv(old)
    old.rename(tmp_path / "new")
    values = variables_of(tmp_path / "new", **FRESH)
    assert values["PREFECT_HOME"] == f"{tmp_path}/new/.prefect"


def repeat_and_sync(project, name, *before, **variables):
    """Run the smoke model with MLflow in a copy of the project, and send its record."""
    copy = project.parent / name
    shutil.copytree(project, copy, symlinks=True, ignore=shutil.ignore_patterns(".venv"))
    edit(copy / "params.yaml", "tracking: none", "tracking: mlflow")
    make_venv(copy)
    if before:
        subprocess.run(["chown", "-R", "12345:12345", copy], check=True)
    line = "umask 077; cd $1; . .venv/bin/activate; "
    line += "dvc repro pipelines/dvc.yaml:pretrain@smoke && electra sync"
    done = subprocess.run(
        [*before, "sh", "-c", line, "sh", str(copy)],
        env={"PATH": os.defpath, **variables},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return copy


@pytest.mark.slow
@needs_root
def test_dvc_and_its_stages_run_as_a_user_without_a_name(project):
    """As in a container that is started with `--user`, in a plain C locale."""
    copy = repeat_and_sync(project, "other", *NOBODY, LC_ALL="C")
    assert (copy / "mlflow.db").is_file()
    assert not list((copy / "runs" / "tracking").iterdir())


@pytest.mark.slow
def test_a_stage_runs_and_is_recorded_whatever_a_stranger_has_set(project, tmp_path):
    """All at once, as docs/operate.md lists them."""
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "pipelines" / "__init__.py").write_text("raise SystemExit('a stranger')")
    strange = {
        "HOME": str(tmp_path),
        "MLFLOW_TRACKING_URI": "sqlite:///mlflow.db",
        "MLFLOW_EXPERIMENT_NAME": "other",
        "MLFLOW_EXPERIMENT_ID": "7",
        "MLFLOW_RUN_ID": "0" * 32,
        "PREFECT_API_KEY": "pnu_other",
        "PREFECT_PROFILE": "cloud",
        "PYTHONWARNINGS": "error",
        "PYTHONPATH": str(tmp_path),
        "OMP_NUM_THREADS": "64",
    }
    copy = repeat_and_sync(project, "strange", **strange)
    client, experiment = recorder.client(f"sqlite:///{copy}/mlflow.db")
    runs = {run.info.run_name: run.info.status for run in client.search_runs([experiment])}
    assert runs["pretrain@smoke"] == "FINISHED"
