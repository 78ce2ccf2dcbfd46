"""The models that Prefect's page offers."""

from pathlib import Path

import pytest

from pipelines.flows import choice
from tests.conftest import SMOKE


def test_the_models_of_the_checkout_are_offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "ROOT", tmp_path)
    assert choice.known() == []  # the run itself says what is wrong with params.yaml
    (tmp_path / "params.yaml").write_text(SMOKE.replace("published: {}", "published: {theirs: {folder: x}}"))
    assert choice.known() == ["smoke", "base", "theirs"]
    (tmp_path / "params.yaml").write_text("models: [")
    assert choice.known() == []
