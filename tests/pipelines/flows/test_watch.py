"""Bars and tables of what runs."""

import json
from pathlib import Path
from typing import Any

import pytest


def test_a_server_that_vanishes_under_an_ablation_leaves_it_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import httpx

    from pipelines.flows import watch

    def vanished(**_: Any) -> None:
        raise httpx.ConnectError("refused")

    monkeypatch.setattr(watch, "create_table_artifact", vanished)
    said: list[str] = []
    log = watch.watching("a", said.append, tmp_path)
    progress = tmp_path / "runs" / "ablation-a" / "progress.json"
    progress.parent.mkdir(parents=True)
    progress.write_text(json.dumps([{"arm": "one", "seed": 1, "status": "done", "score": 1.0}]))
    log("a line")
    assert said == ["a line"]


def test_what_tells_its_progress_has_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    from pipelines.flows import watch

    told: list[tuple[Any, ...]] = []

    def create(progress: float, key: str, description: str) -> str:
        told.append((key, progress))
        return key

    monkeypatch.setattr(watch, "create_progress_artifact", create)
    monkeypatch.setattr(watch, "update_progress_artifact", lambda made, progress: told.append((made, progress)))
    said: list[str] = []
    log = watch.bars(said.append)
    log("corpora.smoke  100%  15,718/15,718 bytes  156.9k/s  documents 60\npretrain smoke   10%  2/20 steps")
    log("pretrain smoke   15%  3/20 steps")  # sooner than a bar is renewed
    log("a line with 30% of something\npretrain smoke  100%  20/20 steps  9.219/s  loss 22.46")
    assert len(said) == 3
    assert told == [
        *(("corpora-smoke-progress", 100.0), ("pretrain-smoke-progress", 10.0), ("pretrain-smoke-progress", 100.0)),
    ]


def test_a_watched_experiment_renews_its_table_when_an_arm_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pipelines.flows import watch

    shown: list[list[Any]] = []
    monkeypatch.setattr(
        watch, "create_table_artifact", lambda key, table, description: shown.append([key, table, description])
    )
    said: list[str] = []
    log = watch.watching("a_b", said.append, tmp_path)
    log("nothing yet")
    rows = [{"arm": "one", "seed": 1, "status": "waiting or running", "score": None}]
    progress = tmp_path / "runs" / "ablation-a_b" / "progress.json"
    progress.parent.mkdir(parents=True)
    for status, score in (("waiting or running", None), ("done", 41.26), ("done", 41.26)):
        rows[0] |= {"status": status, "score": score}
        progress.write_text(json.dumps(rows))
        log("a line")
    assert said == ["nothing yet", *["a line"] * 3]
    assert [(key, table[0]["score"], words) for key, table, words in shown] == [
        ("ablation-a-b-progress", "", "a_b: 0 of 1 runs have ended"),
        ("ablation-a-b-progress", "41.3", "a_b: 1 of 1 runs have ended"),
    ]
