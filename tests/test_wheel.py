"""The wheel holds every file of the packages, and works installed in a folder of its own, away from
any checkout.
"""

import shutil
import zipfile

import pytest

import electra
from tests.support.models import write_pretrained
from tests.support.project import ROOT, git, run

pytestmark = pytest.mark.slow
# stages run in a checkout, which has them
OF_THE_CHECKOUT = {"pipelines/dvc.yaml", "pipelines/dvc.lock"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Built from a copy, since setuptools leaves folders next to the sources; no index is asked for
    anything.
    """
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    for package in ("electra", "pipelines"):
        shutil.copytree(
            ROOT / package, source / package, ignore=shutil.ignore_patterns("__pycache__")
        )
    for file in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / file, source)
    options = f"--no-build-isolation --no-deps --no-index --quiet --wheel-dir {folder}"
    run(folder, *f"-m pip wheel {options} {source}".split())
    (built,) = folder.glob("*.whl")
    options = f"--no-deps --no-index --quiet --target {folder}/site"
    run(folder, *f"-m pip install {options} {built}".split())
    return built


def test_the_wheel_has_every_file_of_the_packages(wheel):
    listed = git(ROOT, "ls-files", "electra", "pipelines").split()
    assert set(listed) - OF_THE_CHECKOUT <= set(zipfile.ZipFile(wheel).namelist())


def test_what_is_installed_runs(wheel, tmp_path):
    site = wheel.parent / "site"
    where = {"PYTHONPATH": str(site)}
    command = str(site / "bin" / "electra")
    assert run(tmp_path, command, "--version", **where).stdout == f"electra {electra.__version__}\n"
    assert "Usage: electra predict " in run(tmp_path, command, "predict", "--help", **where).stdout
    write_pretrained(tmp_path)
    program = "import electra; print(electra.__file__, *electra.load('discriminator').embed(['a cat']).shape)"
    printed = run(tmp_path, "-c", program, **where).stdout
    assert printed == f"{site}/electra/__init__.py 1 32\n"
