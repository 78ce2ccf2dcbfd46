"""Bars of stages that run."""

import httpx
import pytest

from pipelines.flows import artifacts


@pytest.mark.parametrize("is_gone", [False, True])
def test_progress_lines_move_bars(is_gone, monkeypatch):
    moves = []

    def create(**values):
        if is_gone:
            raise httpx.ConnectError("refused")
        moves.append((values["key"], values["progress"]))
        return "id"

    monkeypatch.setattr("prefect.artifacts.create_progress_artifact", create)
    monkeypatch.setattr(
        "prefect.artifacts.update_progress_artifact", lambda _, progress: moves.append(progress)
    )
    logged = []
    log = artifacts.show_progress(logged.append)
    lines = [
        "nothing",
        "pretrain a_b  10%  1/10 steps",
        "pretrain a_b  20%  2/10 steps",
        "pretrain a_b  100%  10/10 steps",
    ]
    for line in lines:
        log(line)
    assert logged == lines, "a server that has gone stops nothing"
    assert moves == ([] if is_gone else [("pretrain-a-b-progress", 10.0), 100.0])


def test_numbers_and_words_are_rows_and_lists_are_not():
    rows = artifacts.number_rows({"cola": {"mean": 81.23456, "scores": [1.0]}, "label": "here"})
    assert [row["number"] for row in rows] == ["cola.mean", "label"]
    assert [row["value"] for row in rows] == ["81.23", "here"]
