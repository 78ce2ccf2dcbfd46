"""Keys that settings had once: still understood, said once, and still the identity of a run."""

import pytest

from electra.config import build, digest, plain, written
from electra.errors import BadConfig
from electra.pretraining.config import PretrainConfig, of_config
from tests.electra.helpers import config

NEEDED = {"batch": 8, "steps": 20, "length": 24, "learning_rate": 1e-3, "warmup": 2}
RENAMED = {
    "keep": ("keep_checkpoints", 5),
    "generator_rate": ("generator_lr_scale", 4.0),
    "eval_minutes": ("min_eval_interval_minutes", 3.0),
    "save_minutes": ("min_save_interval_minutes", 2.0),
}


@pytest.mark.parametrize("old", RENAMED)
def test_a_key_is_understood_by_its_old_name_with_one_warning(old: str, capsys: pytest.CaptureFixture[str]) -> None:
    new, value = RENAMED[old]
    for _ in range(2):
        assert getattr(build(PretrainConfig, {**NEEDED, old: value}, f"of {old}"), new) == value
    assert capsys.readouterr().err == f"warning: of {old}.{old} is now called {new}: rename it\n"
    with_both = {**plain(build(PretrainConfig, NEEDED, "")), old: value}  # as an arm or a second file adds it
    assert getattr(build(PretrainConfig, with_both, "here"), new) == value


@pytest.mark.parametrize(("key", "value"), [("parallel", "ddp"), ("compile", "on")])
def test_a_value_without_effect_is_ignored_with_a_warning(key, value, capsys):
    assert build(PretrainConfig, {**NEEDED, key: value}, "p") == build(PretrainConfig, NEEDED, "p")
    assert capsys.readouterr().err.startswith(f"warning: p.{key}: {value} is ignored: ")


def test_a_removed_value_that_asked_for_another_run_is_refused_with_what_to_do() -> None:
    with pytest.raises(BadConfig, match=r"^p\.parallel: is 'fsdp'; expected no such key: .*; delete it; accumulate "):
        build(PretrainConfig, {**NEEDED, "parallel": "fsdp"}, "p")
    with pytest.raises(BadConfig, match=r"^p\.compile: is 'maybe'; expected one of auto, off$"):
        build(PretrainConfig, {**NEEDED, "compile": "maybe"}, "p")


def test_the_identity_of_a_run_outlives_the_names_of_its_settings() -> None:
    """These digests were taken before `keep` and the others were renamed, and `parallel` went."""
    settings = config(**{f"pretrain__{key}": value for key, value in RENAMED.values()})
    assert digest(of_config(settings)) == "24cf6ca98c436e8f"
    assert written(settings)["pretrain"].items() >= {old: value for old, (_, value) in RENAMED.items()}.items()
