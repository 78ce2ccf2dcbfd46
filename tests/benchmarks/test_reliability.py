"""The reliability campaign would see a fault, and a short one finds none."""

import random

import pytest

from benchmarks.reliability import power
from benchmarks.reliability.__main__ import count_by_kind
from benchmarks.reliability.attacks import ATTACKS
from benchmarks.reliability.world import Ended, Verdict, World
from electra.files import read_json
from tests.support.project import ROOT, files_of, run

CREATE = ("create", "new", True)
WRITE = ("write", "new", b"data")
RENAME = ("rename", "new", "file")
UNSYNCED = {b"old", b"data", b"", b"da", bytes(4), b"da" + bytes(2)}  # with any other length, too


@pytest.mark.parametrize(
    "changes, possible",
    [
        ([CREATE, WRITE, RENAME], UNSYNCED),
        ([CREATE, WRITE, ("fsync", "new", None), RENAME], {b"old", b"data"}),
        ([CREATE, WRITE, ("fsync", "new", None), RENAME, ("fsync", ".", None)], {b"data"}),
    ],
    ids=["without fsync", "file fsynced", "file and folder fsynced"],
)
def test_power_cut_states_follow_from_fsync(tmp_path, changes, possible):
    root = tmp_path / "root"
    root.mkdir()
    (root / "file").write_bytes(b"old")
    disk = power.Disk(root)
    with (root / "handle").open("wb") as handle:
        for what, name, data in changes:
            if what == "rename":
                disk.change(what, (root / name, root / data), None)
            else:
                disk.change(what, (root / name,), (handle, data) if what == "write" else data)
    states = set()
    for seed in range(200):
        disk.cut_power(tmp_path / f"{seed}", random.Random(seed))
        states.add(files_of(tmp_path / f"{seed}")["file"])
    assert possible <= states
    assert states == possible or possible == UNSYNCED


def test_refusal_needs_a_sentence_an_exit_code_and_no_traceback():
    sentence = "error: a file: is damaged; run the stage again\n"
    assert Ended(74, sentence, 0.0).refused
    bug = "error: this is a bug; the lines above say where\n"
    for code, output in ((74, f"Traceback\n{sentence}"), (74, ""), (70, bug), (1, sentence)):
        assert not Ended(code, output, 0.0).refused, (code, output)


def test_other_bytes_are_a_bug_and_counted(tmp_path):
    world = World(tmp_path / "world", stages=())
    results = tmp_path / "build/corpus/micro/results.json"
    results.parent.mkdir(parents=True)
    results.write_text("whole")
    world.expected["corpus"] = world.outputs(tmp_path, "corpus")
    outcomes = [world.judge(Ended(0, "", 0.0), "corpus", tmp_path)]
    results.write_text("hole")
    ends = [Ended(0, "", 0.0), Ended(74, "error: a: b", 0.0), Ended(1, "error: a bug", 0.0)]
    outcomes += [world.judge(ended, "corpus", tmp_path) for ended in ends]
    assert outcomes == [
        "same",
        "other bytes: micro/results.json",
        "refused",
        "exit code 1: error: a bug",
    ]
    counts = count_by_kind(Verdict("kind", "what", outcome) for outcome in outcomes)
    assert counts["kinds"] == {"kind": {"tried": 4, "same": 1, "refused": 1, "bugs": 2}}
    assert [bug["outcome"] for bug in counts["bugs"]] == [outcomes[1], outcomes[3]]


@pytest.mark.slow
def test_short_campaign_finds_nothing(tmp_path):
    output = tmp_path / "reliability.json"
    run(ROOT, "-m", "benchmarks.reliability", "--rounds", "0.1", "--output", str(output))
    counts = read_json(output)
    assert counts["total"]["bugs"] == 0 and counts["total"]["tried"] >= len(ATTACKS)
