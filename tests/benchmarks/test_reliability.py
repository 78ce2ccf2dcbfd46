"""That the campaign of attacks would see a fault: the model of a disk, and what counts as a sentence."""

import importlib
import random
from pathlib import Path

import pytest

from benchmarks.reliability import power
from benchmarks.reliability.world import Ended


def states(tmp_path: Path, *changes: tuple[str, tuple[Path, ...], object]) -> list[dict[str, bytes]]:
    """What many power cuts leave of a folder after these changes."""
    root = tmp_path / "root"
    root.mkdir()
    (root / "file").write_bytes(b"old")
    disk = power.Disk(root)
    for change in changes:
        disk.do(*change)
    for seed in range(200):
        disk.cut(tmp_path / f"cut-{seed}", random.Random(seed))
    return [power.contents(tmp_path / f"cut-{seed}") for seed in range(200)]


@pytest.mark.parametrize("synced", [False, True])
def test_a_rename_of_data_that_was_not_synced_may_leave_an_empty_file(tmp_path: Path, synced: bool) -> None:
    root = tmp_path / "root"
    new, file = root / "new", root / "file"
    sync = [("fsync", (new,), None)] if synced else []
    written = [("create", (new,), True), ("write", (new,), (0, b"data")), *sync, ("rename", (new, file), None)]
    found = [state["file"] for state in states(tmp_path, *written)]
    assert {b"old", b"data"} <= set(found)
    assert (set(found) == {b"old", b"data"}) == synced
    assert (b"\0\0\0\0" in found) != synced


def test_what_was_synced_with_its_folder_is_there(tmp_path: Path) -> None:
    root = tmp_path / "root"
    new, file = root / "new", root / "file"
    written = [("create", (new,), True), ("write", (new,), (0, b"data")), ("fsync", (new,), None)]
    written += [("rename", (new, file), None), ("fsync", (root,), None)]
    assert states(tmp_path, *written) == [{"file": b"data"}] * 200


def test_a_sentence_has_a_code_of_its_own_and_no_traceback() -> None:
    importlib.import_module("pipelines.repro")  # whose StageFailed has no code of its own
    sentence = "error: a file: is damaged; run the stage again\n"
    assert Ended(74, sentence, 0.0).refused
    assert not Ended(74, f"Traceback (most recent call last):\n{sentence}", 0.0).refused
    assert not Ended(70, "error: this is a bug; the lines above say where\n", 0.0).refused
    assert not Ended(1, sentence, 0.0).refused
    assert not Ended(74, "", 0.0).refused
