"""What a fingerprint holds: every setting is classified, and of code what is executed."""

import dataclasses

from electra.pretraining.config import NO_BEARING, PretrainConfig, of_config
from electra.storage.fingerprint import describe, differences, of_code
from tests.electra.helpers import config

BEARING = {
    "optimizer",
    "momentum",
    "decay_share",
    "phases",
    "phase_schedule",  # adding a setting means deciding here, or in NO_BEARING, whether it bears on the result
    *(
        "length",
        "batch",
        "steps",
        "learning_rate",
        "warmup",
        "weight_decay",
        "beta1",
        "beta2",
        "eps",
        "bias_correction",
    ),
    *("generator_rate", "schedule", "clip", "accumulate", "seed", "precision", "eval_every", "eval_batches"),
}


def test_every_setting_of_pre_training_is_classified():
    fields = {field.name for field in dataclasses.fields(PretrainConfig)}
    assert fields == BEARING | NO_BEARING and not BEARING & NO_BEARING
    assert set(of_config(config())["pretrain"]) == BEARING
    assert set(of_config(config())) == {"encoder", "generator", "objective", "pretrain"}


SOURCE = '''"""A module."""
import os  # what for


class Thing:
    """A thing."""

    def answer(self, a: int = 1) -> str:
        """Answer."""
        return "".join(["a", "b"]) if a else None
'''


def test_comments_docstrings_and_layout_are_no_code(tmp_path):
    def digest(text):
        (tmp_path / "room").mkdir(exist_ok=True)
        (tmp_path / "room" / "a.py").write_text(text)
        return of_code(tmp_path, ["room"])["room"]

    first = digest(SOURCE)
    assert digest(SOURCE.replace("A thing.", "Another thing.").replace("what for", "paths")) == first
    assert digest(SOURCE.replace('"""A module."""\n', "").replace('        """Answer."""\n', "")) == first
    assert digest(SOURCE.replace('(["a", "b"])', "(\n            ['a', 'b']\n        )")) == first
    for old, new in (("= 1", "= 2"), ("None", "a"), ('"b"', '"c"'), ("if a", "if not a"), ("answer(", "answers(")):
        assert digest(SOURCE.replace(old, new)) != first, new
    digest(SOURCE)
    (tmp_path / "room" / "b.py").write_text("")
    assert of_code(tmp_path, ["room"])["room"] != first


def test_differences_are_read_as_dotted_keys():
    old = {
        "config": {"pretrain": {"steps": 800, "steps_": {}}, "x": None},
        "code": {"electra/nn": "1", "gone.py": "2"},
    }
    new = {"config": {"pretrain": {"steps": {"flops": 1.5}, "steps_": {}}, "x": None}, "code": {"electra/nn": "3"}}
    changes = differences(old, new)
    assert changes == {
        "pretrain.steps": [800, None],
        "code.electra/nn": ["1", "3"],
        "code.gone.py": ["2", None],
        "pretrain.steps.flops": [None, 1.5],
    }
    said = describe(changes)
    assert said == "pretrain.steps 800 -> none, pretrain.steps.flops none -> 1.5, other code in electra/nn, gone.py"
    assert differences(old, old) == {}
    assert describe({"train": ["0" * 64, "1" * 64]}) == f"train {'0' * 12}… -> {'1' * 12}…"
