"""The wheel holds every file of the packages, and works installed in a folder of its own, away from
any checkout.
"""

import shutil
import zipfile

import pytest

import electra
from tests.conftest import ROOT, git, run
from tests.electra.made_up_models import write_pretrained

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
    alone = ["--no-deps", "--no-index", "--quiet"]
    run(
        folder,
        "-m",
        "pip",
        "wheel",
        "--no-build-isolation",
        *alone,
        "--wheel-dir",
        str(folder),
        str(source),
    )
    (built,) = folder.glob("*.whl")
    run(folder, "-m", "pip", "install", *alone, "--target", str(folder / "site"), str(built))
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
    assert run(tmp_path, "-c", program, **where).stdout.split() == [
        str(site / "electra" / "__init__.py"),
        "1",
        "32",
    ]
