"""A run's numbers in memory, and their copy on disk: written anew from what a checkpoint held, then line by line."""

import json
from pathlib import Path

from electra.storage.history import History


def test_the_copy_begins_with_what_was_held_and_grows_by_lines(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 9}\n')  # of steps that a resumed run takes again
    history = History(path, [{"step": 1, "loss": 2.5}])
    history.append({"step": 2, "loss": 2.0})
    assert history.records == [json.loads(line) for line in path.read_text().splitlines()]
    assert path.read_text() == '{"loss": 2.5, "step": 1}\n{"loss": 2.0, "step": 2}\n'


def test_a_process_that_writes_nothing_keeps_its_numbers() -> None:
    held = [{"step": 1}]
    history = History(None, held)
    history.append({"step": 2})
    assert history.records == [{"step": 1}, {"step": 2}] and held == [{"step": 1}]
