"""Whatever a model is asked ends in answers or a sentence; ten thousand more: `benchmarks.reliability --only rows`."""

import functools
import random
from collections import Counter
from pathlib import Path

import pytest

from pipelines.commands import predict
from tests.pipelines import bad_predict


def test_anything_asked_is_answered_or_refused_with_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    models = bad_predict.models(tmp_path / "models")
    monkeypatch.setattr(predict, "load_model", functools.cache(predict.load_model))
    found: Counter[str] = Counter()
    draw = random.Random(1)
    for _ in range(200):
        found.update(bad_predict.ask(draw.choice(models), tmp_path, draw))
    assert found["answered"] + found["refused with a sentence"] == 200
    assert found["answered"] > 20 and found["rows"] > 30 and found["refused with a sentence"] > 50
