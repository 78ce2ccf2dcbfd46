"""What a fingerprint holds: every setting is classified, and of code what is executed."""

import dataclasses

from electra.pretraining.config import NO_BEARING, PretrainConfig, of_config
from electra.storage.fingerprint import changed_files, describe, differences, of_code
from tests.electra.helpers import config

# Adding a setting means deciding here, or in NO_BEARING, whether it bears on the result.
BEARING = """
length batch steps phases learning_rate generator_lr_scale warmup weight_decay beta1 beta2 eps bias_correction schedule
decay_share clip accumulate seed precision eval_every eval_batches
"""
BEARING = set(BEARING.split())


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
        return of_code(tmp_path, ["room"])["room/a.py"]

    first = digest(SOURCE)
    assert digest(SOURCE.replace("A thing.", "Another thing.").replace("what for", "paths")) == first
    assert digest(SOURCE.replace('"""A module."""\n', "").replace('        """Answer."""\n', "")) == first
    assert digest(SOURCE.replace('(["a", "b"])', "(\n            ['a', 'b']\n        )")) == first
    for old, new in (("= 1", "= 2"), ("None", "a"), ('"b"', '"c"'), ("if a", "if not a"), ("answer(", "answers(")):
        assert digest(SOURCE.replace(old, new)) != first, new
    for printed in ("print(a)", "self.notify(a)", "raise A('x')"):
        assert digest(SOURCE.replace("        return", f"        {printed}\n        return")) != first
    digest(SOURCE)
    (tmp_path / "room" / "b.py").write_text("")
    code = of_code(tmp_path, ["room", "room/a.py"])
    assert list(code) == ["room/a.py", "room/b.py"] and code["room/a.py"] == first


def test_changed_files_are_named():
    old = {f"{name}.py": name for name in "abcdef"}
    assert changed_files(old, old) == "" == changed_files({}, {})
    assert changed_files(old, {**old, "a.py": "x", "g.py": "g"}) == "a.py, g.py"
    assert changed_files(old, {"a.py": "a"}) == "b.py, c.py, d.py, e.py and 1 more"


def test_differences_are_read_as_dotted_keys():
    old = {"config": {"pretrain": {"steps": 800, "steps_": {}}, "x": None}, "train": "1"}
    new = {"config": {"pretrain": {"steps": {"flops": 1.5}, "steps_": {}}, "x": None}, "train": "2"}
    changes = differences(old, new)
    assert changes == {"pretrain.steps": [800, None], "train": ["1", "2"], "pretrain.steps.flops": [None, 1.5]}
    assert describe(changes) == "pretrain.steps 800 -> none, train 1 -> 2, pretrain.steps.flops none -> 1.5"
    assert differences(old, old) == {}
    assert describe({"train": ["0" * 64, "1" * 64]}) == f"train {'0' * 12}… -> {'1' * 12}…"
