"""The command that lists and removes runs: it asks, it stays inside of runs/, it leaves alone what
is in use.
"""

import io
import os
import sys
from pathlib import Path

import pytest

from electra.files import lock_folder
from electra.storage.run_dir import name_run


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """A working folder with some runs."""
    monkeypatch.chdir(tmp_path)
    for name in (
        "pretrain/1a2b3c4d/step-20",
        "pretrain/1a2b3c4d.old/step-9",
        "corpus/5e6f7a8b",
        "finetune/77aa1122",
        "tracking/waits-for-mlflow",
    ):
        (tmp_path / "runs" / name).mkdir(parents=True)
    (tmp_path / "runs/pretrain/1a2b3c4d/step-20/file").write_bytes(b"x" * 2_000_000)
    (tmp_path / "runs/pretrain/1a2b3c4d.old/bad-step-8").mkdir()
    name_run(tmp_path / "runs/pretrain/1a2b3c4d", "a", {})
    (tmp_path / "kept").mkdir()


class Terminal(io.StringIO):
    def isatty(self):
        return True


def list_runs(run_command):
    """Return the lines of the list, with one space between words."""
    return [" ".join(line.split()) for line in run_command("runs").splitlines()]


def test_the_list_names_size_step_and_state_and_writes_nothing(run_command):
    lock = Path("runs/pretrain/1a2b3c4d/.lock")
    lock.touch()
    with lock_folder(Path("runs/corpus/5e6f7a8b")):
        assert list_runs(run_command) == [
            "run entry size step",
            "corpus/5e6f7a8b 0.0 MB in use",
            "finetune 0.0 MB 1 run",
            "pretrain/1a2b3c4d a 2.0 MB 20",
            "pretrain/1a2b3c4d.old 0.0 MB 9 archived, holds damaged checkpoints",
        ]
    assert lock.read_bytes() == b""


def test_runs_on_a_disk_that_is_not_mounted_are_not_taken_for_none(refuse):
    Path("runs").rename("elsewhere")
    Path("runs").symlink_to("scratch/runs")
    for command in ("runs", "sync"):
        assert "leads to scratch/runs, which is not there" in refuse(69, command)


def test_control_characters_of_names_are_shown_and_not_obeyed(run_command):
    (run := Path(os.fsdecode(b"runs/pretrain/\x1b[2J\xff"))).mkdir()
    name_run(run, "\x1b[31mred", {})
    report = run_command("runs")
    report += run_command("runs remove pretrain/\x1b[2J\udcff pretrain/\x1b[2J\udcff --yes")
    assert r"pretrain/\x1b[2J\udcff" in report and r"\x1b[31mred" in report
    assert "\x1b" not in report and not run.exists()


def test_remove_archived_removes_what_was_archived(run_command):
    run_command("runs remove --archived --yes")
    assert [path.name for path in Path("runs/pretrain").iterdir()] == ["1a2b3c4d"]
    report = run_command("runs remove --archived --yes")
    assert report == "there are no archived runs\n"


@pytest.mark.parametrize("answer, left", [("y", False), ("", True)])
def test_it_asks(answer, left, monkeypatch, run_command):
    monkeypatch.setattr(sys, "stdin", Terminal(f"{answer}\n"))
    report = run_command("runs remove pretrain/1a2b3c4d.old")
    assert ("nothing was removed" in report) == left
    assert Path("runs/pretrain/1a2b3c4d.old").exists() == left
    assert Path("runs/pretrain/1a2b3c4d").is_dir()


def test_without_a_terminal_only_the_option_says_yes(monkeypatch, run_command, refuse):
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    assert "add --yes if you are sure" in refuse(65, "runs remove pretrain/1a2b3c4d")
    assert Path("runs/pretrain/1a2b3c4d").is_dir()
    assert "name the runs to remove" in refuse(64, "runs remove")
    run_command("runs remove pretrain/1a2b3c4d corpus/5e6f7a8b --yes")
    assert [path.name for path in Path("runs").glob("[!ft]*/*")] == ["1a2b3c4d.old"]


@pytest.mark.parametrize(
    "name", ["../kept", "..", ".", "", "pretrain/1a2b3c4d/step-20", "link", "flows", "flows/.locks"]
)
def test_what_is_no_folder_of_runs_is_refused(name, refuse):
    Path("runs/flows/.locks").mkdir(parents=True)
    Path("runs/link").symlink_to("../kept")
    assert "there is no such run; `electra runs` lists them" in refuse(
        65, f"runs remove pretrain/1a2b3c4d '{name}' --yes"
    )
    assert Path("kept").is_dir() and Path("runs/pretrain/1a2b3c4d").is_dir()


@pytest.mark.parametrize("inside", ["", "unit-00000"])
def test_a_run_in_use_is_left_alone(inside, refuse):
    with lock_folder(Path("runs/corpus/5e6f7a8b") / inside):
        assert "is in use by pid" in refuse(
            73, "runs remove pretrain/1a2b3c4d corpus/5e6f7a8b --yes"
        )
    assert Path("runs/pretrain/1a2b3c4d").is_dir() and Path("runs/corpus/5e6f7a8b").is_dir()


def test_checkouts_of_flows_are_runs_too(run_command, refuse):
    for name in ("base-1a2b3c4d5e6f", "tiny-1a2b3c4d5e6f"):
        (Path("runs/flows") / name / "runs").mkdir(parents=True)
    with lock_folder(Path("runs/flows/.locks/tiny-1a2b3c4d5e6f")):
        assert list_runs(run_command)[3:5] == [
            "flows/base-1a2b3c4d5e6f 0.0 MB",
            "flows/tiny-1a2b3c4d5e6f 0.0 MB in use",
        ]
        refuse(73, "runs remove flows/tiny-1a2b3c4d5e6f --yes")
    refuse(65, "runs remove flows/base-1a2b3c4d5e6f/runs --yes")
    run_command("runs remove flows/base-1a2b3c4d5e6f --yes")
    assert [path.name for path in Path("runs/flows").glob("[!.]*")] == ["tiny-1a2b3c4d5e6f"]
