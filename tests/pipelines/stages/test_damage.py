"""Whatever a stage reads of earlier ones is verified: damage is one sentence, and nothing is
trained or written.
"""

import dataclasses
import shutil
from pathlib import Path

import pytest

from electra.errors import CorruptFile
from electra.storage.manifest import write_manifest
from pipelines.cli import main
from pipelines.config.params import load
from pipelines.stages import tokens
from pipelines.stages.pretrain import ModelRows
from tests.support.project import SMOKE, copy_text, each_with_some, harm

TOKENIZER = ["tokenizer.json", "vocab.txt", "tokenizer_config.json", "MANIFEST.json"]
MODEL = ["config.json", "model.safetensors", *TOKENIZER]
TASKS = ["cola/train.jsonl", "cola/dev.jsonl", "mnli/dev_mismatched.jsonl", "MANIFEST.json"]
ROWS = ["MANIFEST.json", "train-00000.ids", "train-00000.bounds", "valid-00000.ids"]
HOW = ["flipped", "cut", "folder", "missing"]


def refused(arguments, path, capsys):
    """The one sentence; the exit code is that of damage, and nothing is left behind."""
    assert main(arguments) == CorruptFile.exit_code
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "Traceback" not in said
    assert str(path.parent) in said and " run " in said
    for place in ("build/glue", "build/squad", "results/small", "results/smoke"):
        assert not Path(place).exists()
    return said


@pytest.mark.parametrize(
    "name, how",
    each_with_some(
        [f"models/small/encoder/{name}" for name in MODEL]
        + [f"tasks/made_up/{name}" for name in TASKS],
        HOW,
    ),
)
def test_fine_tuning_takes_no_damaged_model_or_rows(small, name, how, capsys):
    path = Path("build") / name
    harm(path, how)
    again = "tasks made_up" if "tasks" in name else "pretrain small"
    assert f"run `electra {again}` to make it again" in refused(["glue", "small"], path, capsys)


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """A corpus and its rows."""
    folder = tmp_path_factory.mktemp("rows")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        (folder / "params.yaml").write_text(SMOKE)
        copy_text(folder)
        for stage in ("corpus", "tokens"):
            assert main([stage, "smoke"]) == 0
    return folder


@pytest.fixture
def copied(rows, tmp_path, monkeypatch):
    shutil.copytree(rows, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    "name, how", each_with_some([*TOKENIZER, *(f"rows-16/{name}" for name in ROWS)], HOW)
)
def test_pretraining_takes_no_damaged_rows_or_tokenizer(copied, name, how, capsys):
    path = Path("build/tokens/smoke") / name
    harm(path, how)
    refused(["pretrain", "smoke"], path, capsys)
    assert not Path("runs/pretrain").exists()


@pytest.mark.parametrize("name", ["MANIFEST.json", "documents-00000.jsonl"])
@pytest.mark.parametrize("how", HOW)
def test_tokens_takes_no_damaged_corpus(copied, name, how, capsys):
    path = Path("build/corpus/smoke") / name
    harm(path, how)
    said = refused(["tokens", "smoke"], path, capsys)
    assert said.endswith("run `electra corpus smoke` to make it again\n")


def test_what_belongs_to_another_name_is_refused(small, capsys):
    path = Path("build/tasks/made_up/cola/test.jsonl")
    path.write_text("{}\n")
    assert "test.jsonl: is not in MANIFEST.json" in refused(["glue", "small"], path, capsys)
    path.unlink()
    model = Path("build/models/small/encoder")
    (model / "MANIFEST.json").unlink()
    write_manifest(model, kind="network", model="other", part="encoder")
    said = refused(["glue", "small"], model / "MANIFEST.json", capsys)
    assert "says model 'other' instead of 'small'" in said


def test_rows_of_another_length_or_name_are_refused(copied):
    params = load()
    config = params.models["smoke"].electra()
    shutil.move("build/tokens/smoke/rows-16", "build/tokens/smoke/rows-17")
    with pytest.raises(CorruptFile, match=r"rows-16/MANIFEST\.json: is missing"):
        ModelRows(params, "smoke", config)
    shutil.copytree("build/corpus/smoke", "build/corpus/other")
    wanted = dataclasses.replace(params.tokens["smoke"], corpus="other")
    with pytest.raises(CorruptFile, match="says name 'smoke' instead of 'other'"):
        tokens.make_rows(wanted, "x")
