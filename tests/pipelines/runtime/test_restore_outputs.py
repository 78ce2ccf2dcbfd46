"""A stage that does not reach its end leaves the results that git tracks as they were."""

import subprocess
from pathlib import Path

import pytest

from pipelines.cli import main
from pipelines.runtime import restore_outputs

FILES = ("results/corpus/absent.json", "results/absent/pretrain.csv", "results/report/tables/a.md", "results/x.json")


@pytest.fixture(autouse=True)
def files(here: Path) -> None:
    for file in FILES:
        (here / file).parent.mkdir(parents=True, exist_ok=True)
        (here / file).write_text("as it was")


def forget(here: Path) -> None:
    for file in FILES:
        (here / file).unlink()


def test_what_dvc_deletes_before_a_stage_is_there_again_when_it_fails(here: Path) -> None:
    for words in (["init", "-q"], ["add", "."]):
        subprocess.run(["git", *words], check=True)
    forget(here)
    assert main(["corpus", "absent"]) in {65, 69}
    assert [file for file in FILES if (here / file).exists()] == [FILES[0]], "its own results, and no others"
    restore_outputs.put_back("pretrain", "absent")
    restore_outputs.put_back("report", "")
    assert [(here / file).exists() for file in FILES] == [True, True, True, False]
    assert (here / FILES[1]).read_text() == "as it was"


def test_without_git_nothing_happens(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forget(here)
    restore_outputs.put_back("corpus", "absent")
    monkeypatch.setenv("PATH", str(here))
    restore_outputs.put_back("corpus", "absent")
    assert not any((here / file).exists() for file in FILES)
