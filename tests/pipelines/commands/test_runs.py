"""The command that lists and removes runs: it asks, it stays inside of runs/, it leaves alone what is in use."""

import io
import sys
from pathlib import Path

import pytest

from electra.files import lock_folder
from pipelines.cli import main


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with three runs."""
    monkeypatch.chdir(tmp_path)
    for name in ("pretrain-a/step-20", "pretrain-a.aside-00000000/step-9", "corpus-a/work"):
        (tmp_path / "runs" / name).mkdir(parents=True)
    (tmp_path / "runs" / "pretrain-a" / "step-20" / "file").write_bytes(b"x" * 2_000_000)
    (tmp_path / "kept").mkdir()
    return tmp_path


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_list_names_size_step_and_state(capsys: pytest.CaptureFixture[str]) -> None:
    with lock_folder(Path("runs/corpus-a/work")):
        assert main(["runs"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == ["run", "size", "step"]
    assert lines[1] == ["corpus-a", "0.0", "MB", "in", "use"]
    assert lines[2] == ["pretrain-a", "2.0", "MB", "20"]
    assert lines[3] == ["pretrain-a.aside-00000000", "0.0", "MB", "9", "set", "aside"]


@pytest.mark.parametrize(("answer", "left"), [("y", False), ("yes", False), ("", True), ("n", True)])
def test_it_asks(answer: str, left: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(f"{answer}\n"))
    assert main(["runs", "remove", "pretrain-a.aside-00000000"]) == 0
    assert Path("runs/pretrain-a.aside-00000000").exists() is left and Path("runs/pretrain-a").is_dir()


def test_without_a_terminal_only_the_option_says_yes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    assert main(["runs", "remove", "pretrain-a"]) == 65
    assert "add --yes if you are sure" in capsys.readouterr().err and Path("runs/pretrain-a").is_dir()
    assert main(["runs", "remove", "pretrain-a", "corpus-a", "--yes"]) == 0
    assert [path.name for path in Path("runs").iterdir()] == ["pretrain-a.aside-00000000"]


@pytest.mark.parametrize("name", ["../kept", "..", ".", "", "pretrain-a/step-20", "nobody", "link"])
def test_what_is_no_folder_of_runs_is_refused(name: str, here: Path) -> None:
    Path("runs/link").symlink_to(here / "kept")
    assert main(["runs", "remove", "pretrain-a", name, "--yes"]) == 65
    assert main(["runs", "remove", str(here / "kept"), "--yes"]) == 65
    assert (here / "kept").is_dir() and Path("runs/pretrain-a").is_dir()


@pytest.mark.parametrize("inside", ["", "work"])
def test_a_run_in_use_is_left_alone(inside: str, capsys: pytest.CaptureFixture[str]) -> None:
    with lock_folder(Path("runs/corpus-a") / inside):
        assert main(["runs", "remove", "pretrain-a", "corpus-a", "--yes"]) == 73
    assert "is in use by pid" in capsys.readouterr().err
    assert Path("runs/pretrain-a").is_dir() and Path("runs/corpus-a").is_dir()


def test_checkouts_of_flows_are_runs_too(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("base-1a2b3c4d5e6f", "tiny-1a2b3c4d5e6f"):
        (Path("runs/flows") / name / "runs").mkdir(parents=True)
    with lock_folder(Path("runs/flows/.locks/tiny-1a2b3c4d5e6f")):
        assert main(["runs"]) == 0
        assert main(["runs", "remove", "flows/tiny-1a2b3c4d5e6f", "--yes"]) == 73
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[2] == ["flows/base-1a2b3c4d5e6f", "0.0", "MB"] and lines[3][-2:] == ["in", "use"]
    for name in ("flows", "flows/.locks", "flows/..", "flows/base-1a2b3c4d5e6f/runs"):
        assert main(["runs", "remove", name, "--yes"]) == 65
    assert main(["runs", "remove", "flows/base-1a2b3c4d5e6f", "--yes"]) == 0
    assert [path.name for path in Path("runs/flows").glob("[!.]*")] == ["tiny-1a2b3c4d5e6f"]
