"""`electra pairs`: rows under BLiMP's names or short ones, and a sentence for a row that is no pair."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pipelines.cli import main
from pipelines.commands.pairs import BLIMP
from tests.electra.made_up_models import write_pretrained
from tests.pipelines.sources.bad_input import parquet
from tests.pipelines.sources.hub_server import Hub

ROOT = Path(__file__).resolve().parents[3]


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


@pytest.mark.slow
def test_blimp_comes_from_the_hub_by_paradigm(tmp_path: Path) -> None:
    write_pretrained(tmp_path)
    names = ("agreement", "islands")
    row = {"sentence_good": "the dog ate", "sentence_bad": "the dog dog", "pair_id": 0}
    files = {f"{name}/train-00000-of-00001.parquet": parquet([{**row, "UID": name}]) for name in names}
    readme = [f"- config_name: {name}\n  data_files:\n  - split: train\n    path: {name}/train-*" for name in names]
    files["README.md"] = "\n".join(["---", "configs:", *readme, "---", ""]).encode()
    environment = {key: value for key, value in os.environ.items() if not key.startswith("HF_")}
    environment |= {"HF_HOME": str(tmp_path / "home"), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "pipelines", "pairs", str(tmp_path / "generator")]
    with Hub({BLIMP: files}) as hub:
        environment["HF_ENDPOINT"] = hub.url  # read once, at the library's import: hence a process of its own
        done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    *lines, mean = done.stdout.splitlines()
    assert sorted(line.split()[1] for line in lines) == ["agreement", "islands"] and mean.endswith("mean of 2")
