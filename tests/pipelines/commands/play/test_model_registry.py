"""A name or a folder becomes the models that are there; for what is not, a sentence names the command that makes it."""

import re
from pathlib import Path

import pytest

from electra.errors import BadConfig, BadInput
from pipelines.commands.play.model_registry import ModelRegistry
from tests.conftest import SMOKE


def test_a_name_is_what_its_stages_left(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(checkout)
    registry = ModelRegistry.open(None)
    assert (registry.name, registry.data) == ("smoke", "sample world + smoke")
    assert set(registry.models) == {"discriminator", "generator"} and registry.texts == ["the cat,s"]
    assert list(registry.commands) == ["electra glue smoke", "electra squad smoke"]
    assert {title: str(each.folder) for title, each in registry.tuned.items()} == {
        "RTE": "build/glue/smoke/rte/pretrained-seed2",
        "SQuAD 2.0": "build/squad/smoke/2.0/pretrained-seed1",
    }
    row = {"sentence1": "the cat is red.", "sentence2": "the cat is black."}
    assert registry.about(registry.tuned["RTE"]) == {
        "kind": "classes",
        "fields": ("sentence1", "sentence2"),
        "labels": {"entailment": "entailed", "not_entailment": "not entailed"},
        "examples": [{"row": row, "wanted": "not entailed"}],
    }
    (example,) = registry.about(registry.tuned["SQuAD 2.0"])["examples"]
    assert example["wanted"] == "corn" and set(example["row"]) == {"question", "context"}


def test_a_model_that_nothing_is_fine_tuned_from(checkout, tmp_path, monkeypatch):
    none = re.sub(r"finetunings:\n(  .*\n)+", "finetunings: {}\n", SMOKE).replace("models: [smoke]", "models: []")
    (tmp_path / "params.yaml").write_text(none)
    (tmp_path / "build").symlink_to(checkout / "build")
    monkeypatch.chdir(tmp_path)
    registry = ModelRegistry.open("smoke")
    assert set(registry.models) == {"discriminator", "generator"} and not registry.tuned
    assert (registry.data, list(registry.commands)) == ("smoke", ["electra new NAME --task FILE --model smoke"])


def test_what_is_not_there(checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(checkout)
    with pytest.raises(BadConfig, match=r"did you mean smoke?"):
        ModelRegistry.open("smok")
    with pytest.raises(BadInput, match="holds nothing to play with"):
        ModelRegistry.open(str(tmp_path))
    with pytest.raises(BadInput, match="holds nothing to play with"):
        ModelRegistry.open("made/encoder")
    tuned = ModelRegistry.open("made/rte")
    assert list(tuned.tuned) == ["rte"] and not tuned.models
