"""Bars and tables of stages that run."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from pipelines.flows import artifacts


def test_progress_moves_a_bar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    moved: list[tuple[Any, ...]] = []

    def create(progress: float, key: str, description: str) -> str:
        moved.append((key, progress))
        return key

    monkeypatch.setattr(artifacts, "create_progress_artifact", create)
    monkeypatch.setattr(artifacts, "update_progress_artifact", lambda made, progress: moved.append((made, progress)))
    said: list[str] = []
    log = artifacts.show_progress("pretrain@smoke", said.append, tmp_path)
    log("corpora.smoke  100%  15,718/15,718 bytes  156.9k/s  documents 60\npretrain smoke   10%  2/20 steps")
    log("pretrain smoke   15%  3/20 steps")  # sooner than a bar is moved again
    log("a line with 30% of something\npretrain smoke  100%  20/20 steps  9.219/s  loss 22.46")
    assert len(said) == 3
    bar = "pretrain-smoke-progress"
    assert moved == [("corpora-smoke-progress", 100.0), (bar, 10.0), (bar, 100.0)]


@pytest.mark.parametrize("gone", [False, True])
def test_the_table_of_an_ablation_is_renewed_when_an_arm_ends(
    gone: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[list[Any]] = []

    def create(key: str, table: Any, description: str) -> None:
        if gone:
            raise httpx.ConnectError("refused")
        shown.append([key, table[0]["score"], description])

    monkeypatch.setattr(artifacts, "create_table_artifact", create)
    said: list[str] = []
    log = artifacts.show_progress("ablation@a_b", said.append, tmp_path)
    log("nothing yet")
    rows = [{"arm": "one", "seed": 1, "status": "waiting or running", "score": None}]
    progress = tmp_path / "runs" / "ablation-a_b" / "progress.json"
    progress.parent.mkdir(parents=True)
    for status, score in (("waiting or running", None), ("done", 41.26), ("done", 41.26)):
        rows[0] |= {"status": status, "score": score}
        progress.write_text(json.dumps(rows))
        log("a line")
    assert said == ["nothing yet", *["a line"] * 3], "a server that has gone stops nothing"
    key = "ablation-a-b-progress"
    expected = [[key, "", "a_b: 0 of 1 runs have ended"], [key, "41.3", "a_b: 1 of 1 runs have ended"]]
    assert shown == ([] if gone else expected)
