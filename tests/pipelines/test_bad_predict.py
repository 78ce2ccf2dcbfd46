"""Whatever a model is asked ends in answers or a sentence."""

import functools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from electra.finetuning.folder import load_model
from pipelines.cli import predict
from tests.support import bad_predict


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    return bad_predict.models(tmp_path_factory.mktemp("models"))


@pytest.fixture(autouse=True, scope="module")
def loaded_once():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(predict, "load_model", functools.cache(load_model))
        yield


@pytest.mark.parametrize("number", range(len(bad_predict.MODELS)), ids=bad_predict.MODELS)
def test_good_rows_are_answered(models, number, tmp_path):
    """Or all that is generated below could be refused for what is the matter with none of it."""
    file = ("rows.jsonl", "\n".join(bad_predict.GOOD).encode())
    assert bad_predict.ask(models[number], tmp_path, file, piped=False) == "answered"


@settings(deadline=None, max_examples=150)
@given(st.integers(0, len(bad_predict.MODELS) - 1), bad_predict.files(), st.booleans())
def test_anything_asked_is_answered_or_refused_with_a_sentence(
    models, tmp_path_factory, number, file, piped
):
    bad_predict.ask(models[number], tmp_path_factory.getbasetemp(), file, piped)
