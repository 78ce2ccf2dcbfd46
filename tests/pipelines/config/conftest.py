"""Shared by the tests of params.yaml."""

import pytest

from electra.errors import BadConfig
from pipelines.config.params import load
from tests.support.project import SMOKE


@pytest.fixture
def load_text(tmp_path):
    """A function that loads a params.yaml of a text, each (old, new) replaced in it once."""

    def load_text(*changes, text=SMOKE):
        for old, new in changes:
            assert old in text
            text = text.replace(old, new, 1)
        path = tmp_path / "params.yaml"
        path.write_text(text)
        return load(path)

    return load_text


@pytest.fixture
def refuse(load_text):
    """The same for a text that must be refused: a function that returns the sentence."""

    def refuse(*changes, text=SMOKE):
        with pytest.raises(BadConfig) as caught:
            load_text(*changes, text=text)
        sentence = str(caught.value)
        assert "\n" not in sentence and "params.yaml" in sentence
        return sentence

    return refuse
