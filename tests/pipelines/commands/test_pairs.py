"""`electra pairs`: rows under BLiMP's names or short ones, and a sentence for a row that is no pair."""

import json
from pathlib import Path

import pytest

from pipelines.cli import main
from tests.electra.made_up_models import write_pretrained


def test_each_paradigm_has_a_line_and_a_bad_row_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_pretrained(tmp_path)
    rows = [
        {"sentence_good": "the dog ate", "sentence_bad": "the dog dog", "UID": "verbs"},
        {"good": "the chef", "bad": "chef the", "id": "order"},
    ]
    path = tmp_path / "pairs.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert main(["pairs", str(tmp_path / "discriminator"), str(path)]) == 0
    *lines, mean = capsys.readouterr().out.splitlines()
    assert sorted(line.split()[1] for line in lines) == ["order", "verbs"] and mean.endswith("mean of 2")
    path.write_text(json.dumps(rows[0]) + '\n{"good": "x"}\n')
    assert main(["pairs", str(tmp_path / "generator"), str(path)]) == 65
    assert f"{path}:2: is no pair; expected a row with sentence_good" in capsys.readouterr().err
