"""Bars and tables of stages that run."""

import json
from typing import Any

import httpx
import pytest

from pipelines.flows import artifacts


@pytest.mark.parametrize("gone", [False, True])
def test_the_table_of_an_ablation_is_renewed_when_an_arm_ends(gone, tmp_path, monkeypatch):
    shown: list[list[Any]] = []

    def create(key: str, table: Any, description: str) -> None:
        if gone:
            raise httpx.ConnectError("refused")
        shown.append([key, table[0]["score"], description])

    monkeypatch.setattr("prefect.artifacts.create_table_artifact", create)
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
    expected = [
        [key, "", "a_b: 0 of 1 runs have ended"],
        [key, "41.3", "a_b: 1 of 1 runs have ended"],
    ]
    assert shown == ([] if gone else expected)
