"""A short campaign of attacks, and that it would see a fault: the model of a disk, what counts as a
sentence.
"""

import importlib
import json
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.reliability import __main__ as campaign
from benchmarks.reliability import power
from benchmarks.reliability.world import Ended, Verdict, World, outputs
from tests.conftest import ROOT, environment


def states(
    tmp_path: Path, *changes: tuple[str, tuple[Path, ...], object]
) -> list[dict[str, bytes]]:
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
def test_a_rename_of_data_that_was_not_synced_may_leave_an_empty_file(
    tmp_path: Path, synced: bool
) -> None:
    root = tmp_path / "root"
    new, file = root / "new", root / "file"
    sync = [("fsync", (new,), None)] if synced else []
    written = [
        ("create", (new,), True),
        ("write", (new,), (0, b"data")),
        *sync,
        ("rename", (new, file), None),
    ]
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
    # whose StageFailed has no code of its own
    importlib.import_module("pipelines.versioning.dvc_runner")
    sentence = "error: a file: is damaged; run the stage again\n"
    assert Ended(74, sentence, 0.0).refused
    assert not Ended(74, f"Traceback (most recent call last):\n{sentence}", 0.0).refused
    assert not Ended(70, "error: this is a bug; the lines above say where\n", 0.0).refused
    assert not Ended(1, sentence, 0.0).refused
    assert not Ended(74, "", 0.0).refused


def test_other_bytes_are_no_survival(tmp_path: Path) -> None:
    world = World(tmp_path / "world", stages=())
    for name in ("build/corpus/micro/a", "build/corpus/micro/results.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("whole")
    world.expected["corpus"] = outputs(tmp_path, "corpus")
    assert world.judge(Ended(0, "", 0.0), "corpus", tmp_path) == "same"
    (tmp_path / "build/corpus/micro/results.json").write_text("hole")
    assert (
        world.judge(Ended(0, "", 0.0), "corpus", tmp_path)
        == "other bytes: build/corpus/micro/results.json"
    )
    assert world.judge(Ended(74, "error: a: b", 0.0), "corpus", tmp_path) == "refused"
    assert world.judge(Ended(70, "error: this is a bug", 0.0), "corpus", tmp_path).startswith(
        "exit code 70"
    )


def test_anything_else_is_counted_and_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def attack(world: World, chance: random.Random, tries: int) -> Iterator[Verdict]:
        for outcome in ("same", "refused", "other bytes: a", "other bytes: b"):
            yield Verdict("kind", "what", outcome)

    monkeypatch.setitem(campaign.ATTACKS, "kills", (attack, 1))
    ((_, found),) = campaign.attack_all(World(tmp_path / "world", stages=()), 1, 1, ["kills"])
    counts = [
        found[key] for key in ("tried", "same_bytes", "refused_with_a_sentence", "anything_else")
    ]
    assert counts == [4, 1, 1, 2]
    assert [failure["outcome"] for failure in found["failures"]] == [
        "other bytes: a",
        "other bytes: b",
    ]


@pytest.mark.slow
def test_a_short_form_finds_nothing(tmp_path: Path) -> None:
    output = tmp_path / "reliability.json"
    words = [
        sys.executable,
        "-m",
        "benchmarks.reliability",
        "--rounds",
        "0.1",
        "--output",
        str(output),
    ]
    done = subprocess.run(
        words,
        cwd=ROOT,
        env=environment(ROOT),
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(output.read_text())
    assert found["anything_else"] == 0 and found["attacks"].keys() == campaign.ATTACKS.keys()
    assert all(each["tried"] for each in found["attacks"].values())
